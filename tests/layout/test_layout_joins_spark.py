"""Joins and aggregates by the key of a layout: without a shuffle where every fragment has one key, and always right."""

import random

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from support.grouped_tables import SETTINGS, Random, as_texts, parquet_copy, queries
from support.spark_settings import settings_of

from lance_spark import errors
from lance_spark.layout.key_rules import key_column, plain
from lance_spark.layout.layout_rules import parse
from lance_spark.native import scan

pytestmark = [pytest.mark.spark]
NEWEST = pytest.mark.when(spark="newest")
ROWS = "SELECT id, CAST(id % 5 AS INT) AS day, id % 3 AS v FROM range(200)"

COSTS = ("spark.sql.cbo.enabled", "spark.sql.cbo.joinReorder.enabled")
SUBSETS = (
    "spark.sql.sources.v2.bucketing.allowKeysSubsetOfPartitionKeys.enabled",
    "spark.sql.sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled",  # before Spark 4.3
)


@pytest.fixture
def joins(spark, lake, monkeypatch):
    """The session, with tables read by tasks, and no broadcast joins."""
    monkeypatch.setattr(scan, "LOCAL_ROWS", 0)
    given = {
        "spark.sql.sources.v2.bucketing.enabled": "true",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.shuffle.partitions": "2",
    }
    with settings_of(spark, given, (*SETTINGS, *COSTS, *SUBSETS)):
        yield spark


def table(spark, name, by, rows=ROWS):
    spark.sql(f"CREATE TABLE lake.ns1.{name} PARTITIONED BY ({by}) AS {rows}")


def shuffles(spark, query):
    """How often Spark moves rows by their values."""
    return spark.sql(f"EXPLAIN {query}").first()[0].count("Exchange hashpartitioning")


JOIN = "SELECT a.id, a.v, b.v AS w FROM lake.ns1.a a JOIN lake.ns1.b b ON a.{0} = b.{0}"


@NEWEST
@pytest.mark.when(day={"by": ["bucket(4, id)"]})
@pytest.mark.parametrize(
    ("by", "key"), [("bucket(4, id)", "id"), ("day", "day"), ("truncate(3, id)", "id"), ("bucket(2, v), day", "day")]
)
def test_two_tables_that_are_divided_alike_join_without_a_shuffle(joins, by, key):
    spark = joins
    table(spark, "a", by)
    table(spark, "b", by, ROWS.replace("range(200)", "range(50, 400, 7)"))
    if "," in by:  # a part of the key
        for name in SUBSETS:
            spark.conf.set(name, "true")
        spark.conf.set("spark.sql.requireAllClusterKeysForCoPartition", "false")
    query = JOIN.format(key)
    assert shuffles(spark, query) == 0
    right = sorted(
        (i, i % 3, j % 3) for i in range(200) for j in range(50, 400, 7) if (i % 5 == j % 5 if key == "day" else i == j)
    )
    assert sorted(map(tuple, spark.sql(query).collect())) == right
    spark.conf.set("spark.lance.grouping", "never")
    assert shuffles(spark, query) == 2
    assert sorted(map(tuple, spark.sql(query).collect())) == right


