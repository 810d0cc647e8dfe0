"""Writes to a table with ``optimize_write``: files of a good size from however many tasks, in every way to write."""

import lance
import pytest
from support.spark_settings import settings_of

from lance_spark.catalog.staging import alter_properties
from lance_spark.storage.datasets import locate

pytestmark = [pytest.mark.spark, pytest.mark.when(day=0.1, newest=0.8, oldest=0.4)]

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


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", ["true", "false"])
def test_many_tasks_with_few_rows_leave_few_files(spark, lake, way, value):
    key = SPELLINGS[len(way) % 2]
    spark.sql(f"CREATE TABLE lake.ns1.t (id INT, word STRING, v BIGINT) TBLPROPERTIES ('{key}' = '{value}')")
    rows = spark.sql(ROWS)
    WAYS[way](rows, "lake.ns1.t")
    assert sorted(spark.table("lake.ns1.t").collect()) == sorted(rows.collect())
    assert (fragments(lake.table("ns1.t").location.uri) == 16) == (value == "false")


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


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_without_adaptive_execution_no_task_is_made_that_leaves_a_small_file(spark, lake, adaptive):
    spark.sql("CREATE TABLE lake.ns1.t (id INT, word STRING, v BIGINT) TBLPROPERTIES (optimize_write = 'true')")
    with settings_of(spark, {"spark.sql.adaptive.enabled": adaptive, "spark.sql.shuffle.partitions": "40"}):
        spark.sql(f"INSERT INTO lake.ns1.t {ROWS}")
    assert fragments(lake.table("ns1.t").location.uri) == (1 if adaptive == "true" else 16)
    assert spark.table("lake.ns1.t").count() == 4000


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


def test_a_layout_counts_more(spark, lake):
    spark.sql(f"CREATE TABLE lake.ns1.t PARTITIONED BY (v) TBLPROPERTIES (optimize_write = 'true') AS {ROWS}")
    assert fragments(lake.table("ns1.t").location.uri) == 7
    assert spark.table("lake.ns1.t").count() == 4000


def test_a_value_that_means_nothing_is_refused_where_it_is_set(spark, lake):
    with pytest.raises(Exception, match="must be true or false"):
        spark.sql("CREATE TABLE lake.ns1.t (id INT) TBLPROPERTIES ('optimize_write' = 'often')")
