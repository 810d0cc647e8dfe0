"""Loads and saves Lance datasets through Spark's own API, and says what an error must look like to a user."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType


def load(spark: SparkSession, uri: str | Path, schema: StructType | str | None = None, **options: Any) -> DataFrame:
    reader = spark.read.format("lance")
    if schema is not None:
        reader = reader.schema(schema)
    return reader.options(**options).load(str(uri))


def save(frame: DataFrame, uri: str | Path, mode: str = "append", **options: Any) -> None:
    frame.write.format("lance").mode(mode).options(**options).save(str(uri))


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Collected rows as sorted tuples."""
    return sorted(tuple(row) for row in frame.collect())


def ids(frame: DataFrame) -> list[Any]:
    """Sorted values of the first column."""
    return sorted(row[0] for row in frame.collect())


def numbers(spark: SparkSession, first: int, last: int, partitions: int = 1) -> DataFrame:
    """A DataFrame of ``id bigint`` (nullable) with the numbers from first up to, not including, last."""
    return spark.range(first, last, 1, partitions).selectExpr("nullif(id, -1) as id")


def failing(spark: SparkSession, marker: Path) -> DataFrame:
    """A job that fails late. Two of its three tasks run at a time, on two cores: when the third one starts, the first
    one has delivered its file. Then the third one makes the marker, a file that is not there yet, and both fail.
    """
    place = str(marker)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import time

        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        number = task.partitionId()
        if number == 1:
            while not os.path.exists(place):
                time.sleep(0.05)
            raise ValueError("own fault")
        yield from batches
        if number == 2:
            open(place, "w").close()
            raise ValueError("own fault")

    return numbers(spark, 0, 30, 3).mapInArrow(run, "id bigint")


def all_files(directory: str | Path) -> dict[str, int]:
    """Every file below a directory with its size, to compare before and after."""
    sizes = {}
    for parent, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(parent, name)
            sizes[os.path.relpath(path, directory)] = os.path.getsize(path)
    return sizes


@contextmanager
def refused(error: type[Exception], *words: str) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """The block raises our error: as it is, where Spark plans into Lance; else one of Spark's that shows our class and
    message, with no traceback in front of it.
    """
    with pytest.raises((error, PySparkException)) as caught:
        yield caught
    text = str(caught.value)
    before, error_name, message = text.partition(f"lance_spark.errors.{error.__name__}: ")
    if isinstance(caught.value, error):
        before, message = "", text
    else:
        assert error_name, text
    assert "Traceback" not in before, text
    for word in words:
        assert word in message, text
