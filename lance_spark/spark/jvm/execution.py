"""Runs a planned scan with the executor side of Spark's own Python data sources."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from lance_spark.spark.jvm import names
from lance_spark.spark.jvm.tasks import TaskPart, pickled_function

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from lance_spark.scan.plan import ScanPartition
    from lance_spark.spark.jvm.bridge import Bridge
    from lance_spark.spark.jvm.tasks import ScanTask


def input_partitions(bridge: Bridge, parts: tuple[ScanPartition, ...], scan_filter: str | None) -> Any:
    """Spark's partitions, an ``InputPartition[]``."""
    made = [
        bridge.new(names.PYTHON_PARTITION, index, pickle.dumps(TaskPart(part, scan_filter)))
        for index, part in enumerate(parts)
    ]
    return bridge.array(names.INPUT_PARTITION, made)


def reader_factory(bridge: Bridge, task: ScanTask, schema: StructType) -> Any:
    """What makes the readers on executors."""
    artifacts = bridge.call(f"{names.ARTIFACTS}.getCurrentJobArtifactState")
    job = bridge.option(artifacts.get().uuid() if artifacts.isDefined() else None)
    given = [bridge.python_source, pickled_function(task, schema), bridge.schema(schema), job]
    if bridge.factory_arguments > len(given):
        given.append(bridge.option(None))  # a session whose workers' logs are kept: for Spark's own sources
    return bridge.new(names.PYTHON_READER_FACTORY, *given)
