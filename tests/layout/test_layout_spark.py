"""Layouts in Spark: declared by SQL, DataFrames and handles, shown, obeyed by every write, and used by filters."""

from pathlib import Path

import lance
import pytest
from pyspark.sql import functions as F  # noqa: N812

from lance_spark import LanceTable, errors
from lance_spark.layout.facts import fragment_bounds
from lance_spark.layout.key_rules import key_column
from lance_spark.layout.layout_rules import parse
from lance_spark.storage.datasets import locate, pin_latest

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest", sample=0.1)]
COLUMNS = ["id", "CAST(id % 5 AS INT) AS day", "timestamp_seconds(id * 3600) AS ts", "concat('c', id % 7) AS c"]


def rows_of(spark, first=0, last=300):
    return spark.range(first, last).selectExpr(*COLUMNS)


def days_of(uri, branch=None):
    """The days of each fragment."""
    dataset = lance.dataset(uri) if branch is None else lance.dataset(uri).checkout_version((branch, None))
    return [{*fragment.to_table(columns=["day"])["day"].to_pylist()} for fragment in dataset.get_fragments()]


def facts_of(uri, column="day"):
    return [column in known for known in fragment_bounds(locate(uri), pin_latest(locate(uri), None), [column]).values()]


MADE = {
    "sql": lambda spark: spark.sql("CREATE TABLE lake.ns1.t PARTITIONED BY (day, cluster_by(id)) AS TABLE rows"),
    "columns": lambda spark: spark.sql(
        "CREATE TABLE lake.ns1.t (id BIGINT, day INT, ts TIMESTAMP, c STRING) PARTITIONED BY (day)"
    ),
    "writeTo": lambda spark: spark.table("rows").writeTo("lake.ns1.t").partitionedBy(F.col("day")).create(),
    "saveAsTable": lambda spark: spark.table("rows").write.partitionBy("day").saveAsTable("lake.ns1.t"),
}


def test_columns_of_a_layout_may_have_any_name(spark, lake):
    spark.sql(
        "CREATE TABLE lake.ns1.t PARTITIONED BY (`a b`, bucket(2, `ä`), truncate(2, `order`)) "
        "AS SELECT id % 2 AS `a b`, id AS `ä`, id AS `order` FROM range(6)"
    )
    assert spark.sql("SELECT count(*) FROM lake.ns1.t WHERE `A B` = 1 AND `ä` > 1").first()[0] == 2
    assert "PARTITIONED BY (`a b`" in spark.sql("SHOW CREATE TABLE lake.ns1.t").first()[0]
    spark.sql("DELETE FROM lake.ns1.t WHERE `a b` = 1")
    spark.sql("INSERT OVERWRITE lake.ns1.t PARTITION (`a b` = 0) SELECT 1L, 2L")
    assert [*map(tuple, spark.table("lake.ns1.t").collect())] == [(0, 1, 2)]


@pytest.mark.when(day=0)
@pytest.mark.parametrize("way", MADE)
def test_a_table_is_made_with_a_layout_and_all_writes_obey(spark, lake, way):
    rows_of(spark).createOrReplaceTempView("rows")
    MADE[way](spark)
    table = lake.table("ns1.t")
    uri = table.location.uri
    if way == "columns":
        spark.sql("INSERT INTO lake.ns1.t SELECT * FROM rows")
    assert table.layout.describe().partition_by == "day"
    assert "PARTITIONED BY (day" in spark.sql("SHOW CREATE TABLE lake.ns1.t").first()[0]
    spark.sql("INSERT INTO lake.ns1.t SELECT id + 1000, day, ts, c FROM rows")
    rows_of(spark, 2000, 2020).write.format("lance").mode("append").save(uri)
    spark.sql("UPDATE lake.ns1.t SET c = 'new' WHERE id < 40")
    spark.sql("MERGE INTO lake.ns1.t t USING (SELECT id + 250 AS id, day, ts, c FROM rows) s ON t.id = s.id "
              "WHEN MATCHED THEN UPDATE SET c = 'merged' WHEN NOT MATCHED THEN INSERT *")  # fmt: skip
    assert {len(days) for days in days_of(uri)} == {1}
    assert all(facts_of(uri))
    assert spark.table("lake.ns1.t").where("c = 'new'").count() == 40
    found = spark.table("lake.ns1.t").where("day = 3 AND id < 50")
    assert sorted(row.id for row in found.collect()) == [3, 8, 13, 18, 23, 28, 33, 38, 43, 48]


