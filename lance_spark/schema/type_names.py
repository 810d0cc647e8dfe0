"""Types of columns as people type them, without an engine that parses SQL. Pure."""

from __future__ import annotations

import re

import pyarrow as pa

from lance_spark.errors import InvalidOption

_NAMES = {
    ("tinyint", "byte"): pa.int8(),
    ("smallint", "short"): pa.int16(),
    ("int", "integer"): pa.int32(),
    ("bigint", "long"): pa.int64(),
    ("float", "real"): pa.float32(),
    ("double",): pa.float64(),
}
_BY_NAME = {name: kind for names, kind in _NAMES.items() for name in names}
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")


def number_type(text: str) -> pa.DataType:
    """The type of that name in Spark's SQL: only numbers can be given a wider type. Raises InvalidOption."""
    plain = text.strip().lower()
    decimal = _DECIMAL.fullmatch(plain)
    if decimal is not None and 0 <= int(decimal[2] or 0) <= int(decimal[1]) <= 38 and int(decimal[1]):
        return pa.decimal128(int(decimal[1]), int(decimal[2] or 0))
    if plain not in _BY_NAME:
        raise InvalidOption(
            f"A column cannot be given the type {text!r}.",
            hint=f"Numbers can be given a wider type of their kind: {', '.join(_BY_NAME)}, decimal(p, s).",
        )
    return _BY_NAME[plain]
