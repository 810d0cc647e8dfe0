"""Arrow types to Spark types and back; docs/reference/types.md documents this file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.core.texts import quoted_name
from lance_spark.engine.lazy_spark import F, st
from lance_spark.engine.lengths_spark import Lengths, lengths_in, struct_text
from lance_spark.errors import SchemaMismatch
from lance_spark.format.blobs import BLOB_KEY, is_blob, is_list_of_blobs, is_list_of_bytes, mark_elements
from lance_spark.format.column_defaults import DEFAULT_KEY, default_of, is_now
from lance_spark.format.kept_types import KEPT, LENGTH_KEY, TYPE_KEY, belongs, kept_of
from lance_spark.format.schema import shown_fields, stored_fields

if TYPE_CHECKING:
    from pyspark.sql import Column

LIST_SIZE_KEY = "arrow.fixed-size-list.size"
"""Column metadata that holds a vector's length, under the JVM connector's key."""
_MAX_DECIMAL = 38
_TIME_TYPE = "TimeType"
"""Of newer versions of Spark."""


def to_spark(schema: pa.Schema) -> st.StructType:
    """Spark's schema for a dataset's. Bytes that are marked as a blob have the mark in Spark as well.

    Raises SchemaMismatch, naming the column and the remedy, for a type that Spark cannot hold.
    """
    return st.StructType([_spark_field(field, field.name) for field in schema])


def wire_schema(schema: st.StructType) -> pa.Schema:
    """The exact Arrow schema that Spark expects of every batch of a read."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Spark 4.0 always assumes UTC and has no such parameter.
    named: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **named)


_SPARK_DEFAULTS = ("CURRENT_DEFAULT", "EXISTS_DEFAULT")
"""Metadata of Spark's columns: the SQL of a default, for new rows and for those that files lack it of. A DataFrame that
was read from a table has it too, so that only a statement that declares columns may take it over."""


def declared_defaults(schema: st.StructType) -> dict[str, str]:
    """The defaults that Spark's columns have, by name."""
    return {each.name: str(each.metadata[_SPARK_DEFAULTS[0]]) for each in schema if _SPARK_DEFAULTS[0] in each.metadata}


def showing_defaults(schema: st.StructType, table: pa.Schema) -> st.StructType:
    """Spark's columns with the defaults of a table, by which Spark fills in what an INSERT leaves out."""
    texts = {field.name: text for field in table if (text := default_of(field)) is not None}
    if not texts:
        return schema
    fields = []
    for each in schema.fields:
        text = texts.get(each.name)
        # Spark wants a constant for the second, which is for rows that files lack; here they have it.
        told = {} if text is None else dict(zip(_SPARK_DEFAULTS, (text, "NULL" if is_now(text) else text), strict=True))
        fields.append(st.StructField(each.name, each.dataType, each.nullable, {**each.metadata, **told}))
    return st.StructType(fields)


def to_arrow(schema: st.StructType) -> pa.Schema:
    """Arrow schema for a new dataset with these Spark columns.

    A column of arrays whose metadata has LIST_SIZE_KEY becomes a fixed-size list (a vector). Metadata of columns is
    kept, as text. Raises SchemaMismatch for Spark types that Lance cannot hold.
    """
    return pa.schema([_arrow_field(field, field.name) for field in schema.fields])


def _spark_field(field: pa.Field, path: str) -> st.StructField:
    """A column. What is inside it has no lengths of its own in Spark: the column names them all."""
    found = _inner_spark_field(field, path)
    given = (field.metadata or {}).get(LENGTH_KEY.encode(), b"").decode()
    text, has_lengths = _with_lengths(field, found.dataType)
    if has_lengths:
        found.metadata[LENGTH_KEY] = text
    elif given and pt.is_nested(field.type) and lengths_in(given, found.dataType):
        found.metadata[LENGTH_KEY] = given  # as earlier releases stored it
    return found


def _inner_spark_field(field: pa.Field, path: str) -> st.StructField:
    metadata: dict[str, Any] = _decode_metadata(field.metadata)
    if pt.is_fixed_size_list(field.type):
        metadata[LIST_SIZE_KEY] = field.type.list_size
    if (is_blob(field) and pt.is_large_binary(field.type)) or is_list_of_blobs(field.type):
        metadata[BLOB_KEY] = "true"  # a list has that of its elements, which have no metadata in Spark
    return st.StructField(field.name, _kept_type(field, path), field.nullable, metadata)


