"""The writing half of the data source: executors write fragments, the driver commits once.

Spark starts separate processes to plan a write, to write and to commit. Each waits for its imports, so each method
imports only what it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lance_spark.engine.columns_spark import rows_of
from lance_spark.engine.workers_spark import plainly
from lance_spark.write.data_files import write_rows


@dataclass
class LanceCommitMessage(WriterCommitMessage):
    """The metadata of one task's fragments as JSON. Spark passes on the message of one attempt per task."""

    fragments: list[str]


class LanceWriter(DataSourceArrowWriter):
    """One write job. Created on the driver, sent to the executors, and back to the driver for the commit."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        from lance_spark.engine.types_spark import to_arrow
        from lance_spark.tables.write import begin, plan_write

        # Spark requests a writer right before the write's first task, and never for planning.
        with plainly():
            self._job = begin(plan_write(options, to_arrow(schema), overwrite))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> LanceCommitMessage:
        """Write one task's rows; runs on an executor."""
        with plainly():
            return LanceCommitMessage(write_rows(self._job, rows_of(iterator)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit all tasks' fragments as one version; runs on the driver."""
        from lance_spark.tables.write import finish

        plan = self._job.plan
        with plainly():
            finish(self._job, _fragments(messages))
            if plan.auto_compact is not None:
                from lance_spark.optimize.automatic import compact_written

                compact_written(plan)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the files of finished tasks after another task failed.

        If every task has a message, the commit failed, and has already cleaned up if that was safe: see
        lance_spark.tables.write.finish.
        """
        from lance_spark.tables.write import give_up

        if any(message is None for message in messages):
            with plainly():
                give_up(self._job, _fragments(messages))


def _fragments(messages: list[WriterCommitMessage | None]) -> list[str]:
    return [
        fragment for message in messages if isinstance(message, LanceCommitMessage) for fragment in message.fragments
    ]
