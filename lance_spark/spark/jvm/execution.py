"""Runs a planned scan with the executor side of Spark's own Python data sources."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from lance_spark.spark.jvm import names
from lance_spark.spark.jvm.tasks import pickled_function

if TYPE_CHECKING:
    from lance_spark.spark.jvm.bridge import Bridge
    from lance_spark.spark.jvm.source import Planned

SOURCE_NAME = "lance_spark"


def input_partitions(bridge: Bridge, planned: Planned) -> Any:
    """Spark's partitions, an ``InputPartition[]``."""
    parts = [bridge.new(names.PYTHON_PARTITION, index, pickle.dumps(part)) for index, part in enumerate(planned.parts)]
    return bridge.array(names.INPUT_PARTITION, parts)


def reader_factory(bridge: Bridge, planned: Planned, schema: StructType) -> Any:
    """What makes the readers on executors."""
    source = bridge.session.sessionState().dataSourceManager().lookupDataSource(SOURCE_NAME)
    function = pickled_function(planned.task, schema)
    artifacts = bridge.call(f"{names.ARTIFACTS}.getCurrentJobArtifactState")
    job = bridge.option(artifacts.get().uuid() if artifacts.isDefined() else None)
    given = [source, function, bridge.schema(schema), job]
    if bridge.factory_arguments > len(given):
        given.append(bridge.option(None))  # a session whose workers' logs are kept: for Spark's own sources
    return bridge.new(names.PYTHON_READER_FACTORY, *given)
