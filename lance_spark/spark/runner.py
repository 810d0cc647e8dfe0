"""Runs work over many files as Spark jobs. Works on Spark Connect: DataFrames of Arrow batches, nothing of the JVM."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name for it

from lance_spark.runner.interface import Item
from lance_spark.runner.work import Work
from lance_spark.show.progress import Tell, WorkProgress, untold
from lance_spark.spark.failures import own_error, plainly
from lance_spark.spark.types import to_spark, wire_schema

Batches = Iterator[pa.RecordBatch]
_BUCKET = "bucket"
_BUCKET_ROWS = 100_000
"""Rows that one task holds at once: some 50 MB."""


SPARK = "spark"


@dataclass(frozen=True)
class SparkEngine:
    """Spark for all work."""

    session: Callable[[], SparkSession]
    """Gets or starts the session, when there is work."""
    parallelism: int | None = None
    """Tasks side by side, by default as many as the executors have cores."""
    tell: Tell = untold
    """Is told the stage that begins; how far it is, Spark shows."""

    def for_work(self, operation: str, work: Work) -> SparkRunner:  # noqa: ARG002 - Spark takes any
        """A runner whose jobs are named after the operation."""
        return SparkRunner(self.session(), operation, self.parallelism, self.tell)


class SparkRunner:
    """Frames are DataFrames. The driver holds sums and lists of versions, never lists of files."""

    name = SPARK

    def __init__(
        self, spark: SparkSession, operation: str, parallelism: int | None = None, tell: Tell = untold
    ) -> None:
        """Nothing runs yet. Arguments are as of SparkEngine; jobs bear the ``operation`` in their tags."""
        self._spark = spark
        self._operation = operation
        self._given = parallelism
        self._tell = tell
        self._kept: list[DataFrame] = []

    @cached_property
    def parallelism(self) -> int:
        """How many tasks run side by side. Unless it was given, a small job finds it out."""
        return self._given or self._cores()

    def flat_map(
        self, stage: str, items: Sequence[Item], function: Callable[[Item], Batches], schema: pa.Schema
    ) -> DataFrame:
        """A DataFrame with one task for each item."""
        packed = [pickle.dumps(item) for item in items]
        if not packed:
            return self._spark.createDataFrame([], to_spark(schema))

        def run(batches: Batches) -> Batches:
            with plainly():
                for batch in batches:
                    for number in batch["id"].to_pylist():
                        yield from function(pickle.loads(packed[number]))

        self._tell(WorkProgress(stage))
        numbers = self._spark.range(0, len(packed), 1, len(packed))
        return numbers.mapInArrow(run, to_spark(schema))

    def map(self, stage: str, frame: DataFrame, function: Callable[[Batches], Batches], schema: pa.Schema) -> DataFrame:
        """A DataFrame with the function's batches for each partition."""
        given = wire_schema(frame.schema)

        def run(batches: Batches) -> Batches:
            with plainly():
                yield from function(plain(batch, given) for batch in batches)

        self._tell(WorkProgress(stage))
        return frame.mapInArrow(run, to_spark(schema))

    def reduce(
        self, stage: str, frame: DataFrame, function: Callable[[Batches], Batches], schema: pa.Schema
    ) -> DataFrame:
        """A DataFrame with the function's batches for all rows, in one partition."""
        return self.map(stage, frame.repartition(1), function, schema)

    def match(
        self,
        stage: str,
        frames: tuple[DataFrame, DataFrame],
        function: Callable[[pa.Table, pa.Table], pa.Table],
        schema: pa.Schema,
        rows: int,
    ) -> DataFrame:
        """A DataFrame with the function's rows for each bucket of ``local``; a bucket fits into one task's memory."""
        given = tuple(wire_schema(frame.schema) for frame in frames)
        buckets = max(2 * self.parallelism, rows // _BUCKET_ROWS)
        bucket = F.abs(F.hash("local")) % buckets
        # As many partitions as buckets: the session's shuffle setting, 200, would make 200 tasks of a small dataset.
        parted = (frame.withColumn(_BUCKET, bucket).repartition(buckets, _BUCKET) for frame in frames)
        ours, theirs = (frame.groupBy(_BUCKET) for frame in parted)

        def run(first: pa.Table, second: pa.Table) -> pa.Table:
            with plainly():
                return function(
                    first.select(given[0].names).cast(given[0]), second.select(given[1].names).cast(given[1])
                )

        self._tell(WorkProgress(stage))
        return ours.cogroup(theirs).applyInArrow(run, to_spark(schema))

    def gather(
        self,
        stage: str,
        frame: DataFrame,
        function: Callable[[Iterator[bytes]], Batches],
        schema: pa.Schema,
        parts: int,
    ) -> DataFrame:
        """A DataFrame with the function's batches; one task writes one part, or two."""
        # Spark hashes parts to tasks. With as many tasks as parts a third of them would have nothing to do.
        parted = frame.repartition(2 * max(1, parts), "part").sortWithinPartitions("part")

        def run(batches: Batches) -> Batches:
            with plainly():
                for _, pieces in groupby(_cells(batches), key=itemgetter(0)):
                    yield from function(piece for _, piece in pieces)

        self._tell(WorkProgress(stage))
        return parted.mapInArrow(run, to_spark(schema))

    def union(self, frames: Sequence[DataFrame]) -> DataFrame:
        """All rows."""
        whole = frames[0]
        for frame in frames[1:]:
            whole = whole.unionByName(frame)
        return whole

    def keep(self, frame: DataFrame) -> DataFrame:
        """The DataFrame, cached where the platform has a cache; elsewhere it is computed again, with the same rows."""
        try:
            kept = frame.persist()
        except PySparkException:
            return frame  # serverless platforms have no cache
        self._kept.append(kept)
        return kept

    def release(self) -> None:
        """Let go of everything that was kept."""
        while self._kept:
            self._kept.pop().unpersist()

    def collect(self, stage: str, frame: DataFrame) -> pa.Table:
        """The rows as an Arrow table. Raises this package's own errors where a task did."""
        with self._described(stage):
            return frame.toArrow()

    @contextmanager
    def _described(self, stage: str) -> Iterator[None]:
        """Name the jobs inside in Spark's UI, and raise our own errors as what they are."""
        # Spark refuses a comma, such as that of a large number.
        tag = f"lance {self._operation}: {stage}".replace(",", "")
        self._spark.addTag(tag)
        try:
            yield
        except PySparkException as problem:
            raise own_error(str(problem)) or problem from None
        finally:
            self._spark.removeTag(tag)

    def _cores(self) -> int:
        """Cores of the executors: the number of partitions Spark gives a range by itself."""
        return self._spark.range(0, 4096).select(F.spark_partition_id()).distinct().count()


def _cells(batches: Batches) -> Iterator[tuple[int, bytes]]:
    """Part and rows of each row."""
    for batch in batches:
        for part, piece in zip(batch.column("part"), batch.column("rows"), strict=True):
            yield part.as_py(), piece.as_py()


def plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in plain types: a setting of Spark's makes all strings large ones."""
    return batch if batch.schema.equals(schema) else pa.Table.from_batches([batch]).cast(schema).to_batches()[0]