DECLARED = [
    ("c", lambda: [F.col("c")]),
    ("day, bucket(4, id)", lambda: [F.col("day"), F.partitioning.bucket(4, "id")]),
    ("days(ts), bucket(8, id)", lambda: [F.partitioning.days("ts"), F.partitioning.bucket(8, "id")]),
    ("years(ts)", lambda: [F.partitioning.years("ts")]),
    ("months(ts)", lambda: [F.partitioning.months("ts")]),
    ("hours(ts)", lambda: [F.partitioning.hours("ts")]),
    ("truncate(2, c)", None),
    ("truncate(10, day), c", None),
]


@pytest.mark.when(day={"way": ["sql"], "layout": ["days(ts), bucket(8, id)"]})
@pytest.mark.parametrize("way", ["sql", "sql as select", "writeTo", "a path"])
@pytest.mark.parametrize(("layout", "transforms"), DECLARED, ids=[each[0] for each in DECLARED])
def test_every_transform_is_declared_in_every_way_and_a_file_has_one_key(
    spark, lake, tmp_path, layout, transforms, way
):
    rows = rows_of(spark, last=60).coalesce(1)
    uri = None
    if way == "sql":
        spark.sql(f"CREATE TABLE lake.ns1.t (id BIGINT, day INT, ts TIMESTAMP, c STRING) PARTITIONED BY ({layout})")
        rows.writeTo("lake.ns1.t").append()
    elif way == "sql as select":
        rows.createOrReplaceTempView("rows")
        spark.sql(f"CREATE TABLE lake.ns1.t PARTITIONED BY ({layout}) AS TABLE rows")
    elif way == "a path":
        uri = str(tmp_path / "t")
        rows.write.format("lance").option("partition_by", layout).mode("append").save(uri)
    elif transforms is None:
        pytest.skip("Spark has no function for it")
    else:
        rows.writeTo("lake.ns1.t").partitionedBy(*transforms()).create()
    table = lake.table("ns1.t") if uri is None else LanceTable.for_path(uri)
    told = table.layout.describe()
    assert (told.partition_by, told.with_facts, told.problem) == (layout, told.fragments, None)
    parts = parse(layout, None).partition
    keys = []
    for fragment in lance.dataset(table.location.uri).get_fragments():
        found = fragment.to_table().combine_chunks()
        keys.append({*zip(*(key_column(each, found[each.column].chunk(0)).to_pylist() for each in parts), strict=True)})
    assert {len(each) for each in keys} == {1}
    assert len(set.union(*keys)) == len(keys)
    assert lance.dataset(table.location.uri).count_rows() == 60


ORDERED = [
    ("PARTITIONED BY (day)", "day", 5, "hashpartitioning"),
    ("PARTITIONED BY (days(ts), cluster_by(id))", "CAST(ts AS DATE)", 20, "rangepartitioning"),
    ("CLUSTER BY (id)", "0", 1, "rangepartitioning"),
]


@pytest.mark.when(day={"layout": [ORDERED[0][0]]})
@pytest.mark.parametrize(("layout", "key", "files", "exchange"), ORDERED)
def test_spark_brings_rows_in_the_order_of_the_layout(spark, lake, layout, key, files, exchange):
    spark.range(0, 480, 1, 4).selectExpr(*COLUMNS).createOrReplaceTempView("rows")
    spark.sql(f"CREATE TABLE lake.ns1.t {layout} AS TABLE rows")
    uri = lake.table("ns1.t").location.uri
    assert len(lance.dataset(uri).get_fragments()) <= files + 1
    plan = spark.sql("EXPLAIN FORMATTED INSERT INTO lake.ns1.t SELECT * FROM rows").first()[0]
    assert exchange in plan
    assert spark.table("lake.ns1.t").count() == 480


def test_what_names_a_column_of_the_layout_cannot_drop_or_rename_it(spark, lake):
    spark.sql("CREATE TABLE lake.ns1.t (id BIGINT, day INT, c STRING) PARTITIONED BY (bucket(4, id))")
    spark.sql("ALTER TABLE lake.ns1.t CLUSTER BY (day)")
    for change in ("DROP COLUMN id", "RENAME COLUMN day TO d", "ALTER COLUMN day TYPE BIGINT"):
        with pytest.raises(errors.Refused, match="the table's layout names it"):
            spark.sql(f"ALTER TABLE lake.ns1.t {change}")
    spark.sql("ALTER TABLE lake.ns1.t RENAME COLUMN c TO d")
    spark.sql("ALTER TABLE lake.ns1.t CLUSTER BY NONE")
    spark.sql("ALTER TABLE lake.ns1.t DROP COLUMN day")
    assert lake.table("ns1.t").layout.describe().cluster_by == ""
    spark.sql("ALTER TABLE lake.ns1.t CLUSTER BY (d)")
    assert lake.table("ns1.t").layout.describe().cluster_by == "d"
    spark.sql("CREATE OR REPLACE TABLE lake.ns1.t AS SELECT 1 AS id")
    assert lance.dataset(lake.table("ns1.t").location.uri).config() == {}


