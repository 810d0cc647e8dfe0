"""``readStream``: the reader of a stream, as Spark calls it.

Spark keeps one reader in a process of the driver as long as the query runs, and makes another one for each task. From
4.2 on it hands over where a batch begins and what limits it; before that the reader has to remember the one, and keeps
the limits of its options on its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from lance_spark.actions.read import PinnedRead, read_for_spark
from lance_spark.actions.streams.source import StreamRead, StreamSource, stream_feed, stream_read
from lance_spark.actions.streams.source_tasks import StreamTask, divide, read_task
from lance_spark.errors import LanceSparkError
from lance_spark.schema.projection import unknown_column
from lance_spark.spark.failures import plainly
from lance_spark.spark.types import to_spark, wire_schema
from lance_spark.streams.source_offsets import StreamOffset, parse_offset, unbegun
from lance_spark.streams.source_plan import NO_LIMITS, Limits

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
except ImportError:  # before Spark 4.2
    ADMISSION_CONTROL = False
else:
    ADMISSION_CONTROL = True

_MOST = 2**31 - 1


class StreamPartition(InputPartition):
    """One task of a batch, as Spark carries it to an executor."""

    def __init__(self, task: StreamTask) -> None:
        super().__init__(task)
        self.task = task


class _StreamReader(DataSourceStreamReader):
    """What is the same with every Spark."""

    def __init__(self, options: Mapping[str, str], pinned: Callable[[], PinnedRead], schema: StructType) -> None:
        """A reader that cannot be is made all the same, and says why when it is first asked for an offset.

        Spark stops the reader in the end, also one that it has not got: it then shows that error instead of this one.
        """
        self._wire = pa.schema([])
        self._problem: LanceSparkError | None = None
        self._source: StreamSource | None = None
        try:
            self._wire = wire_schema(schema)
            self._source = self._made(stream_read(options, pinned()))
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
        """Tasks need the columns only; what was read of versions would cross with each of them."""
        return {"_wire": self._wire, "_source": None, "_problem": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The place before the first batch; the same one each time."""
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
        """A batch is in the checkpoint. Spark says so when the next one is planned."""
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
            """That there are limits. Spark has no limit of several kinds; which they are this reader knows."""
            limits = NO_LIMITS if self._source is None else self._source.stream.limits
            return ReadMaxFiles(min(limits.files or _MOST, _MOST)) if limits.any else ReadAllAvailable()

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
            """Where the next batch ends."""
            with plainly():
                limits = NO_LIMITS if isinstance(limit, ReadAllAvailable) else self._used.stream.limits
                return self._plan(parse_offset(start), limits, self._until)

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
            """From here on the newest version is the last one."""
            with plainly():
                self._until = self._used.newest()

else:

    class LanceStreamReader(_StreamReader):  # type: ignore[no-redef]
        """The reader before Spark 4.2."""

        _reached: dict[str, Any] | None = None
        """Where the last batch ended, and the next one begins."""

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
            """One entry per task of a batch. With a restarted query Spark tells its place in this way first."""
            self._reached = end
            return super().partitions(start, end)

        def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
            """Where the next batch ends."""
            with plainly():
                start = parse_offset(self._reached or unbegun())
                return self._plan(start, self._used.stream.limits)
