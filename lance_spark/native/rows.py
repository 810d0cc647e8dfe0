"""Tables and scans of computed rows: metadata tables, and the results of procedures."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import types as st

from lance_spark.engine.types_spark import to_spark, wire_schema
from lance_spark.format.schema import conform
from lance_spark.jvm import answers, names
from lance_spark.jvm.answers import Answer, RowBytes
from lance_spark.jvm.bridge import Bridge
from lance_spark.jvm.proxies import Implementation

Batches = Callable[[], "Iterable[pa.RecordBatch]"]


class RowsTable(Implementation):
    """Spark's ``Table``, whose rows are computed when a query requests them."""

    interfaces: ClassVar = (names.TABLE, names.SUPPORTS_READ)

    def __init__(self, bridge: Bridge, name: str, schema: pa.Schema, rows: Batches) -> None:
        super().__init__(bridge)
        self._name, self._schema, self._rows = name, schema, rows

    def answered(self) -> dict[str, Answer]:
        return {
            "name": answers.text(self._name),
            "schema": answers.schema(to_spark(self._schema)),
            "capabilities": answers.capabilities(("BATCH_READ",)),
        }

    def new_scan_builder(self, _options: Any) -> Any:
        return _RowsScanBuilder(self.bridge, RowsScan(self.bridge, self._name, self._schema, self._rows)).java()


class _RowsScanBuilder(Implementation):
    """Spark's ``ScanBuilder``, without pushdown."""

    interfaces: ClassVar = (names.SCAN_BUILDER,)

    def __init__(self, bridge: Bridge, scan: RowsScan) -> None:
        super().__init__(bridge)
        self._scan = scan

    def build(self) -> Any:
        return self._scan.java()


class RowsScan(Implementation):
    interfaces: ClassVar = (names.LOCAL_SCAN,)

    def __init__(self, bridge: Bridge, name: str, schema: pa.Schema, rows: Batches) -> None:
        super().__init__(bridge)
        self._name, self._columns, self._rows = name, to_spark(schema), rows

    def to_string(self) -> str:
        return self.description()

    def description(self) -> str:
        return f"lance {self._name}"

    def answered(self) -> dict[str, Answer]:
        return {"readSchema": answers.schema(self._columns), "description": answers.text(self.description())}

    def rows(self) -> Any:
        wire = wire_schema(self._columns)
        return internal_rows(self.bridge, [conform(batch, wire) for batch in self._rows()], self._columns)


# --- Arrow batches as Spark's internal rows, without a job

_FEW, _FEW_AT_ONCE = 12, 400
"""Maximum rows passed as bytes, one by one and all at once: beyond, Spark's way through Arrow is as fast."""


def few_rows(batches: Sequence[pa.RecordBatch], schema: st.StructType, at_once: bool) -> Answer | None:
    """The rows as bytes; None if they are many, or have types without such bytes."""
    count = sum(batch.num_rows for batch in batches)
    if count > (_FEW_AT_ONCE if at_once else _FEW) or not has_unsafe_rows(schema):
        return None
    return Answer("rows", RowBytes(len(schema), [*unsafe_rows(batches, schema)]))


def internal_rows(bridge: Bridge, batches: Sequence[pa.RecordBatch], schema: st.StructType) -> Any:
    held = bridge.new("java.util.ArrayList")
    whole = pa.Table.from_batches(batches).combine_chunks().to_batches() if batches else ()
    for batch in whole:
        held.add(batch.serialize().to_pybytes())
    iterator = bridge.call("scala.jdk.javaapi.CollectionConverters.asScala", held.iterator())
    frame = bridge.call(f"{names.ARROW_CONVERTERS}.toDataFrame", iterator, schema.json(), bridge.session)
    tag = bridge.call("scala.reflect.ClassTag.apply", bridge.load(names.INTERNAL_ROW))
    # Spark creates a LocalRelation from anything smaller than spark.sql.session.localRelationCacheThreshold (64 MiB).
    return frame.queryExecution().analyzed().data().toArray(tag)


