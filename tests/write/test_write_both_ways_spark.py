"""Constraints and defaults of a table at a path: natively, with the plain data source, and on Spark Connect."""

import lance
import pytest
from pyspark.errors import PySparkException

from lance_spark import LanceTable
from lance_spark.errors import LanceSparkError

pytestmark = [pytest.mark.spark, pytest.mark.when(day=0.1, newest=0.7, oldest=0.4)]


@pytest.fixture
def table(both_ways, spark, uri):
    spark.sql("SELECT id, CAST(id + 1 AS INT) AS x, 'old' AS state FROM range(3)").write.format("lance").mode(
        "append"
    ).save(uri)
    found = LanceTable.for_path(uri, spark=spark)
    found.constraints.add("positive", "x > 0")
    found.alter_columns(defaults={"x": "7", "state": "'it\\'s new'"})
    return found


def stream(table, df, tmp_path):
    df.write.parquet(str(tmp_path / "in"))
    read = df.sparkSession.readStream.schema(df.schema).parquet(str(tmp_path / "in"))
    options = {"path": table.location.uri, "checkpointLocation": str(tmp_path / "checkpoint")}
    read.writeStream.format("lance").options(**options).trigger(availableNow=True).start().awaitTermination()


WAYS = {
    "a path": lambda t, df, _: df.write.format("lance").mode("append").save(t.location.uri),
    "t.write": lambda t, df, _: t.write(df, mode="append"),
    "t.overwrite": lambda t, df, _: t.overwrite(df, where="id = 9"),
    "t.merge": lambda t, df, _: t.merge(df, on="id").when_matched_update_all().when_not_matched_insert_all().execute(),
    "t.merge values": lambda t, df, _: (
        t.merge(df, on="id").when_not_matched_insert({name: f"source.{name}" for name in df.columns}).execute()
    ),
    "a stream": stream,
}


@pytest.mark.parametrize("way", WAYS)
def test_rows_without_columns_have_defaults(spark, table, tmp_path, way):
    WAYS[way](table, spark.sql("SELECT 9L AS id"), tmp_path)
    rows = lance.dataset(table.location.uri).to_table().sort_by("id").to_pylist()
    assert [row["id"] for row in rows] == [0, 1, 2, 9]
    assert rows[-1] == {"id": 9, "x": 7, "state": "it's new"}


@pytest.mark.parametrize("way", [*WAYS, "t.update", "t.update_columns"])
def test_rows_that_break_a_constraint_are_not_written(spark, table, tmp_path, way):
    before = lance.dataset(table.location.uri)
    verbs = {
        "t.update": lambda: table.update({"x": "-x"}, where="id = 1"),
        "t.update_columns": lambda: table.update_columns({"x": "-x"}),
    }
    with pytest.raises((PySparkException, LanceSparkError), match="CHECK positive"):
        verbs[way]() if way in verbs else WAYS[way](table, spark.sql("SELECT 9L AS id, -1 AS x"), tmp_path)
    after = lance.dataset(table.location.uri)
    assert (after.version, after.to_table()) == (before.version, before.to_table())
