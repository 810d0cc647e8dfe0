"""Arrow types to Spark types and back; docs/reference/types.md documents this file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.engine.lazy_spark import st
from lance_spark.errors import SchemaMismatch
from lance_spark.format.schema import BLOB_KEY

LIST_SIZE_KEY = "arrow.fixed-size-list.size"
"""Column metadata that holds a vector's length, under the JVM connector's key."""
_MAX_DECIMAL = 38
_TIME_TYPE = "TimeType"
"""Of newer versions of Spark."""


def to_spark(schema: pa.Schema, blobs: frozenset[str] = frozenset()) -> st.StructType:
    """Spark's schema for a dataset's. ``blobs`` are the columns whose bytes are blobs.

    Raises SchemaMismatch, naming the column and the remedy, for a type that Spark cannot hold.
    """
    return st.StructType([_spark_field(field, field.name, field.name in blobs) for field in schema])


def wire_schema(schema: st.StructType) -> pa.Schema:
    """The exact Arrow schema that Spark expects of every batch of a read."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Spark 4.0 always assumes UTC and has no such parameter.
    named: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **named)


def to_arrow(schema: st.StructType) -> pa.Schema:
    """Arrow schema for a new dataset with these Spark columns.

    A column of arrays whose metadata has LIST_SIZE_KEY becomes a fixed-size list (a vector). Metadata of columns is
    kept, as text. Raises SchemaMismatch for Spark types that Lance cannot hold.
    """
    return pa.schema([_arrow_field(field, field.name) for field in schema.fields])


def _spark_field(field: pa.Field, path: str, is_blob: bool = False) -> st.StructField:
    metadata: dict[str, Any] = _decode_metadata(field.metadata)
    if pt.is_fixed_size_list(field.type):
        metadata[LIST_SIZE_KEY] = field.type.list_size
    if is_blob and pt.is_large_binary(field.type):
        metadata[BLOB_KEY] = "true"
    return st.StructField(field.name, _spark_type(field.type, path), field.nullable, metadata)


def _spark_type(kind: pa.DataType, path: str) -> st.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return _spark_type(kind.storage_type, path)
    for name, kinds in _SIMPLE.items():
        if any(applies(kind) for applies in kinds):
            simple: st.DataType = getattr(st, name)()
            return simple
    if pt.is_uint64(kind):
        return st.DecimalType(20, 0)
    if pt.is_decimal(kind) and 0 <= kind.scale <= kind.precision <= _MAX_DECIMAL:
        return st.DecimalType(kind.precision, kind.scale)
    if pt.is_timestamp(kind):
        return st.TimestampNTZType() if kind.tz is None else st.TimestampType()
    if pt.is_time(kind) and hasattr(st, _TIME_TYPE):
        time: st.DataType = getattr(st, _TIME_TYPE)(6)
        return time
    return _nested_type(kind, path)


def _nested_type(kind: pa.DataType, path: str) -> st.DataType:
    if pt.is_dictionary(kind):
        return _spark_type(kind.value_type, path)
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        return st.ArrayType(_spark_type(kind.value_type, f"{path}.element"), kind.value_field.nullable)
    if pt.is_map(kind):
        return st.MapType(
            _spark_type(kind.key_type, f"{path}.key"),
            _spark_type(kind.item_type, f"{path}.value"),
            kind.item_field.nullable,
        )
    if pt.is_struct(kind):
        return st.StructType([_spark_field(child, f"{path}.{child.name}") for child in kind])
    raise SchemaMismatch(
        f"Column '{path}' is {kind}, which this version of Spark cannot hold.",
        hint="Leave it out: list the columns to read in option('columns', ...).",
    )


_SIMPLE: Mapping[str, tuple[Callable[[pa.DataType], bool], ...]] = {
    "BooleanType": (pt.is_boolean,),
    "ByteType": (pt.is_int8,),
    "ShortType": (pt.is_int16, pt.is_uint8),
    "IntegerType": (pt.is_int32, pt.is_uint16),
    "LongType": (pt.is_int64, pt.is_uint32),
    "FloatType": (pt.is_float32, pt.is_float16),
    "DoubleType": (pt.is_float64,),
    "StringType": (pt.is_string, pt.is_large_string, pt.is_string_view),
    "BinaryType": (pt.is_binary, pt.is_large_binary, pt.is_fixed_size_binary, pt.is_binary_view),
    "DateType": (pt.is_date,),
    "DayTimeIntervalType": (pt.is_duration,),
    "NullType": (pt.is_null,),
}
"""Spark's types without parameters, and the types of Arrow that are read as them."""
_WRITABLE = frozenset({*_SIMPLE, "DecimalType", "TimestampType", "TimestampNTZType", _TIME_TYPE})


def _arrow_field(field: st.StructField, path: str) -> pa.Field:
    kind = _arrow_type(field.dataType, path)
    size = field.metadata.get(LIST_SIZE_KEY)
    if size is not None and pt.is_list(kind):
        kind = pa.list_(kind.value_field.with_name("item"), _vector_length(size, path))
    if field.metadata.get(BLOB_KEY) in ("true", True) and pt.is_binary(kind):
        kind = pa.large_binary()
    return pa.field(field.name, kind, field.nullable, _encode_metadata(field.metadata))


def _vector_length(size: Any, path: str) -> int:
    text = str(size)
    if text.isdecimal() and 0 < int(text) < 2**31:
        return int(text)
    raise SchemaMismatch(
        f"Column '{path}' has '{text}' in its metadata for {LIST_SIZE_KEY}, which is not a length of a vector.",
        hint="Set it to the number of elements, or remove it from the metadata to write lists of any length.",
    )


def _arrow_type(kind: st.DataType, path: str) -> pa.DataType:
    if isinstance(kind, st.StructType):
        return pa.struct([_arrow_field(child, f"{path}.{child.name}") for child in kind.fields])
    if isinstance(kind, st.ArrayType):
        return pa.list_(_inner_field("item", kind.elementType, kind.containsNull, path))
    if isinstance(kind, st.MapType):
        value = _inner_field("value", kind.valueType, kind.valueContainsNull, path)
        return pa.map_(pa.field("key", _arrow_type(kind.keyType, path), nullable=False), value)
    if type(kind).__name__ in _WRITABLE:
        return wire_schema(st.StructType([st.StructField("c", kind)])).field(0).type
    raise SchemaMismatch(
        f"Column '{path}' is {kind.simpleString()}, which Lance cannot hold.",
        hint=f"Cast it first, e.g. col('{path}').cast('string'), or drop it.",
    )


def _inner_field(name: str, kind: st.DataType, nullable: bool, path: str) -> pa.Field:
    # Spark's array() holds never-null elements of no type; Arrow has no such field.
    return pa.field(name, _arrow_type(kind, path), nullable or isinstance(kind, st.NullType))


def _decode_metadata(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """Arrow metadata as Spark's, without keys that describe Arrow's own encoding."""
    texts = {key.decode(): value.decode(errors="replace") for key, value in (metadata or {}).items()}
    return {key: value for key, value in texts.items() if not key.startswith(("ARROW:", "lance-encoding:"))}


def _encode_metadata(metadata: Mapping[str, Any]) -> dict[str, str] | None:
    """Spark metadata as Arrow's; values other than text are kept as JSON. A vector's length is in its type."""
    kept = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in metadata.items()
        if key != LIST_SIZE_KEY
    }
    return kept or None
