"""Spark's classes for streams. Executors write or read a batch; the driver plans it and commits it exactly once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, InputPartition, WriterCommitMessage
from pyspark.sql.types import StructType

from lance_spark.core.table_options import split_stream_options
from lance_spark.engine.types_spark import to_arrow, to_spark, wire_schema
from lance_spark.engine.workers_spark import plainly
from lance_spark.errors import LanceSparkError
from lance_spark.format.schema import unknown_column
from lance_spark.scan.read import PinnedRead, read_for_spark
from lance_spark.streams.sink import StreamJob, commit_stream, give_up_stream, plan_stream
from lance_spark.streams.source import StreamRead, StreamSource, stream_feed, stream_read
from lance_spark.streams.source_rules import NO_LIMITS, Limits, StreamOffset, parse_offset, unbegun
from lance_spark.streams.source_tasks import StreamTask, divide, read_task
from lance_spark.tables.read import followed
from lance_spark.write.data_files import write_rows


@dataclass
class StreamCommitMessage(WriterCommitMessage):
    """What one task wrote, and its plan: Spark commits with a different object from the one that planned the batch."""

    fragments: list[str]
    stream: StreamJob


class _Writer:
    """One batch. Spark creates separate objects to plan the batch, to commit it, and to abort it."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        with plainly():
            self._stream = plan_stream(options, to_arrow(schema), overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamCommitMessage:
        """Write one task's rows; runs on an executor."""
        with plainly():
            return StreamCommitMessage(write_rows(self._stream.job, iterator), self._stream)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit all tasks' fragments as one version, unless that batch is already in; runs on the driver."""
        with plainly():
            commit_stream(self._planned(messages), _fragments(messages), batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Remove the files of finished tasks when another task failed.

        If every task has a message, the commit failed, and may have arrived: deleting would lose rows.
        """
        if any(message is None for message in messages):
            with plainly():
                give_up_stream(self._planned(messages), _fragments(messages))

    def _planned(self, messages: list[WriterCommitMessage | None]) -> StreamJob:
        """The plan that the tasks used; a new plan would begin with a later version."""
        return next((entry.stream for entry in messages if isinstance(entry, StreamCommitMessage)), self._stream)


def _fragments(messages: list[WriterCommitMessage | None]) -> list[str]:
    return [
        fragment for message in messages if isinstance(message, StreamCommitMessage) for fragment in message.fragments
    ]


# Spark 4.0 lacks this class, but hands Arrow batches to any DataSourceArrowWriter, including those of streams.
_ARROW: type = getattr(datasource, "DataSourceStreamArrowWriter", datasource.DataSourceArrowWriter)
_BASES = (_Writer, _ARROW) if issubclass(_ARROW, DataSourceStreamWriter) else (_Writer, DataSourceStreamWriter, _ARROW)

LanceStreamWriter: Callable[..., DataSourceStreamWriter] = type(
    "LanceStreamWriter", _BASES, {"__module__": __name__, "__doc__": _Writer.__doc__}
)
"""The writer class for this version of Spark: one that receives Arrow batches."""


# --- ``readStream``: the reader that Spark calls
# Spark keeps one reader in a process of the driver while the query runs, and creates another one for each task. Since
# Spark 4.2 it passes the start and the limits of a batch. Before that, the reader remembers the start and applies the
# limits of its options itself.

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
except ImportError:  # before Spark 4.2
    ADMISSION_CONTROL = False
else:
    ADMISSION_CONTROL = True

_MOST = 2**31 - 1


class StreamPartition(InputPartition):
    """One task of a batch, which Spark sends to an executor."""

    def __init__(self, task: StreamTask) -> None:
        super().__init__(task)
        self.task = task


class _StreamReader(DataSourceStreamReader):
    """The part of the reader that is the same for every version of Spark."""

    def __init__(self, options: Mapping[str, str], pinned: Callable[[], PinnedRead], schema: StructType) -> None:
        """An invalid reader is created nevertheless, and raises when it is first asked for an offset.

        At the end, Spark stops the reader, even one that it did not get, and would show that error instead of this one.
        """
        self._wire = pa.schema([])
        self._problem: LanceSparkError | None = None
        self._source: StreamSource | None = None
        try:
            self._wire = wire_schema(schema)
            read = followed(split_stream_options(options)[1], pinned())
            self._source = self._made(stream_read(options, read))
        except LanceSparkError as problem:
            self._problem = problem

    def _made(self, stream: StreamRead) -> StreamSource:
        feed = stream_feed(stream)
        if feed is None:
            read_for_spark(stream.read, self._wire)
        else:
            missing = next((name for name in self._wire.names if name not in feed.rows.names), None)
            if missing is not None:
                raise unknown_column(missing, feed.rows.names)
            feed = replace(feed, schema=wire_schema(to_spark(feed.schema)))
        return StreamSource(stream, self._wire, feed)

    def __getstate__(self) -> dict[str, Any]:
        """Tasks need only the columns; everything that was read of versions would be sent with each task."""
        return {"_wire": self._wire, "_source": None, "_problem": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The position before the first batch, always the same."""
        with plainly():
            self._check()
            return unbegun()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One entry per task of a batch."""
        with plainly():
            source, last = self._used, parse_offset(end)
            if last is None:
                return []
            parts = source.parts(parse_offset(start), last)
            tasks = divide(parts, source.stream.read, self._wire, os.cpu_count() or 1)
            return [StreamPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task as Arrow batches of exactly Spark's schema."""
        if not isinstance(partition, StreamPartition):
            return
        with plainly():
            yield from read_task(partition.task, self._wire)

    def commit(self, end: dict[str, Any]) -> None:
        """Record a finished batch. Spark calls this when it plans the next one."""
        with plainly():
            done = parse_offset(end)
            if done is not None:
                self._used.commit(done)

    def _check(self) -> None:
        if self._problem is not None:
            raise self._problem

    @property
    def _used(self) -> StreamSource:
        self._check()
        if self._source is None:
            raise AssertionError("a task does not plan")
        return self._source

    def _plan(self, start: StreamOffset | None, limits: Limits, until: int | None = None) -> dict[str, Any]:
        return self._used.latest(start, limits, until).to_json()


if ADMISSION_CONTROL:

    class LanceStreamReader(_StreamReader, SupportsTriggerAvailableNow):
        """The reader from Spark 4.2 on."""

        _until: int | None = None
        """The last version that a query with ``AvailableNow`` reads."""

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
            """Signals that there are limits. Spark cannot combine several kinds of limits; this reader applies them."""
            limits = NO_LIMITS if self._source is None else self._source.stream.limits
            return ReadMaxFiles(min(limits.files or _MOST, _MOST)) if limits.any else ReadAllAvailable()

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
            """The end of the next batch."""
            with plainly():
                limits = NO_LIMITS if isinstance(limit, ReadAllAvailable) else self._used.stream.limits
                return self._plan(parse_offset(start), limits, self._until)

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
            """Fix the newest version as the last one to read."""
            with plainly():
                self._until = self._used.newest()

else:

    class LanceStreamReader(_StreamReader):  # type: ignore[no-redef]
        """The reader before Spark 4.2."""

        _reached: dict[str, Any] | None = None
        """The end of the last batch, where the next one begins."""

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
            """One entry per task of a batch. This is how Spark first passes the position of a restarted query."""
            self._reached = end
            return super().partitions(start, end)

        def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
            """The end of the next batch."""
            with plainly():
                start = parse_offset(self._reached or unbegun())
                return self._plan(start, self._used.stream.limits)
