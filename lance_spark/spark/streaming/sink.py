"""The sink of a streaming query: executors write a batch's fragments, the driver commits them, exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lance_spark.actions.streams.sink import StreamJob, commit_stream, give_up_stream, plan_stream
from lance_spark.spark.failures import plainly
from lance_spark.spark.types import to_arrow
from lance_spark.store.writing import write_rows


@dataclass
class StreamCommitMessage(WriterCommitMessage):
    """What one task wrote, and by which plan: Spark commits with another object than the one that planned the batch."""

    fragments: list[str]
    stream: StreamJob


class _Writer:
    """One batch. Spark makes such an object anew to plan the batch, to commit it, and to abort it."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        with plainly():
            self._stream = plan_stream(options, to_arrow(schema), overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamCommitMessage:
        """Write one task's rows; runs on an executor."""
        with plainly():
            return StreamCommitMessage(write_rows(self._stream.job, iterator), self._stream)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit all tasks' fragments as one version, unless that batch is in already; runs on the driver."""
        with plainly():
            commit_stream(self._planned(messages), _fragments(messages), batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Remove what finished tasks wrote, when another task failed.

        When every task has a message, what failed was the commit, which may have arrived: deleting would lose rows.
        """
        if any(message is None for message in messages):
            with plainly():
                give_up_stream(self._planned(messages), _fragments(messages))

    def _planned(self, messages: list[WriterCommitMessage | None]) -> StreamJob:
        """The plan by which the tasks wrote; by now another one would begin with a later version."""
        return next((entry.stream for entry in messages if isinstance(entry, StreamCommitMessage)), self._stream)


def _fragments(messages: list[WriterCommitMessage | None]) -> list[str]:
    return [
        fragment for message in messages if isinstance(message, StreamCommitMessage) for fragment in message.fragments
    ]


# Spark 4.0 has no such class, but hands Arrow batches to whatever is a DataSourceArrowWriter, of streams as well.
_ARROW: type = getattr(datasource, "DataSourceStreamArrowWriter", datasource.DataSourceArrowWriter)
_BASES = (_Writer, _ARROW) if issubclass(_ARROW, DataSourceStreamWriter) else (_Writer, DataSourceStreamWriter, _ARROW)

LanceStreamWriter: Callable[..., DataSourceStreamWriter] = type(
    "LanceStreamWriter", _BASES, {"__module__": __name__, "__doc__": _Writer.__doc__}
)
"""The writer as this version of Spark takes it: one that gets Arrow batches."""
