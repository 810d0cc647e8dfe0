"""The Spark session of a call or a job, work as Spark jobs, and the choice between Spark and local threads."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import pyarrow as pa

from lance_spark.core.location import DatasetLocation, is_relative, refused_relative
from lance_spark.core.progress import Tell, WorkProgress, to_tell, untold
from lance_spark.core.texts import quoted_name
from lance_spark.engine.lazy_spark import F, check_pyspark, pyspark_module
from lance_spark.engine.local import AutoEngine, Engine, Frame, Item, LocalRunner, Work, of_executor
from lance_spark.engine.types_spark import to_spark, wire_schema
from lance_spark.engine.workers_spark import own_error, plainly
from lance_spark.errors import InvalidOption, Refused
from lance_spark.storage.resolving import dataset_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

LOG_LEVELS = ("ALL", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")
"""Spark's levels, from all messages to none."""
_LOCALLY = " With --local, threads of this process do the work instead."


def session_or_none(given: SparkSession | None) -> SparkSession | None:
    """The given session, or the active one, which in a new thread is the process's default. Starts none.

    Does not import PySpark: it may be missing, and a process that has not imported it has no session.
    """
    if given is not None or "pyspark.sql" not in sys.modules:
        return given
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkException:
        return None


def is_connect(session: object) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect")


def check_places(given: SparkSession | None, *paths: str) -> None:
    """Raise InvalidOption for a relative path if the session, given or active, is one of Spark Connect.

    The server would resolve it against another directory than this process does.
    """
    session = session_or_none(given)
    if session is None or not is_connect(session):
        return
    for path in paths:
        if is_relative(path):
            raise refused_relative(path, os.path.abspath(path.strip().removeprefix("file:")))


def check_path(path: object, instead: str) -> None:
    """Raise InvalidOption for anything but text, such as a session in first place, as Delta's ``forPath`` takes it."""
    if not isinstance(path, str | os.PathLike):
        kind = "a Spark session" if type(path).__name__ == "SparkSession" else f"{path!r}"
        raise InvalidOption(f"Expected a path or URI, got {kind}.", hint=f"The path comes first: {instead}.")


def dataset_of(given: SparkSession | None, uri: str, storage_options: Mapping[str, str] | None) -> DatasetLocation:
    """The dataset at a user's path or URI. Raises InvalidOption, also as :func:`check_places`."""
    check_places(given, uri)
    return dataset_at(uri, storage_options)


START_ONE = "Start one: SparkSession.builder.getOrCreate()."
"""The hint where a session is needed; what can be done without one follows."""


def needed_session(given: SparkSession | None, hint: str) -> SparkSession:
    """The given session, or the active one. Raises Refused, with the hint, if there is none; NotInstalled."""
    session = session_or_none(given)
    if session is None:
        check_pyspark()
        raise Refused("There is no Spark session in this process.", hint=hint)
    return session


class JobSession:
    """The session of a job, started on demand, and stopped at the end if it was started here.

    ``with JobSession("name") as session`` gives it; ``session()`` is the Spark session.
    """

    def __init__(self, name: str, log_level: str = "ERROR", say: Callable[[str], object] = str) -> None:
        """``say`` is called when Spark starts. An existing session keeps its log level."""
        self._name, self._log_level, self._say = name, log_level, say
        self._started: SparkSession | None = None

    def __enter__(self) -> JobSession:
        if "CONTAINER_ID" in os.environ:
            self()  # YARN marks a driver in its own container as failed if it never created a session
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def __call__(self) -> SparkSession:
        """The active session, or the one that spark-submit prepared, or a local one. Raises NotInstalled.

        Without PYSPARK_PYTHON, Spark runs its Python workers with the first ``python3`` on the PATH. The first query
        then ends with "No module named 'lance'" although the driver has it.
        """
        session = self._started or session_or_none(None)
        if session is None:
            builder = pyspark_module("pyspark.sql", _LOCALLY).SparkSession.builder
            self._say("start Spark")
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
            builder = builder.appName(self._name).config("spark.log.level", self._log_level)
            self._started = session = builder.getOrCreate()
        return session

    def stop(self) -> None:
        """Stop what was started here, without messages on the terminal. Safe to repeat."""
        started, self._started = self._started, None
        if started is not None:
            started.stop()


# --- Work over many files as Spark jobs
# Works on Spark Connect: DataFrames of Arrow batches, no JVM access.

