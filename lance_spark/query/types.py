"""How Spark sees a dataset's simple types, in Arrow's terms and by Spark's names.

The types themselves are mapped in :mod:`lance_spark.spark.types`; a test holds the two against each other.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.schema.blobs import is_blob

_ALIASES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
"""Names in Spark's JSON schemas that differ from its ``simpleString``."""
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_NAMES = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}
_WIDENED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}
"""Types that Spark does not have, and those that it reads them as."""
_MAX_DECIMAL = 38


def as_spark_sends(kind: pa.DataType) -> pa.DataType | None:
    """The Arrow type in which Spark takes values of a simple type; None for a nested one and for what has no rule."""
    if pt.is_dictionary(kind):
        return as_spark_sends(kind.value_type)
    kind = _WIDENED.get(kind, kind)
    if kind in _NAMES:
        return kind
    if pt.is_decimal(kind) and 0 <= kind.scale <= kind.precision <= _MAX_DECIMAL:
        return pa.decimal128(kind.precision, kind.scale)
    if pt.is_timestamp(kind):
        return pa.timestamp("us") if kind.tz is None else pa.timestamp("us", "UTC")
    return pa.binary() if pt.is_fixed_size_binary(kind) else None


def spark_name(kind: pa.DataType) -> str | None:
    """Spark's ``simpleString`` for a simple type, e.g. ``decimal(10,2)``; None where :func:`as_spark_sends` is."""
    sent = as_spark_sends(kind)
    if sent is not None and pt.is_decimal(sent):
        return f"decimal({sent.precision},{sent.scale})"
    return None if sent is None else _NAMES[sent]


def same_type(name: str, kind: pa.DataType) -> bool:
    """Whether a type by Spark's name, as ``simpleString`` or as in its JSON schemas, is how Spark sees this type."""
    return _ALIASES.get(name, name) == spark_name(kind)


def widens(kind: pa.DataType, name: str) -> bool:
    """Whether every value of a column is the same whole number after a cast to Spark's type of that name."""
    mine, target = spark_name(kind), _ALIASES.get(name, name)
    return mine in _INTEGERS and target in _INTEGERS and _INTEGERS.index(mine) <= _INTEGERS.index(target)


def plain_field(schema: pa.Schema, path: tuple[str, ...]) -> pa.Field | None:
    """The field at the end of a path, if what is stored of it is what is read of it: no blob, no extension type."""
    found = field_at(schema, path)
    if found is None or is_blob(schema.field(path[0])) or isinstance(found.type, pa.BaseExtensionType):
        return None
    return None if b"ARROW:extension:name" in (found.metadata or {}) else found


def field_at(schema: pa.Schema, path: tuple[str, ...]) -> pa.Field | None:
    """The field at the end of a path through structs; None where there is none. Names are compared to the letter."""
    found: pa.Field | None = None
    for depth, name in enumerate(path):
        if depth and (found is None or not pt.is_struct(found.type)):
            return None
        holder = schema if found is None else found.type
        index = holder.get_field_index(name)
        if index < 0:
            return None
        found = holder.field(index)
    return found
