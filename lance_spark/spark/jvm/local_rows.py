"""Arrow batches as the rows that Spark has inside, without a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as st

from lance_spark.spark.jvm import names
from lance_spark.spark.jvm.unsafe_rows import has_unsafe_rows, unsafe_rows

if TYPE_CHECKING:
    from lance_spark.spark.jvm.bridge import Bridge

_FEW = 12
"""Rows that are handed over one by one at most: Spark's way through Arrow takes as long as 12 of them."""


def internal_rows(bridge: Bridge, batches: Sequence[pa.RecordBatch], schema: st.StructType) -> Any:
    """An ``InternalRow[]``."""
    if sum(batch.num_rows for batch in batches) <= _FEW and has_unsafe_rows(schema):
        rows = [_row(bridge, content, len(schema)) for content in unsafe_rows(batches, schema)]
        return bridge.array(names.INTERNAL_ROW, rows)
    held = bridge.new("java.util.ArrayList")
    for batch in batches:
        held.add(batch.serialize().to_pybytes())
    iterator = bridge.call("scala.jdk.javaapi.CollectionConverters.asScala", held.iterator())
    frame = bridge.call(f"{names.ARROW_CONVERTERS}.toDataFrame", iterator, schema.json(), bridge.session)
    tag = bridge.call("scala.reflect.ClassTag.apply", bridge.load(names.INTERNAL_ROW))
    # Spark makes a LocalRelation of what is smaller than spark.sql.session.localRelationCacheThreshold (64 MiB).
    return frame.queryExecution().analyzed().data().toArray(tag)


def _row(bridge: Bridge, content: bytes, fields: int) -> Any:
    row = bridge.new(names.UNSAFE_ROW, fields)
    row.pointTo(content, len(content))
    return row