Batches = Iterator[pa.RecordBatch]
_BUCKET = "bucket"
_BUCKET_ROWS = 100_000
"""Maximum rows that one task holds at once: some 50 MB."""
_FEW_ITEMS = 16
_TASKS_PER_CORE = 8
"""Enough to balance slow tasks. One for each item, a thousand small files took half a minute on two cores:
starting a task takes longer than casting a file."""


SPARK = "spark"


@dataclass(frozen=True)
class SparkEngine:
    session: Callable[[], SparkSession]
    """Gets or starts the session, once there is work."""
    parallelism: int | None = None
    """Number of parallel tasks, by default the executors' cores."""
    tell: Tell = untold
    """Receives each stage that begins; Spark itself shows the progress."""

    def for_work(self, operation: str, work: Work) -> SparkRunner:  # noqa: ARG002 - Spark takes any
        """A runner whose jobs are named after the operation."""
        return SparkRunner(self.session(), operation, self.parallelism, self.tell)


class SparkRunner:
    """Frames are DataFrames. The driver holds sums and lists of versions, never lists of files."""

    name = SPARK

    def __init__(
        self, spark: SparkSession, operation: str, parallelism: int | None = None, tell: Tell = untold
    ) -> None:
        """Runs nothing yet. Arguments are those of SparkEngine; jobs have the ``operation`` in their tags."""
        self._spark, self._operation = spark, operation
        self._given, self._tell = parallelism, tell
        self._kept: list[DataFrame] = []

    @cached_property
    def parallelism(self) -> int:
        """Number of parallel tasks. Unless given, a small job determines it."""
        if self._given:
            return self._given
        # The executors' cores are the number of partitions that Spark gives a range by default. Without a shuffle:
        # "distinct" in Spark took as long as the work that waited for the answer.
        numbers = self._spark.range(0, 4096).select(F.spark_partition_id().alias("id")).toArrow()["id"]
        return len(numbers.unique())

    def flat_map(
        self, stage: str, items: Sequence[Item], function: Callable[[Item], Batches], schema: pa.Schema
    ) -> DataFrame:
        """A DataFrame with one task for each item, or each few of many items. Rows are in the order of the items."""
        packed = [pickle.dumps(item) for item in items]
        if not packed:
            return self._spark.createDataFrame([], to_spark(schema))
        tasks = len(packed) if len(packed) <= _FEW_ITEMS else min(len(packed), _TASKS_PER_CORE * self.parallelism)

        def run(batches: Batches) -> Batches:
            with plainly(may_stay=True):
                for batch in batches:
                    for task in batch["id"].to_pylist():
                        for item in packed[task * len(packed) // tasks : (task + 1) * len(packed) // tasks]:
                            yield from function(pickle.loads(item))

        self._tell(WorkProgress(stage))
        return self._spark.range(0, tasks, 1, tasks).mapInArrow(run, to_spark(schema))

    def map(self, stage: str, frame: DataFrame, function: Callable[[Batches], Batches], schema: pa.Schema) -> DataFrame:
        """A DataFrame with the function's batches for each partition."""
        given = wire_schema(frame.schema)

        def run(batches: Batches) -> Batches:
            with plainly(may_stay=True):
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
        # As many partitions as buckets: the session's shuffle setting, 200, would give a small dataset 200 tasks.
        parted = (frame.withColumn(_BUCKET, bucket).repartition(buckets, _BUCKET) for frame in frames)
        ours, theirs = (frame.groupBy(_BUCKET) for frame in parted)

        def run(first: pa.Table, second: pa.Table) -> pa.Table:
            with plainly(may_stay=True):
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
        # Spark hashes parts to tasks. With as many tasks as parts, a third of them would be idle.
        parted = frame.repartition(2 * max(1, parts), "part").sortWithinPartitions("part")

        def run(batches: Batches) -> Batches:
            with plainly(may_stay=True):
                for _, pieces in groupby(_cells(batches), key=itemgetter(0)):
                    yield from function(piece for _, piece in pieces)

        self._tell(WorkProgress(stage))
        return parted.mapInArrow(run, to_spark(schema))

    def union(self, frames: Sequence[DataFrame]) -> DataFrame:
        whole = frames[0]
        for frame in frames[1:]:
            whole = whole.unionByName(frame)
        return whole

    def keep(self, frame: DataFrame) -> DataFrame:
        """The DataFrame, cached if the platform has a cache; otherwise it is recomputed, with the same rows."""
        from pyspark.errors import PySparkException

        try:
            kept = frame.persist()
        except PySparkException:
            return frame  # serverless platforms have no cache
        self._kept.append(kept)
        return kept

    def release(self) -> None:
        while self._kept:
            self._kept.pop().unpersist()

    def collect(self, stage: str, frame: DataFrame) -> pa.Table:
        """The rows as an Arrow table. Re-raises this package's errors from tasks."""
        with self._described(stage):
            return frame.toArrow()

    @contextmanager
    def _described(self, stage: str) -> Iterator[None]:
        """Name the jobs inside in Spark's UI, and restore this package's errors from Spark's."""
        from pyspark.errors import PySparkException

        # Spark rejects a comma, such as that of a large number.
        tag = f"lance {self._operation}: {stage}".replace(",", "")
        self._spark.addTag(tag)
        try:
            yield
        except PySparkException as problem:
            own = own_error(str(problem))
            raise problem if own is None else of_executor(own) from None
        finally:
            self._spark.removeTag(tag)


def _cells(batches: Batches) -> Iterator[tuple[int, bytes]]:
    """The part and the rows of each row."""
    for batch in batches:
        for part, piece in zip(batch.column("part"), batch.column("rows"), strict=True):
            yield part.as_py(), piece.as_py()


def plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in plain types: one of Spark's settings turns all strings into large ones."""
    if batch.schema.equals(schema):
        return batch
    # Not all at once: pyarrow casts no null struct whose fields cannot be null, to its own type either.
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def asks_for_histograms(spark: SparkSession) -> bool:
    """Whether Spark's own ANALYZE would measure histograms in a session."""
    return str(spark.conf.get("spark.sql.statistics.histogram.enabled", "false")).lower() == "true"


# --- The engine of a handle or a job: threads of this process for little work, Spark for more

RunOn = Literal["auto", "spark", "local"]
Progressing: TypeAlias = Callable[[WorkProgress], object] | None
"""The argument ``progress`` of a verb: a function such as ``print``, or None."""
_HINT = "Start one, SparkSession.builder.getOrCreate(), or choose run_on='local'."


def engine_of(spark: SparkSession | None, run_on: RunOn = "auto", progress: Progressing = None) -> Engine:
    """The engine of a handle. Without a session, given or active, "auto" uses threads for all work.

    ``progress`` receives the progress. Raises InvalidOption for an invalid ``run_on``, and for a ``progress`` that is
    not callable. "spark" without a session raises Refused once there is work, or NotInstalled.
    """
    return engine_for(run_on, lambda: session_or_none(spark), tell=to_tell(progress))


def engine_for(
    run_on: RunOn,
    session: Callable[[], SparkSession | None],
    parallelism: int | None = None,
    tell: Tell = untold,
) -> Engine:
    """The engine of that name. ``session`` is called only once there is work for Spark.

    ``parallelism`` is the number of parallel tasks; ``tell`` receives the progress.
    """
    if run_on not in get_args(RunOn):
        raise InvalidOption(f"Work runs on {', '.join(map(repr, get_args(RunOn)))}, not on {run_on!r}.")
    local = LocalRunner(parallelism, tell)

    def on_spark() -> Engine:
        return SparkEngine(lambda: needed_session(session(), _HINT), parallelism, tell)

    if run_on == "auto":
        return AutoEngine(local, lambda: local if session() is None else on_spark())
    return local if run_on == "local" else on_spark()


# --- DataFrames of computed rows, with the dataset's column metadata


def as_dataframe(spark: SparkSession, frame: Frame, schema: StructType) -> DataFrame:
    """A runner's frame, computed here or by Spark, as a DataFrame."""
    if isinstance(frame, pa.Table):
        frame = from_arrow(spark, frame, schema)
    return with_metadata(frame, schema)


def from_arrow(spark: SparkSession, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    """An Arrow table as a DataFrame; Spark cannot convert one without chunks if it has lists or structs.

    It comes in one batch: of several from a client of Spark Connect, the server of Spark 4.0 takes the first one only.
    """
    return spark.createDataFrame(table.combine_chunks() if table.num_rows else table.schema.empty_table(), schema)


def with_metadata(frame: DataFrame, schema: StructType) -> DataFrame:
    """The DataFrame with column metadata that does not cross to executors, such as the length of vectors."""
    if not any(field.metadata for field in schema.fields):
        return frame
    return frame.select(*(F.col(quoted_name(each.name)).alias(each.name, metadata=each.metadata) for each in schema))
