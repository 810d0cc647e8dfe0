"""MERGE WITH SCHEMA EVOLUTION in SQL, and of DataFrames and handles: new columns and fields come with their values."""

import lance
import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812
from support.service_lakes import place

from lance_spark import LanceTable
from lance_spark.errors import Refused
from lance_spark.native.session import current

pytestmark = [pytest.mark.on_services, pytest.mark.spark, pytest.mark.when(spark="newest")]

ROWS = pa.table({"id": pa.array([1, 3], pa.int64()), "v": ["a", "c"], "s": [{"x": 1}, None]})
SOURCE = "id BIGINT, v STRING, s STRUCT<x: BIGINT, y: STRING>, n INT"
EXPECTED = [
    {"id": 1, "v": "b", "s": {"x": 5, "y": "five"}, "n": 7},
    {"id": 2, "v": "d", "s": {"x": 6, "y": "six"}, "n": 8},
    {"id": 3, "v": "c", "s": None, "n": None},
]


@pytest.fixture
def t(lake):
    uri, where = place(lake, "t")
    lance.write_dataset(ROWS, uri)
    lake.register_table("ns1.t", where)
    return uri


@pytest.fixture
def source(spark):
    frame = spark.createDataFrame([(1, "b", (5, "five"), 7), (2, "d", (6, "six"), 8)], SOURCE)
    frame.createOrReplaceTempView("more")
    yield frame
    spark.catalog.dropTempView("more")


INTO = "MERGE WITH SCHEMA EVOLUTION INTO lake.ns1.t t USING more s ON t.id = s.id "


def in_sql(spark, _uri, _source):
    spark.sql(INTO + "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")


def of_a_frame(_spark, _uri, source):
    merge = source.alias("s").mergeInto("lake.ns1.t", F.expr("t.id = s.id")).withSchemaEvolution()
    merge.whenMatched().updateAll().whenNotMatched().insertAll().merge()


def of_a_handle(_spark, uri, source):
    merge = LanceTable.for_path(uri).merge(source, on="id").with_schema_evolution()
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


@pytest.mark.parametrize("merge", [in_sql, of_a_frame, of_a_handle])
def test_new_columns_and_fields_come_with_their_values(spark, t, source, merge):
    merge(spark, t, source)
    dataset = lance.dataset(t)
    assert sorted(dataset.to_table().to_pylist(), key=lambda row: row["id"]) == EXPECTED
    assert dataset.version == 3  # the columns, then the rows
    assert spark.table("lake.ns1.t").columns == ["id", "v", "s", "n"]
    merge(spark, t, source)
    assert lance.dataset(t).version == 4


def test_fields_and_columns_that_the_source_lacks_stay(spark, t):
    few = spark.createDataFrame([(1, (7,), 9), (4, (8,), 10)], "ID BIGINT, s STRUCT<z: INT>, m INT")
    merge = LanceTable.for_path(t).merge(few, on="target.id = source.ID").withSchemaEvolution()
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    found = sorted(lance.dataset(t).to_table().to_pylist(), key=lambda row: row["id"])
    assert found == [
        {"id": 1, "v": "a", "s": {"x": 1, "z": 7}, "m": 9},
        {"id": 3, "v": "c", "s": None, "m": None},
        {"id": 4, "v": None, "s": {"x": None, "z": 8}, "m": 10},
    ]


def test_columns_of_single_clauses(t, source):
    merge = LanceTable.for_path(t).merge(source, on="id").with_schema_evolution()
    merge.when_matched_update({"twice": "source.n * 2L"}).execute()
    dataset = lance.dataset(t)
    assert dataset.schema.names == ["id", "v", "s", "twice"]
    assert dataset.to_table(filter="twice IS NOT NULL")["twice"].to_pylist() == [14]


def test_without_it_columns_stay_as_they_are(spark, t, source):
    spark.sql(INTO.replace("WITH SCHEMA EVOLUTION ", "") + "WHEN MATCHED THEN UPDATE SET v = s.v")
    assert lance.dataset(t).schema.names == ["id", "v", "s"]


def test_a_spark_that_does_not_tell_refuses_it(spark, t, source):
    bridge = current(spark).bridge
    bridge.evolves = False
    try:
        with pytest.raises(Refused, match="does not tell"):
            spark.sql(INTO + "WHEN MATCHED THEN UPDATE SET v = s.v")
    finally:
        bridge.evolves = True
    assert lance.dataset(t).version == 1
