"""Arrow batches as the rows that Spark has inside, without a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import LongType

from lance_spark.spark.jvm import names

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from lance_spark.spark.jvm.bridge import Bridge

_FEW = 16
"""Cells that are set one by one at most: Spark's way through Arrow takes as long as 50 of them."""


def internal_rows(bridge: Bridge, batches: Sequence[pa.RecordBatch], schema: StructType) -> Any:
    """An ``InternalRow[]``."""
    count = sum(batch.num_rows for batch in batches)
    if not count:
        return bridge.array(names.INTERNAL_ROW, [])
    if count * len(schema) <= _FEW and all(isinstance(field.dataType, LongType) for field in schema):
        return bridge.array(names.INTERNAL_ROW, [_row(bridge, row) for batch in batches for row in _rows(batch)])
    held = bridge.new("java.util.ArrayList")
    for batch in batches:
        held.add(batch.serialize().to_pybytes())
    iterator = bridge.call("scala.jdk.javaapi.CollectionConverters.asScala", held.iterator())
    frame = bridge.call(f"{names.ARROW_CONVERTERS}.toDataFrame", iterator, schema.json(), bridge.session)
    tag = bridge.call("scala.reflect.ClassTag.apply", bridge.load(names.INTERNAL_ROW))
    # Spark makes a LocalRelation of what is smaller than spark.sql.session.localRelationCacheThreshold (64 MiB).
    return frame.queryExecution().analyzed().data().toArray(tag)


def _rows(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def _row(bridge: Bridge, values: Sequence[int | None]) -> Any:
    row = bridge.new(names.GENERIC_ROW, len(values))
    for at, value in enumerate(values):
        if value is not None:
            row.setLong(at, value)
    return row
