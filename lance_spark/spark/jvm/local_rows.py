"""Arrow batches as the rows that Spark has inside, without a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as st

from lance_spark.spark.jvm import names
from lance_spark.spark.jvm.answers import Answer, RowBytes
from lance_spark.spark.jvm.unsafe_rows import has_unsafe_rows, unsafe_rows

if TYPE_CHECKING:
    from lance_spark.spark.jvm.bridge import Bridge

_FEW, _FEW_AT_ONCE = 12, 400
"""Rows that are handed over as bytes at most, one by one and all at once: Spark's way through Arrow takes as long."""


def few_rows(batches: Sequence[pa.RecordBatch], schema: st.StructType, at_once: bool) -> Answer | None:
    """The rows as bytes; None where there are many, or types of which Spark has no such bytes."""
    count = sum(batch.num_rows for batch in batches)
    if count > (_FEW_AT_ONCE if at_once else _FEW) or not has_unsafe_rows(schema):
        return None
    return Answer("rows", RowBytes(len(schema), [*unsafe_rows(batches, schema)]))


def internal_rows(bridge: Bridge, batches: Sequence[pa.RecordBatch], schema: st.StructType) -> Any:
    """An ``InternalRow[]``."""
    held = bridge.new("java.util.ArrayList")
    whole = pa.Table.from_batches(batches).combine_chunks().to_batches() if batches else ()
    for batch in whole:
        held.add(batch.serialize().to_pybytes())
    iterator = bridge.call("scala.jdk.javaapi.CollectionConverters.asScala", held.iterator())
    frame = bridge.call(f"{names.ARROW_CONVERTERS}.toDataFrame", iterator, schema.json(), bridge.session)
    tag = bridge.call("scala.reflect.ClassTag.apply", bridge.load(names.INTERNAL_ROW))
    # Spark makes a LocalRelation of what is smaller than spark.sql.session.localRelationCacheThreshold (64 MiB).
    return frame.queryExecution().analyzed().data().toArray(tag)
