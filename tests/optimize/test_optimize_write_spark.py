"""Writes to a table with ``optimize_write``: files of a good size from however many tasks, in every way to write."""

import lance
import pytest
from support.spark_settings import settings_of

from lance_spark import LanceTable
from lance_spark.catalog.staging import alter_properties
from lance_spark.storage.datasets import locate

pytestmark = [pytest.mark.spark, pytest.mark.when(day=0.1, newest=0.5, oldest=0.3)]

ROWS = "SELECT CAST(id AS INT) AS id, CAST(NULL AS STRING) AS word, id % 7 AS v FROM range(0, 4000, 1, 16)"
WAYS = {
    "INSERT": lambda rows, name: rows.sparkSession.sql(f"INSERT INTO {name} {ROWS}"),
    "INSERT OVERWRITE": lambda rows, name: rows.sparkSession.sql(f"INSERT OVERWRITE {name} {ROWS}"),
    "writeTo": lambda rows, name: rows.writeTo(name).append(),
    "insertInto": lambda rows, name: rows.write.insertInto(name),
    "saveAsTable": lambda rows, name: rows.write.mode("append").saveAsTable(name),
}
SPELLINGS = ("optimize_write", "delta.autoOptimize.optimizeWrite")


def fragments(uri):
    return len(lance.dataset(uri).get_fragments())


@pytest.mark.on_connect
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", ["true", "false"])
def test_many_tasks_with_few_rows_leave_few_files(spark, lake, way, value):
    key = SPELLINGS[len(way) % 2]
    spark.sql(f"CREATE TABLE lake.ns1.t (id INT, word STRING, v BIGINT) TBLPROPERTIES ('{key}' = '{value}')")
    rows = spark.sql(ROWS)
    WAYS[way](rows, "lake.ns1.t")
    assert sorted(spark.table("lake.ns1.t").collect()) == sorted(rows.collect())
    assert (fragments(lake.table("ns1.t").location.uri) == 16) == (value == "false")


def save(rows, table, mode="append", **options):
    rows.write.format("lance").mode(mode).options(**options).save(table.location.uri)


TO_A_PATH = {
    "save": (None, save),
    "save, overwriting": (None, lambda rows, table: save(rows, table, "overwrite")),
    "save to a branch": ("exp", lambda rows, table: save(rows, table, branch="exp")),
    "save to a new branch": ("new", lambda rows, table: save(rows, table, branch="new", create_branch=True)),
    "t.write": (None, lambda rows, table: table.write(rows)),
    "t.write, overwriting": (None, lambda rows, table: table.write(rows, mode="overwrite")),
    "t.write to a branch": ("exp", lambda rows, table: table.checkout(branch="exp").write(rows)),
}
IN_PLAIN_TYPES, NESTED = ROWS, f"SELECT *, array(id) AS list, struct(v) AS pair FROM ({ROWS})"


@pytest.mark.when(day=0.05, newest=0.5, oldest=0.3)
@pytest.mark.parametrize("way", TO_A_PATH)
@pytest.mark.parametrize("columns", [IN_PLAIN_TYPES, NESTED], ids=["plain types", "nested types"])
@pytest.mark.parametrize("value", ["true", "false", None])
def test_writes_to_a_path_as_well(spark, uri, both_ways, way, columns, value):
    rows = spark.sql(columns)
    lance.write_dataset(spark.sql(f"{columns} LIMIT 0").toArrow(), uri)
    if value is not None:
        alter_properties(locate(uri), None, {"optimize_write": value})
    table = LanceTable.for_path(uri, spark=spark)
    table.branches.create("exp")
    branch, write = TO_A_PATH[way]
    write(rows, table)
    dataset = lance.dataset(uri) if branch is None else lance.dataset(uri).checkout_version((branch, None))
    assert dataset.count_rows() == 4000
    obeys = value == "true" and (both_ways != "plain" or way.startswith("t.write"))
    assert (len(dataset.get_fragments()) == 16) == (not obeys)


@pytest.mark.when(day=1.0, newest=0.0, oldest=1.0)
@pytest.mark.parametrize("columns", [IN_PLAIN_TYPES, NESTED], ids=["plain types", "nested types"])
def test_native_writes_on_every_spark(spark, lake, columns):
    rows = spark.sql(columns)
    spark.sql(f"CREATE TABLE lake.ns1.t TBLPROPERTIES (optimize_write = 'true') AS {columns} LIMIT 0")
    table = lake.table("ns1.t")
    for write in (
        lambda: save(rows, table),
        lambda: table.write(rows),
        lambda: rows.writeTo("lake.ns1.t").append(),
        lambda: lake.write_table(rows, "ns1.t", mode="append"),
    ):
        before = fragments(table.location.uri)
        write()
        assert fragments(table.location.uri) - before < 16
    assert table.count_rows() == 16000