_COLLATED = "string collate "


def _kept_name(kind: st.DataType) -> str:
    """Spark's name of a type. In JSON, Spark 4.0 has the collation of a string beside it."""
    return str(kind.simpleString() if isinstance(kind, st.StringType) else kind.jsonValue())


def _kept_type(field: pa.Field, path: str) -> st.DataType:
    """The type that the field's metadata keeps; without any, that of its Arrow type."""
    name = kept_of(field).get(TYPE_KEY)
    if name is None or not belongs(name, field.type):
        return _spark_type(field.type, path)
    from pyspark.errors import PySparkException
    from pyspark.sql.types import _parse_datatype_json_value

    if name.startswith(_COLLATED):
        return st.StringType(name.removeprefix(_COLLATED))
    try:
        found: st.DataType | None = _parse_datatype_json_value(name)
    except (PySparkException, AttributeError, NameError):
        found = None
    if found is None:
        raise SchemaMismatch(
            f"Column '{path}' is {name}, which this version of Spark cannot hold.",
            hint="Leave it out: list the columns to read in option('columns', ...).",
        )
    return found


def _with_lengths(field: pa.Field, kind: st.DataType) -> tuple[str, bool]:
    """The text of a type with its lengths, and whether there are any."""
    if isinstance(kind, st.StructType) and pt.is_struct(field.type):
        seen = zip(shown_fields(field.type), kind.fields, strict=True)
        inner = [_with_lengths(each, child.dataType) for each, child in seen]
        return struct_text(kind.names, [text for text, _ in inner]), any(found for _, found in inner)
    if isinstance(kind, st.ArrayType):
        text, found = _with_lengths(field.type.value_field, kind.elementType)
        return f"array<{text}>", found
    if isinstance(kind, st.MapType):
        key, in_key = _with_lengths(field.type.key_field, kind.keyType)
        value, in_value = _with_lengths(field.type.item_field, kind.valueType)
        return f"map<{key},{value}>", in_key or in_value
    length = kept_of(field).get(LENGTH_KEY)
    is_text = length is not None and isinstance(kind, st.StringType)
    return (str(length), True) if is_text else (kind.simpleString(), False)


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
        return st.ArrayType(_kept_type(kind.value_field, f"{path}.element"), kind.value_field.nullable)
    if pt.is_map(kind):
        return st.MapType(
            _kept_type(kind.key_field, f"{path}.key"),
            _kept_type(kind.item_field, f"{path}.value"),
            kind.item_field.nullable,
        )
    if pt.is_struct(kind):
        return st.StructType([_inner_spark_field(child, f"{path}.{child.name}") for child in shown_fields(kind)])
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
_PAIRS = frozenset({"VariantType", "GeometryType", "GeographyType"})
"""Types whose values Spark passes as two fields."""
_LENGTHS = frozenset({"CharType", "VarcharType"})
_WRITABLE = frozenset({*_SIMPLE, *_PAIRS, "DecimalType", "TimestampType", "TimestampNTZType", _TIME_TYPE})


def _arrow_field(field: st.StructField, path: str, lengths: Lengths | None = None) -> pa.Field:
    text = field.metadata.get(LENGTH_KEY)
    if lengths is None and isinstance(text, str):
        lengths = lengths_in(text, field.dataType)
    made = _named_field(field.name, field.dataType, field.nullable, path, lengths or {})
    kind = made.type
    size = field.metadata.get(LIST_SIZE_KEY)
    if size is not None and pt.is_list(kind):
        kind = pa.list_(kind.value_field.with_name("item"), _vector_length(size, path))
    metadata = {**(_encode_metadata(field.metadata) or {}), **kept_of(made)}
    if field.metadata.get(BLOB_KEY) in ("true", True):
        if pt.is_binary(kind):
            kind = pa.large_binary()
        elif is_list_of_bytes(kind):
            kind = mark_elements(kind)
            del metadata[BLOB_KEY]
    return pa.field(field.name, kind, field.nullable, metadata or None)


