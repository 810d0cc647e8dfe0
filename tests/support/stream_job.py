"""Streaming queries in a process of their own, to be killed: python stream_job.py JSON. Ends when all is read.

What is given is made by :class:`support.streamed_tables.StreamedTable`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from lance_spark import register
from lance_spark.errors import LanceSparkError

Given = dict[str, Any]


def session(remote: str | None) -> SparkSession:
    if remote is not None:
        return SparkSession.builder.remote(remote).getOrCreate()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.streaming.minBatchesToRetain", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    return spark


def files(spark: SparkSession, given: Given) -> DataFrame:
    """JSON files, of which two are a batch with two tasks."""
    return spark.readStream.schema("id bigint, v bigint").option("maxFilesPerTrigger", 2).json(given["source"])


def sink(spark: SparkSession, given: Given) -> DataStreamWriter:
    writer = files(spark, given).writeStream.format("lance").option("path", given["uri"])
    return writer.options(**stored(given), **given["options"])


def upsert(spark: SparkSession, given: Given) -> DataStreamWriter:
    from lance_spark import LanceTable

    table = LanceTable.for_path(given["uri"], given["storage"], spark=spark).checkout(branch=given["options"]["branch"])
    every = int(given["options"]["optimize_every"])
    function = table.streams.upsert(key="id", checkpoint=given["checkpoint"], optimize_every=every)

    def last_of_each_key(rows: DataFrame, batch: int) -> None:
        """A batch may have the files of two, see ``StreamedTable``; of several rows of one key the last one counts."""
        function(rows.groupBy("id").agg({"v": "max"}).toDF("id", "v"), batch)

    return files(spark, given).writeStream.foreachBatch(last_of_each_key)


def source(spark: SparkSession, given: Given) -> DataStreamWriter:
    """Each batch replaces its own directory: one that is run again does not count twice, one with other rows does."""
    out = given["out"]

    def keep(rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").parquet(f"{out}/{batch}")

    reader = spark.readStream.format("lance").option("checkpointLocation", given["checkpoint"])
    reader = reader.options(**stored(given), **given["options"])
    return reader.load(given["uri"]).writeStream.foreachBatch(keep)


def stored(given: Given) -> dict[str, str]:
    return {f"storage.{name}": value for name, value in given["storage"].items()}


KINDS: dict[str, Callable[[SparkSession, Given], DataStreamWriter]] = {"sink": sink, "upsert": upsert, "source": source}


def begun(writer: DataStreamWriter) -> StreamingQuery:
    """A query that has begun. Spark waits ten seconds for a process of Python; five that begin at once take longer."""
    query = started(writer)
    while query.isActive and query.status["message"].startswith("Initializing"):
        time.sleep(0.1)
    return query


def started(writer: DataStreamWriter) -> StreamingQuery:
    """On a busy machine, even one process may take longer: then nothing has begun yet."""
    for left in range(4, -1, -1):
        try:
            return writer.start()
        except PySparkException as failure:
            if not left or "Python worker failed to connect back" not in str(failure):
                raise
    raise AssertionError


def main(remote: str | None, jobs: list[Given]) -> None:
    spark = session(remote)
    writers = [KINDS[given["kind"]](spark, given).option("checkpointLocation", given["checkpoint"]) for given in jobs]
    queries = [begun(writer) for writer in writers]
    for query in queries:
        query.processAllAvailable()
    for query in queries:
        query.stop()


if __name__ == "__main__":
    try:
        main(**json.loads(sys.argv[1]))
    except LanceSparkError as error:
        sys.exit(f"{error}\n{error.hint}")
