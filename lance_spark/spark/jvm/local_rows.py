"""Arrow batches as the rows that Spark has inside, without a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as st

from lance_spark.spark.jvm import names

if TYPE_CHECKING:
    from lance_spark.spark.jvm.bridge import Bridge

_FEW = 24
"""Cells that are set one by one at most: Spark's way through Arrow takes as long as 50 of them."""
_SETTERS: dict[type[st.DataType], tuple[str, pa.DataType]] = {
    st.BooleanType: ("setBoolean", pa.bool_()),
    st.ByteType: ("setByte", pa.int8()),
    st.ShortType: ("setShort", pa.int16()),
    st.IntegerType: ("setInt", pa.int32()),
    st.LongType: ("setLong", pa.int64()),
    st.FloatType: ("setFloat", pa.float32()),
    st.DoubleType: ("setDouble", pa.float64()),
    st.DateType: ("setInt", pa.int32()),
    st.TimestampType: ("setLong", pa.int64()),
    st.TimestampNTZType: ("setLong", pa.int64()),
    st.StringType: ("update", pa.binary()),
}
"""How a cell of a type is set, and what Spark has inside for it, in Arrow's types."""


def internal_rows(bridge: Bridge, batches: Sequence[pa.RecordBatch], schema: st.StructType) -> Any:
    """An ``InternalRow[]``."""
    count = sum(batch.num_rows for batch in batches)
    if count * len(schema) <= _FEW and all(type(field.dataType) in _SETTERS for field in schema):
        return _set_one_by_one(bridge, batches, schema)
    held = bridge.new("java.util.ArrayList")
    for batch in batches:
        held.add(batch.serialize().to_pybytes())
    iterator = bridge.call("scala.jdk.javaapi.CollectionConverters.asScala", held.iterator())
    frame = bridge.call(f"{names.ARROW_CONVERTERS}.toDataFrame", iterator, schema.json(), bridge.session)
    tag = bridge.call("scala.reflect.ClassTag.apply", bridge.load(names.INTERNAL_ROW))
    # Spark makes a LocalRelation of what is smaller than spark.sql.session.localRelationCacheThreshold (64 MiB).
    return frame.queryExecution().analyzed().data().toArray(tag)


def _set_one_by_one(bridge: Bridge, batches: Sequence[pa.RecordBatch], schema: st.StructType) -> Any:
    found = []
    setters = [_SETTERS[type(field.dataType)] for field in schema]
    for batch in batches:
        columns = [column.cast(kind).to_pylist() for column, (_, kind) in zip(batch.columns, setters, strict=True)]
        for values in zip(*columns, strict=True):
            row = bridge.new(names.GENERIC_ROW, len(setters))
            for at, (value, (setter, _)) in enumerate(zip(values, setters, strict=True)):
                if value is not None:
                    cell = bridge.call(f"{names.TEXT}.fromBytes", value) if setter == "update" else value
                    getattr(row, setter)(at, cell)
            found.append(row)
    return bridge.array(names.INTERNAL_ROW, found)