def held(spark):
    return sorted((row.day, row.id) for row in spark.table("lake.ns1.t").collect())


def test_partitions_are_overwritten_by_sql_and_dataframes_and_the_others_stay(spark, lake):
    spark.sql("CREATE TABLE lake.ns1.t PARTITIONED BY (day) AS SELECT id, CAST(id AS INT) AS day FROM range(4)")
    spark.sql("INSERT OVERWRITE lake.ns1.t PARTITION (day = 1) SELECT 70L")
    assert held(spark) == [(0, 0), (1, 70), (2, 2), (3, 3)]
    spark.sql("SELECT 80L AS id, 2 AS day").writeTo("lake.ns1.t").overwritePartitions()
    assert held(spark) == [(0, 0), (1, 70), (2, 80), (3, 3)]
    spark.sql("SELECT 90L AS id, 3 AS day").writeTo("lake.ns1.t").overwrite(F.col("day") > 1)
    assert held(spark) == [(0, 0), (1, 70), (3, 90)]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        spark.sql("INSERT OVERWRITE lake.ns1.t SELECT 5L, 0")
        spark.sql("INSERT OVERWRITE lake.ns1.t PARTITION (day) SELECT 6L, 1")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert held(spark) == [(0, 5), (1, 6), (3, 90)]
    spark.sql("DELETE FROM lake.ns1.t WHERE day = 1")
    assert held(spark) == [(0, 5), (3, 90)]
    spark.sql("INSERT OVERWRITE lake.ns1.t SELECT 1L, 1")
    assert held(spark) == [(1, 1)]


@pytest.mark.on_connect
@pytest.mark.parametrize("ref", ["", "@exp"])
def test_sql_drops_partitions_without_reading_or_writing_a_data_file(spark, lake, ref):
    spark.sql("CREATE TABLE lake.ns1.t PARTITIONED BY (day) AS SELECT id, CAST(id % 4 AS INT) AS day FROM range(40)")
    table = lake.table("ns1.t")
    table.branches.create("exp")
    data = Path(table.location.uri, "data")
    data.rename(data.with_name("away"))
    spark.sql(f"DELETE FROM lake.ns1.`t{ref}` WHERE day = 1 OR day > 2")
    assert not data.exists()
    data.with_name("away").rename(data)
    assert sorted(row.id % 4 for row in spark.table(f"lake.ns1.`t{ref}`").collect()) == [0] * 10 + [2] * 10
    assert table.checkout(branch="main" if ref else "exp").count_rows() == 40


def test_a_branch_begins_with_the_layout_of_its_parent_and_may_have_another(spark, lake):
    rows_of(spark).write.partitionBy("day").saveAsTable("lake.ns1.t")
    table = lake.table("ns1.t")
    table.branches.create("exp")
    exp = table.checkout(branch="exp")
    assert exp.layout.describe().partition_by == "day"
    rows_of(spark, 300, 400).write.insertInto("lake.ns1.`t@exp`")
    assert {len(days) for days in days_of(table.location.uri, "exp")} == {1}
    assert exp.layout.partition_by("bucket(2, id)").partition_by == "bucket(2, id)"
    assert exp.layout.cluster_by("day", "id").cluster_by == "day, id"
    assert exp.layout.cluster_by(zorder=["day", "id"]).cluster_by == "zorder(day, id)"
    assert table.layout.describe().partition_by == "day"
    assert exp.to_df(filter="day = 3 AND id < 310").count() == 62
    exp.layout.partition_by()
    exp.layout.cluster_by()
    assert (exp.layout.describe().partition_by, exp.layout.describe().cluster_by) == ("", "")


# The last one: 'both_ways' lasts until the end of the file, and without the native way there is no catalog.
def test_a_filter_leaves_out_fragments_and_explain_says_how_many(spark, uri, both_ways):
    rows = rows_of(spark, last=400_000)
    rows.coalesce(1).write.format("lance").option("partition_by", "day").mode("append").save(uri)
    found = spark.read.format("lance").load(uri).where("day = 3 OR day > 7").select("id")
    assert found.count() == 80_000
    table = LanceTable.for_path(uri, spark=spark)
    assert len(table.to_df(filter="day = 3").collect()) == 80_000
    if both_ways == "native":
        assert "fragments: 1 of 5" in found._jdf.queryExecution().toString()