@pytest.mark.on_connect
@pytest.mark.when(day=0)
def test_tables_that_tasks_read_join_without_a_shuffle_on_spark_connect_as_well(spark, lake):
    given = {"spark.sql.sources.v2.bucketing.enabled": "true", "spark.sql.autoBroadcastJoinThreshold": "-1"}
    for name, step in (("a", 1), ("b", 2)):  # more rows than the driver reads
        table(spark, name, "bucket(4, id)", f"SELECT id, id % 7 AS v FROM range(1, 40000, {step})")
    query = "SELECT count(*), sum(a.v * b.id), max(a.id) FROM lake.ns1.a a JOIN lake.ns1.b b ON a.id = b.id"
    groups = "SELECT id, count(*) AS n FROM lake.ns1.a GROUP BY id"
    both = range(1, 40000, 2)
    right = (len(both), sum(each % 7 * each for each in both), max(both))
    try:
        for name, value in given.items():
            spark.conf.set(name, value)
        assert shuffles(spark, query) == shuffles(spark, groups) == 0
        assert spark.sql(f"EXPLAIN {query}").first()[0].count("grouped by: [bucket(4, id)]") == 2
        assert tuple(spark.sql(query).first()) == right
        assert tuple(spark.sql(f"SELECT count(*), sum(n) FROM ({groups})").first()) == (39999, 39999)
        spark.conf.set("spark.lance.grouping", "never")
        assert shuffles(spark, query) == 2
        assert tuple(spark.sql(query).first()) == right
    finally:
        for name in (*given, "spark.lance.grouping"):
            spark.conf.unset(name)


@NEWEST
@pytest.mark.when(day=0)
def test_a_fragment_without_facts_makes_a_plain_scan(joins, lake):
    spark = joins
    table(spark, "a", "bucket(4, id)")
    table(spark, "b", "bucket(4, id)")
    query = JOIN.format("id")
    uri = lake.table("ns1.b").location.uri
    lance.write_dataset(lance.dataset(uri).to_table(filter="id < 10"), uri, mode="append")
    assert shuffles(spark, query) == 2
    assert spark.sql(query).count() == 210
    assert shuffles(spark, query + " AND b.id > 3 WHERE b.id IN (11, 12)") == 2
    lake.table("ns1.b").optimize()
    assert shuffles(spark, query) == 0
    assert spark.sql(query).count() == 210


@NEWEST
@pytest.mark.when(day=0)
def test_grouping_by_the_key_takes_no_shuffle(joins):
    spark = joins
    table(spark, "a", "day, bucket(4, id)")
    for query in (
        "SELECT id, sum(v), avg(v) FROM lake.ns1.a GROUP BY id",
        "SELECT id, day, count(*) FROM lake.ns1.a GROUP BY id, day",
        "SELECT DISTINCT id FROM lake.ns1.a",
    ):
        assert shuffles(spark, query) == 0, query
        assert spark.sql(query).count() == 200
    few = "SELECT day, count(*) AS n FROM lake.ns1.a GROUP BY day"
    assert shuffles(spark, few) == 1  # tasks aggregate, and five rows are moved
    assert sorted(map(tuple, spark.sql(few).collect())) == [(day, 40) for day in range(5)]


@NEWEST
@pytest.mark.when(day=0)
def test_buckets_and_times_of_two_sizes_join_where_spark_may_reduce_them(joins):
    spark = joins
    times = "SELECT id, timestamp_seconds(id * 40000 - 3000000) AS ts, id AS v FROM range(200)"
    spark.conf.set("spark.sql.sources.v2.bucketing.allowCompatibleTransforms.enabled", "true")
    for left, right, key in (
        ("bucket(4, id)", "bucket(8, id)", "id"),
        ("bucket(6, id)", "bucket(4, id)", "id"),
        ("hours(ts)", "days(ts)", "ts"),
        ("months(ts)", "days(ts)", "ts"),
        ("years(ts)", "months(ts)", "ts"),
        ("hours(ts)", "years(ts)", "ts"),
    ):
        table(spark, "a", left, times)
        table(spark, "b", right, times)
        query = JOIN.format(key)
        assert shuffles(spark, query) == 0, (left, right)
        assert sorted(map(tuple, spark.sql(query).collect())) == [(i, i, i) for i in range(200)], (left, right)
        spark.sql("DROP TABLE lake.ns1.a")
        spark.sql("DROP TABLE lake.ns1.b")


