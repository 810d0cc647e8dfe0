"""Joins by keys with settings by which some Sparks lose rows, or end with errors of their own, have all rows."""

import pytest
from support.spark_settings import settings_of

from lance_spark.native import scan

pytestmark = [pytest.mark.spark, pytest.mark.when(day=0)]
BUCKETING = "spark.sql.sources.v2.bucketing"
SETTINGS = {
    f"{BUCKETING}.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.shuffle.partitions": "2",
}
ROWS = "SELECT id, timestamp_seconds(id * 36000) AS ts FROM range(24)"


@pytest.mark.parametrize(
    ("layouts", "key"),
    [
        (("bucket(12, id)", "bucket(4, id)", "bucket(12, id)"), "id"),
        (("bucket(12, id)", "bucket(8, id)", "bucket(6, id)"), "id"),
        (("hours(ts)", "days(ts)", "hours(ts)"), "ts"),
    ],
)
def test_three_tables_that_are_divided_differently_join_with_all_rows(spark, lake, monkeypatch, layouts, key):
    monkeypatch.setattr(scan, "LOCAL_ROWS", 0)
    for name, layout in zip("abc", layouts, strict=True):
        spark.sql(f"CREATE TABLE lake.ns1.{name} PARTITIONED BY ({layout}) AS {ROWS}")
    tables = f"lake.ns1.a a JOIN lake.ns1.b b ON a.{key} = b.{key} JOIN lake.ns1.c c ON b.{key} = c.{key}"
    with settings_of(spark, {**SETTINGS, f"{BUCKETING}.allowCompatibleTransforms.enabled": "true"}):
        assert spark.sql(f"SELECT a.id FROM {tables}").count() == 24


SHUFFLED = "(SELECT id, rand() AS r FROM range(24)) s"


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT s.id FROM {SHUFFLED} LEFT JOIN lake.ns1.a a ON a.id = s.id LEFT JOIN lake.ns1.b b ON b.id = s.id",
        f"SELECT s.id FROM lake.ns1.a a RIGHT JOIN {SHUFFLED} ON a.id = s.id JOIN lake.ns1.b b ON b.id = s.id",
        f"SELECT b.id FROM lake.ns1.b b JOIN {SHUFFLED} ON b.id <=> s.id",
    ],
)
def test_a_side_that_is_shuffled_into_the_keys_of_another_one_joins_with_all_rows(spark, lake, monkeypatch, query):
    monkeypatch.setattr(scan, "LOCAL_ROWS", 0)
    for name, rows in (("a", 12), ("b", 24)):
        spark.sql(f"CREATE TABLE lake.ns1.{name} PARTITIONED BY (id) AS SELECT id FROM range({rows})")
    adaptive = {"spark.sql.adaptive.enabled": "false"}
    with settings_of(spark, {**SETTINGS, **adaptive, f"{BUCKETING}.shuffle.enabled": "true"}):
        assert spark.sql(query).count() == 24


def test_rows_of_a_key_that_several_tasks_read_are_one_group(spark, lake, monkeypatch):
    monkeypatch.setattr(scan, "LOCAL_ROWS", 0)
    rows = "SELECT id % 4 AS id, id AS v FROM range({}, {})"
    for name in ("a", "b"):
        spark.sql(f"CREATE TABLE lake.ns1.{name} PARTITIONED BY (id) AS {rows.format(0, 10)}")
        spark.sql(f"INSERT INTO lake.ns1.{name} {rows.format(10, 20)}")
        uri = lake.table(f"ns1.{name}").location.uri
        spark.read.format("lance").option("split_size", "1").load(uri).createOrReplaceTempView(f"several_{name}")
    joined = "several_a a JOIN several_b b ON a.id = b.id"
    with settings_of(spark, {**SETTINGS, f"{BUCKETING}.partiallyClusteredDistribution.enabled": "true"}):
        assert spark.sql(f"SELECT DISTINCT a.id FROM {joined}").count() == 4
        counts = spark.sql(f"SELECT a.id, count(*) FROM {joined} GROUP BY a.id").collect()
    assert sorted(map(tuple, counts)) == [(0, 25), (1, 25), (2, 25), (3, 25)]
