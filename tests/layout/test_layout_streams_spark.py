"""Streams obey a layout: the sink, appends and upserts by foreachBatch, natively, plain and on Connect."""

import json
import os
import time

import lance
import pytest
from pyspark.errors import PySparkException

from lance_spark import LanceTable
from lance_spark.core.catalog_options import OWN_NAME

pytestmark = pytest.mark.spark
SCHEMA = "id bigint, day bigint"


@pytest.fixture
def stream(spark, tmp_path):
    """Two batches of 30 rows, of three days each."""
    source = tmp_path / "in"
    source.mkdir()
    for number in range(2):
        path = source / f"{number}.json"
        path.write_text("\n".join(json.dumps({"id": 30 * number + n, "day": n % 3}) for n in range(30)))
        os.utime(path, (1_700_000_000 + number,) * 2)
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(source))


def run(writer, checkpoint):
    """Spark Connect starts a process for a function of foreachBatch, and gives it ten seconds: too few when busy."""
    end = time.monotonic() + 120
    while True:
        try:
            query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
            query.awaitTermination()
            return
        except PySparkException as problem:
            if "Python worker failed to connect back" not in str(problem) or time.monotonic() > end:
                raise


def append(uri):
    def write(batch, _):
        batch.write.format(OWN_NAME).mode("append").save(uri)

    return write


SINKS = {
    "the sink": lambda stream, uri, _: stream.writeStream.format(OWN_NAME).option("path", uri),
    "an append": lambda stream, uri, _: stream.writeStream.foreachBatch(append(uri)),
    "an upsert": lambda stream, uri, checkpoint: stream.writeStream.foreachBatch(
        LanceTable.for_path(uri).streams.upsert("id", checkpoint)
    ),
}


@pytest.mark.when(day={"sink": ["the sink"], "layout": ["day"]})
@pytest.mark.parametrize("layout", ["day", "bucket(2, id)"])
@pytest.mark.parametrize("sink", SINKS)
def test_each_file_of_a_stream_holds_rows_of_one_partition(spark, uri, stream, tmp_path, both_ways, sink, layout):
    begun = spark.createDataFrame([(1000, 0)], SCHEMA).write.format(OWN_NAME).mode("append")
    begun.option("partition_by", layout).save(uri)
    checkpoint = str(tmp_path / "c")
    run(SINKS[sink](stream, uri, checkpoint), checkpoint)
    dataset = lance.dataset(uri)
    assert sorted(dataset.to_table()["id"].to_pylist()) == [*range(60), 1000]
    keys = [{*each.to_table()["day"].to_pylist()} for each in dataset.get_fragments()]
    found = LanceTable.for_path(uri).layout.describe()
    assert (found.partition_by, found.with_facts, found.problem) == (layout, found.fragments, None)
    if layout == "day":
        assert {len(days) for days in keys} == {1}
        assert len(keys) <= 1 + 2 * 3 * (2 if both_ways == "plain" else 1)  # there each task divides its own rows
    else:
        assert len(keys) >= 1 + 2 * 2
