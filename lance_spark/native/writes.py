"""Writes whose rows go to Python as columns, for schemas of plain types. Other writes use Spark's Arrow batches.

Both may tell Spark how to bring the rows to the tasks that write them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.engine.columns_spark import COLUMN
from lance_spark.jvm.bridge import from_java
from lance_spark.layout.layout_rules import AS_THEY_COME, Arrangement
from lance_spark.native.layouts import requiring
from lance_spark.native.tasks import UNIX_SOCKETS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from lance_spark.jvm.bridge import Bridge

_KINDS: dict[str, tuple[str, pa.DataType]] = {
    "boolean": ("boolean", pa.bool_()),
    "byte": ("byte", pa.int8()),
    "short": ("short", pa.int16()),
    "integer": ("int", pa.int32()),
    "long": ("long", pa.int64()),
    "float": ("float", pa.float32()),
    "double": ("double", pa.float64()),
    "date": ("int", pa.date32()),
    "timestamp_ntz": ("long", pa.timestamp("us")),
    "string": ("text", pa.string()),
    "binary": ("binary", pa.binary()),
}
"""Spark's names of types, to the kind of column in ``Writes.java`` and the Arrow type."""
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def shaped(bridge: Bridge, builder: Any, schema: Any, arranged: Arrangement) -> Any:
    """The builder of a write, wrapped so that its write has the shape that session and schema allow."""
    shape = shape_of(bridge, from_java(schema), arranged) if bridge.writes_columns else None
    return builder if shape is None else shape.builder(builder)


def shape_of(bridge: Bridge, schema: StructType, arranged: Arrangement = AS_THEY_COME) -> Any:
    """The Java object that makes a write send columns, and Spark bring its rows; None if there is nothing to make.

    Columns of other types are sent by Spark. In a session whose writes send none, rows come as they come.
    """
    if not bridge.writes_columns:
        return None
    found = columns_of(schema, str(bridge.spark.conf.get("spark.sql.session.timeZone")))
    if found is None and not arranged:
        return None
    kinds, sent = (None, b"") if found is None else (found[0], found[1].serialize().to_pybytes())
    shape = bridge.maker.shape(kinds, sent, COLUMN, UNIX_SOCKETS)
    return requiring(bridge, shape, arranged) if arranged else shape


def columns_of(schema: StructType, time_zone: str) -> tuple[str, pa.Schema] | None:
    """The kinds of columns in ``Writes.java``, and their Arrow schema; None if it does not support one of the types.

    Not supported are nested types, decimals with a negative scale, and strings with a collation or a length.
    """
    found = [_kind(field.dataType.jsonValue(), time_zone) for field in schema]
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found):
        return None
    fields = [pa.field(field.name, kind, field.nullable) for field, (_, kind) in zip(schema, known, strict=True)]
    return ",".join(name for name, _ in known), pa.schema(fields)


def _kind(name: Any, time_zone: str) -> tuple[str, pa.DataType] | None:
    if not isinstance(name, str):
        return None
    if name == "timestamp":
        return "long", pa.timestamp("us", time_zone)
    if (digits := _DECIMAL.fullmatch(name)) is not None:
        return f"decimal {digits[1]} {digits[2]}", pa.decimal128(int(digits[1]), int(digits[2]))
    return _KINDS.get(name)
