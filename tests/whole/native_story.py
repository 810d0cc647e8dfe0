"""Native reads on a cluster, while an executor dies: python native_story.py URI MASTER. Rows have ``id`` and ``text``.

Prints its findings as one line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lance_spark import capabilities, register


def main(uri: str, master: str) -> dict[str, object]:
    spark = SparkSession.builder.master(master).config("spark.executor.memory", "512m").getOrCreate()
    register(spark)
    rows = spark.read.format("lance").option("batch_size", "200").option("split_size", "128k").load(uri)
    first = executors(rows)
    return {
        "rows by": capabilities(spark).no_batches,
        "before": told(rows),
        "executors": len(first),
        "while one dies": told(killing(slowly(rows), first[0])),
        "after": told(rows),
        "new": len(set(executors(rows)) - set(first)),
    }


def told(rows: DataFrame) -> list[int]:
    """What a query of Spark's generated code finds in the batches."""
    found = rows.selectExpr("count(*)", "sum(id + length(text))", "count(DISTINCT text)").collect()
    return [int(value) for value in found[0]]


def executors(rows: DataFrame) -> list[int]:
    """Process ids of the executors, each of which has some of the rows."""

    def parents(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        from pathlib import Path

        for _ in batches:
            pass
        time.sleep(0.5)  # or one executor has done all tasks before the other one is there
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
        yield pa.record_batch({"pid": [int(daemon)]})

    return sorted({row.pid for row in rows.mapInArrow(parents, "pid long").collect()})


def slowly(rows: DataFrame) -> DataFrame:
    """The same rows from somebody who takes seconds over a task: it is in the middle of a batch all the time."""

    def wait(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(0.1)
            yield batch

    return rows.mapInArrow(wait, rows.schema)


def killing(rows: DataFrame, executor: int) -> DataFrame:
    """The rows of a query in the middle of which an executor dies."""

    def kill() -> None:
        assert Path(f"/proc/{executor}").exists()
        os.kill(executor, signal.SIGKILL)

    threading.Timer(2, kill).start()
    return rows


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])) + "\n")