def _vector_length(size: Any, path: str) -> int:
    text = str(size)
    if text.isdecimal() and 0 < int(text) < 2**31:
        return int(text)
    raise SchemaMismatch(
        f"Column '{path}' has '{text}' in its metadata for {LIST_SIZE_KEY}, which is not a length of a vector.",
        hint="Set it to the number of elements, or remove it from the metadata to write lists of any length.",
    )


def _named_field(name: str, kind: st.DataType, nullable: bool, path: str, lengths: Lengths) -> pa.Field:
    """A field, with metadata that keeps its type if Arrow has none that says the same."""
    kept = {TYPE_KEY: _kept_name(kind)} if _is_kept(kind) else {}
    if type(kind).__name__ in _LENGTHS:
        lengths, kind = str(kind.simpleString()), st.StringType()
    if isinstance(lengths, str) and lengths:
        kept[LENGTH_KEY] = lengths
    return pa.field(name, _arrow_type(kind, path, lengths), nullable, kept or None)


def _is_kept(kind: st.DataType) -> bool:
    name = type(kind).__name__
    if name == "StringType":
        return str(kind.simpleString()) != "string"
    if name == "DayTimeIntervalType":
        return str(kind.simpleString()) != "interval day to second"
    return name in _PAIRS or (name == _TIME_TYPE and kind.simpleString() != "time(6)")


def _arrow_type(kind: st.DataType, path: str, lengths: Lengths) -> pa.DataType:
    inner: Mapping[str, Lengths] = {} if isinstance(lengths, str) else lengths
    if isinstance(kind, st.StructType):
        fields = [_arrow_field(each, f"{path}.{each.name}", inner.get(each.name, {})) for each in kind.fields]
        return pa.struct(stored_fields(fields))
    if isinstance(kind, st.ArrayType):
        element = inner.get("element", {})
        return pa.list_(_inner_field("item", kind.elementType, kind.containsNull, f"{path}.element", element))
    if isinstance(kind, st.MapType):
        if isinstance(kind.keyType, st.NullType):
            raise SchemaMismatch(
                f"Column '{path}' is {kind.simpleString()}: an empty map whose keys have no type.",
                hint=f"Cast it first: CAST({path} AS MAP<STRING, STRING>), or drop it.",
            )
        key = _named_field("key", kind.keyType, False, f"{path}.key", inner.get("key", {}))
        value = inner.get("value", {})
        return pa.map_(key, _inner_field("value", kind.valueType, kind.valueContainsNull, f"{path}.value", value))
    if type(kind).__name__ in _WRITABLE:
        made = wire_schema(st.StructType([st.StructField("c", kind)])).field(0).type
        return pa.struct([child.remove_metadata() for child in made]) if type(kind).__name__ in _PAIRS else made
    raise SchemaMismatch(
        f"Column '{path}' is {kind.simpleString()}, which Lance cannot hold.",
        hint=f"Cast it first, e.g. col('{path}').cast('string'), or drop it.",
    )


def _inner_field(name: str, kind: st.DataType, nullable: bool, path: str, lengths: Lengths) -> pa.Field:
    # Spark's array() holds never-null elements of no type; Arrow has no such field.
    return _named_field(name, kind, nullable or isinstance(kind, st.NullType), path, lengths)


def _decode_metadata(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """Arrow metadata as Spark's, without keys that describe Arrow's own encoding."""
    texts = {key.decode(): value.decode(errors="replace") for key, value in (metadata or {}).items()}
    return {
        key: value
        for key, value in texts.items()
        if key not in (*KEPT, DEFAULT_KEY) and not key.startswith(("ARROW:", "lance-encoding:"))
    }


def _encode_metadata(metadata: Mapping[str, Any]) -> dict[str, str] | None:
    """Spark metadata as Arrow's; values other than text are kept as JSON. A vector's length is in its type."""
    kept = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in metadata.items()
        if key not in (LIST_SIZE_KEY, *KEPT, *_SPARK_DEFAULTS)
    }
    return kept or None


def quoted(name: str, side: str | None = None) -> Column:
    """A column by its name, quoted if necessary; ``side`` is the alias of its DataFrame."""
    return F.col(quoted_name(name) if side is None else f"{side}.{quoted_name(name)}")
