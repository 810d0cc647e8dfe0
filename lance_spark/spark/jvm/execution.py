"""Runs a planned scan with the executor side of Spark's own Python data sources."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from lance_spark.spark.jvm.answers import Answer, Factory, partitions
from lance_spark.spark.jvm.columnar_tasks import SIGNALS, pickled_sender
from lance_spark.spark.jvm.tasks import TaskPart, pickled_function

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from lance_spark.scan.plan import ScanPartition
    from lance_spark.spark.jvm.tasks import ScanTask

UNIX_SOCKETS = True
"""Whether batches go through sockets of the file system, wherever there is a short enough name for one."""


def input_partitions(parts: tuple[ScanPartition, ...], scan_filter: str | None) -> Answer:
    """Spark's partitions."""
    return partitions([pickle.dumps(TaskPart(part, scan_filter)) for part in parts])


def reader_factory(task: ScanTask, schema: StructType, batches: bool) -> Answer:
    """What makes the readers on executors, of batches or of rows."""
    if batches:
        return Answer("factory", Factory(pickled_sender(task), SIGNALS, UNIX_SOCKETS))
    return Answer("factory", Factory(pickled_function(task, schema), schema, None))