# --- Rows as bytes of Spark's ``UnsafeRow``, so that a whole row goes to the JVM in one step
# No JVM access.
#
# A row has a null bit for each field, in words of 64; then 8 bytes for each field; then the bytes of strings. Each
# string begins at a multiple of 8, and its field holds its offset and length.

_WORD = 8
_LONGEST_DECIMAL = 18
"""Digits that fit into a field; longer decimals are stored elsewhere."""


def _fixed(format: str, value: Any) -> bytes:
    # In the byte order of this machine, which also runs the driver's JVM.
    return struct.pack(format, value).ljust(_WORD, b"\0")


def _floating(format: str, value: float) -> bytes:
    return _fixed(format, math.nan if math.isnan(value) else value)  # Spark has a single NaN


_FIXED: dict[type[st.DataType], tuple[pa.DataType, Callable[[Any], bytes]]] = {
    st.BooleanType: (pa.bool_(), partial(_fixed, "=?")),
    st.ByteType: (pa.int8(), partial(_fixed, "=b")),
    st.ShortType: (pa.int16(), partial(_fixed, "=h")),
    st.IntegerType: (pa.int32(), partial(_fixed, "=i")),
    st.LongType: (pa.int64(), partial(_fixed, "=q")),
    st.FloatType: (pa.float32(), partial(_floating, "=f")),
    st.DoubleType: (pa.float64(), partial(_floating, "=d")),
    st.DateType: (pa.int32(), partial(_fixed, "=i")),
    st.TimestampType: (pa.int64(), partial(_fixed, "=q")),
    st.TimestampNTZType: (pa.int64(), partial(_fixed, "=q")),
}
"""Spark's internal form of a type, as an Arrow type, and its writer."""
_VARIABLE = (st.StringType, st.BinaryType)


def has_unsafe_rows(schema: st.StructType) -> bool:
    """Whether this module can write rows of the schema."""
    return all(_column_type(field.dataType) is not None for field in schema)


def unsafe_rows(batches: Sequence[pa.RecordBatch], schema: st.StructType) -> Iterator[bytes]:
    """The bytes of each row, for a schema that :func:`has_unsafe_rows`."""
    kinds = [field.dataType for field in schema]
    for batch in batches:
        columns = [
            column.cast(_column_type(kind)).to_pylist() for column, kind in zip(batch.columns, kinds, strict=True)
        ]
        for values in zip(*columns, strict=True):
            yield _row(kinds, values)


def _column_type(kind: st.DataType) -> pa.DataType | None:
    if type(kind) in _VARIABLE:
        return pa.binary()
    if isinstance(kind, st.DecimalType):
        return pa.decimal128(kind.precision, kind.scale) if kind.precision <= _LONGEST_DECIMAL else None
    return _FIXED[type(kind)][0] if type(kind) in _FIXED else None


def _row(kinds: Sequence[st.DataType], values: Sequence[Any]) -> bytes:
    head = _nulls(values)
    at = len(head) + _WORD * len(kinds)
    fields, rest = [], []
    for kind, value in zip(kinds, values, strict=True):
        if value is None:
            fields.append(bytes(_WORD))
        elif type(kind) in _VARIABLE:
            fields.append(_fixed("=q", at << 32 | len(value)))
            rest.append(value.ljust(_padded(len(value)), b"\0"))
            at += len(rest[-1])
        elif isinstance(kind, st.DecimalType):
            fields.append(_fixed("=q", _unscaled(value)))
        else:
            fields.append(_FIXED[type(kind)][1](value))
    return b"".join([head, *fields, *rest])


def _nulls(values: Sequence[Any]) -> bytes:
    words = [values[at : at + 64] for at in range(0, len(values), 64)]
    bits = [sum(1 << at for at, value in enumerate(word) if value is None) for word in words]
    return struct.pack(f"={len(bits)}Q", *bits)


def _unscaled(value: Decimal) -> int:
    sign, digits, _ = value.as_tuple()  # Arrow's decimals have all digits of their scale
    number = int("".join(map(str, digits)))
    return -number if sign else number


def _padded(size: int) -> int:
    return -(-size // _WORD) * _WORD