@pytest.mark.parametrize("name", ["a b", "Ä", "select"])
def test_columns_of_any_name(spark, uri, both_ways, name):
    rows = spark.sql(ROWS).withColumnRenamed("id", name)
    lance.write_dataset(rows.limit(0).toArrow(), uri)
    alter_properties(locate(uri), None, {"optimize_write": "true"})
    LanceTable.for_path(uri, spark=spark).write(rows)
    assert lance.dataset(uri).count_rows() == 4000
    assert len(lance.dataset(uri).get_fragments()) < 16


def test_a_dataframe_that_lacks_the_columns_of_the_layout(spark, uri, both_ways):
    lance.write_dataset(spark.sql(f"{ROWS} LIMIT 0").toArrow(), uri)
    table = LanceTable.for_path(uri, spark=spark)
    table.layout.partition_by("v")
    spark.sql(ROWS).drop("v").write.format("lance").mode("append").save(uri)
    assert lance.dataset(uri).count_rows() == 4000


def test_a_write_to_a_path_comes_in_the_order_of_the_layout(spark, uri, both_ways):
    rows = spark.sql(ROWS)
    rows.write.format("lance").mode("append").option("partition_by", "v").save(uri)
    rows.write.format("lance").mode("append").save(uri)
    few = both_ways != "plain"
    assert (len(lance.dataset(uri).get_fragments()) <= 2 * 7) == few
    assert lance.dataset(uri).count_rows() == 8000


def test_a_table_of_a_catalog_by_its_handle(spark, lake_of, both_ways):
    lake = lake_of.connect(spark=spark)
    lake_of.create_namespace("ns1")
    rows = spark.sql(ROWS)
    lake.write_table(rows.limit(0), "ns1.t")
    alter_properties(lake.table("ns1.t").location, None, {"optimize_write": "true"})
    lake.write_table(rows, "ns1.t", mode="append")
    table = lake.table("ns1.t")
    assert table.count_rows() == 4000
    assert fragments(table.location.uri) < 16


@pytest.mark.on_connect
def test_a_new_table_a_path_and_a_branch_of_it(spark, lake, uri):
    spark.sql(f"CREATE TABLE lake.ns1.t TBLPROPERTIES (optimize_write = 'true') AS {ROWS}")
    assert fragments(lake.table("ns1.t").location.uri) < 16
    lance.write_dataset(spark.sql(f"{ROWS} LIMIT 0").toArrow(), uri)
    lance.dataset(uri).create_branch("exp")
    alter_properties(locate(uri), None, {"optimize_write": "true"})
    for name, few in ((f"lance.`{uri}`", True), (f"lance.`{uri}@exp`", False)):
        spark.sql(f"INSERT INTO {name} {ROWS}")
        assert spark.table(name).count() == 4000
        assert (fragments(uri if few else f"{uri}/tree/exp") < 16) == few


@pytest.mark.on_connect
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_without_adaptive_execution_no_task_is_made_that_leaves_a_small_file(spark, lake, adaptive):
    spark.sql("CREATE TABLE lake.ns1.t (id INT, word STRING, v BIGINT) TBLPROPERTIES (optimize_write = 'true')")
    with settings_of(spark, {"spark.sql.adaptive.enabled": adaptive, "spark.sql.shuffle.partitions": "40"}):
        spark.sql(f"INSERT INTO lake.ns1.t {ROWS}")
    assert fragments(lake.table("ns1.t").location.uri) == (1 if adaptive == "true" else 16)
    assert spark.table("lake.ns1.t").count() == 4000


@pytest.mark.on_connect
def test_streams_leave_no_more_files_than_without_it(spark, lake, tmp_path):
    spark.sql(ROWS).write.parquet(str(tmp_path / "rows"))
    counts = {}
    for value in ("true", "false"):
        name = f"lake.ns1.t_{value}"
        spark.sql(f"CREATE TABLE {name} (id INT, word STRING, v BIGINT) TBLPROPERTIES (optimize_write = '{value}')")
        rows = spark.readStream.schema("id INT, word STRING, v BIGINT").parquet(str(tmp_path / "rows"))
        stream = rows.writeStream.option("checkpointLocation", str(tmp_path / value))
        with settings_of(spark, {"spark.sql.shuffle.partitions": "40"}):
            stream.trigger(availableNow=True).toTable(name).awaitTermination()
        assert spark.table(name).count() == 4000
        counts[value] = fragments(lake.table(f"ns1.t_{value}").location.uri)
    assert counts["true"] <= counts["false"]


@pytest.mark.on_connect
def test_a_layout_counts_more(spark, lake):
    spark.sql(f"CREATE TABLE lake.ns1.t PARTITIONED BY (v) TBLPROPERTIES (optimize_write = 'true') AS {ROWS}")
    assert fragments(lake.table("ns1.t").location.uri) == 7
    assert spark.table("lake.ns1.t").count() == 4000


@pytest.mark.on_connect
def test_a_value_that_means_nothing_is_refused_where_it_is_set(spark, lake):
    with pytest.raises(Exception, match="must be true or false"):
        spark.sql("CREATE TABLE lake.ns1.t (id INT) TBLPROPERTIES ('optimize_write' = 'often')")