@NEWEST
@pytest.mark.when(day=0)
def test_one_side_is_shuffled_into_the_partitions_of_the_other(joins):
    spark = joins
    spark.conf.set("spark.sql.sources.v2.bucketing.shuffle.enabled", "true")
    for by in ("bucket(4, id)", "truncate(3, id)"):
        table(spark, "a", by)
        query = "SELECT a.id FROM lake.ns1.a a JOIN (SELECT id, rand() AS r FROM range(20, 300)) b ON a.id = b.id"
        assert shuffles(spark, query) == 0
        assert "keyedpartitioning" in spark.sql(f"EXPLAIN {query}").first()[0]
        assert spark.sql(query).count() == 180
        spark.sql("DROP TABLE lake.ns1.a")


@pytest.mark.when(day=0)
def test_a_merge_of_tables_that_are_divided_alike_shuffles_no_rows(joins, lake):
    spark = joins
    table(spark, "a", "bucket(4, id)")
    table(spark, "b", "bucket(4, id)", "SELECT id, CAST(9 AS INT) AS day, 9L AS v FROM range(150, 250)")
    merge = (
        "MERGE INTO lake.ns1.a a USING lake.ns1.b b ON a.id = b.id "
        "WHEN MATCHED THEN UPDATE SET v = b.v WHEN NOT MATCHED THEN INSERT *"
    )
    assert "Exchange" not in spark.sql(f"EXPLAIN {merge}").first()[0]
    result = spark.sql(merge).first()
    assert (result.num_updated_rows, result.num_inserted_rows) == (50, 50)
    assert sorted((row.id, row.v) for row in spark.table("lake.ns1.a").collect()) == [
        (i, 9 if i >= 150 else i % 3) for i in range(250)
    ]
    uri = lake.table("ns1.a").location.uri
    keys = [
        {*key_column(parse("bucket(4, id)", None).partition[0], each.to_table()["id"].combine_chunks()).to_pylist()}
        for each in lance.dataset(uri).get_fragments()
    ]
    assert {len(each) for each in keys} == {1}
    assert shuffles(spark, JOIN.format("id")) == 0  # and once more


@NEWEST
@pytest.mark.when(day=0)
def test_tables_read_by_path_and_at_old_versions_join_too(joins, lake):
    spark = joins
    table(spark, "a", "bucket(4, id)")
    table(spark, "b", "bucket(4, id)")
    uris = [lake.table(f"ns1.{name}").location.uri for name in "ab"]
    first = lance.dataset(uris[0]).version
    lance.dataset(uris[0]).delete("id > 10")
    lance.write_dataset(lance.dataset(uris[0]).to_table(), uris[0], mode="append")
    frames = [
        spark.read.format("lance").option("version", first).load(uris[0]),
        spark.read.format("lance").load(uris[1]),
    ]
    for at, frame in enumerate(frames):
        frame.createOrReplaceTempView(f"by_path_{at}")
    query = "SELECT * FROM by_path_0 JOIN by_path_1 USING (id)"
    assert shuffles(spark, query) == 0
    assert spark.sql(query).count() == 200


@NEWEST
def test_the_setting_is_checked(joins):
    joins.sql(f"CREATE TABLE lake.ns1.a AS {ROWS}")
    joins.conf.set("spark.lance.grouping", "perhaps")
    with pytest.raises(errors.InvalidOption, match=r"spark\.lance\.grouping is 'perhaps'"):
        joins.sql("SELECT * FROM lake.ns1.a").collect()


