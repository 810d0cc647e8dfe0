"""Joins of keys that Spark may reduce to fewer ones: none loses rows, on any Spark.

Before 4.2.1, Spark forgets that a join has reduced its keys, and takes them for those of the next table.
"""

import pytest
from support.spark_settings import settings_of

from lance_spark.native import scan

pytestmark = [pytest.mark.spark, pytest.mark.when(day=0)]
BUCKETING = "spark.sql.sources.v2.bucketing"
SETTINGS = {
    f"{BUCKETING}.enabled": "true",
    f"{BUCKETING}.allowCompatibleTransforms.enabled": "true",
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
    with settings_of(spark, SETTINGS):
        assert spark.sql(f"SELECT a.id FROM {tables}").count() == 24