VALUES = {
    "BIGINT": pa.array([0, 1, -1, 2**40, -(2**63), None], pa.int64()),
    "INT": pa.array([0, 7, -8, 2**31 - 1, None], pa.int32()),
    "SMALLINT": pa.array([0, 7, -8, None], pa.int16()),
    "TINYINT": pa.array([0, 7, -8, None], pa.int8()),
    "STRING": pa.array(["", "a", "abcde", "äöü€😀x", "A", None]),
    "BOOLEAN": pa.array([True, False, None]),
    "DATE": pa.array([0, -1, 20_000, -400, None], pa.int32()).cast(pa.date32()),
    "TIMESTAMP": pa.array([0, -1, 10**15 + 7, -(10**14), None], pa.int64()).cast(pa.timestamp("us", "UTC")),
    "TIMESTAMP_NTZ": pa.array([0, -1, 10**15 + 7, -(10**14), None], pa.int64()).cast(pa.timestamp("us")),
    "FLOAT": pa.array(np.array([0.0, -0.0, np.nan, 1.25, -3.5], np.float32)),
    "DOUBLE": pa.array([0.0, -0.0, float("nan"), 1.25, 1e300, None]),
}
FUNCTIONS = {
    "bucket(16, a)": [*VALUES],
    "truncate(3, a)": ["BIGINT", "INT", "SMALLINT", "TINYINT", "STRING"],
    "days(a)": ["DATE", "TIMESTAMP", "TIMESTAMP_NTZ"],
    "months(a)": ["DATE", "TIMESTAMP", "TIMESTAMP_NTZ"],
    "years(a)": ["DATE", "TIMESTAMP", "TIMESTAMP_NTZ"],
    "hours(a)": ["TIMESTAMP", "TIMESTAMP_NTZ"],
}


@NEWEST
@pytest.mark.when(day=0)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_functions_of_the_catalog_have_the_values_of_the_files(joins, tmp_path, function):
    spark = joins
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    transform = parse(function, None).partition[0]
    called = function.replace("truncate(3, a)", "truncate_3(a)")
    for kind in FUNCTIONS[function]:
        uri = str(tmp_path / f"{kind}.lance")
        values = VALUES[kind]
        lance.write_dataset(pa.table({"a": values, "at": range(len(values))}), uri)
        spark.read.format("lance").load(uri).createOrReplaceTempView("known")
        found = spark.sql(f"SELECT lake.{called} FROM known ORDER BY at").collect()
        assert [row[0] for row in found] == plain(key_column(transform, values)), kind
    assert spark.sql("SHOW FUNCTIONS IN lake.system").count() > 0


SEEDS = [(seed, False) for seed in range(100)] + [(seed, True) for seed in range(100, 120)]


def weigh_costs(spark, lake, tables, choose):
    for each in tables:
        lake.table(f"ns1.{each.name}").analyze(histograms=True)
        if choose.random() < 0.5:
            each.append()
    for name in COSTS:
        spark.conf.set(name, "true")


@NEWEST
@pytest.mark.when(day=0)
@pytest.mark.parametrize(("seed", "costs"), SEEDS)
def test_random_tables_have_the_answers_of_parquet(joins, lake, tmp_path, seed, costs):
    """With ``costs``, Spark orders joins by histograms, of all files or of some."""
    spark = joins
    choose = random.Random(seed)
    made = {name: Random(spark, lake, name, choose) for name in "ab"}
    if costs:
        weigh_costs(spark, lake, made.values(), choose)
    if choose.random() < 0.5:
        made["b"] = made["a"] if choose.random() < 0.2 else made["b"]
    spark.conf.set("spark.lance.grouping", "never")
    for name, each in made.items():
        frame = spark.table(f"lake.ns1.{each.name}")
        parquet_copy(spark, each.uri, str(tmp_path / f"{name}.parquet"), frame).createOrReplaceTempView(f"copy_{name}")
    for name, values in SETTINGS.items():
        spark.conf.set(name, choose.choice(values))
    told = {name: (each.layout, each.done) for name, each in made.items()}
    for query in queries(choose):
        answers = []
        for prefix in ("lance", "copy"):
            for name, each in made.items():
                source = f"lake.ns1.{each.name}" if prefix == "lance" else f"copy_{name}"
                spark.table(source).createOrReplaceTempView(name)
            try:
                answers.append(as_texts(spark.sql(query)))
            except PySparkException as failed:  # a comparison that Spark refuses, of both
                answers.append(str(failed)[:60])
        assert answers[0] == answers[1], (query, told)
