"""Defaults of columns: the value of a row that is written without one. Pure.

A default is a constant, or the moment of the write, so that Spark, a process without Spark and commands give rows the
same value. Its SQL is in the field's metadata: it goes with the column when that is renamed or dropped, and other tools
read and write the table as before.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import datetime, timezone

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidOption
from lance_spark.format.constants import ZONES, Constant, stored, unquoted
from lance_spark.format.kept_types import fit_column

DEFAULT_KEY = "lance_spark.default"
"""Field metadata: the SQL of the default, as it was declared."""
_NUMBER = re.compile(r"([+-]?)\s*(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)(?:[LSYDF]|BD)?", re.IGNORECASE)
_TEXT = re.compile(r"'((?:[^'\\]|\\')*)'")
"""A quote is written as ``\\'``: two quotes are one in newer versions of Spark only, and none in 4.0."""
_TYPED = re.compile(r"(DATE|TIMESTAMP|TIMESTAMP_NTZ|TIMESTAMP_LTZ)\s*('[^'\\]*')", re.IGNORECASE)
_NOW = re.compile(r"(?:current_timestamp|now)\s*\(\s*\)|current_timestamp", re.IGNORECASE)
_ANY_MOMENT = datetime.fromtimestamp(0, timezone.utc)
_HINT = (
    "A default is a number, a text in single quotes (with \\' for a quote), TRUE, FALSE, NULL, DATE '2026-01-31', "
    f"TIMESTAMP '2026-01-31 12:00:00Z' ({ZONES}), or current_timestamp()."
)


def default_of(field: pa.Field) -> str | None:
    """The SQL of a column's default; None without one."""
    found = (field.metadata or {}).get(DEFAULT_KEY.encode())
    return None if found is None else found.decode(errors="replace")


def is_now(text: str) -> bool:
    """Whether a default is the moment of the write."""
    return _NOW.fullmatch(text.strip()) is not None


def value_of(text: str, field: pa.Field, now: datetime) -> pa.Scalar:
    """The value that a default gives rows of a write at a moment.

    Raises InvalidOption for one that the column cannot have, SchemaMismatch for a text that is longer than it allows.
    """
    sql, kind = text.strip(), field.type
    if sql.upper() == "NULL" and field.nullable:
        return pa.scalar(None, kind)
    if is_now(sql):
        if pt.is_timestamp(kind) and kind.tz is not None:
            return pa.scalar(now, pa.timestamp("us", "UTC")).cast(kind, safe=False)
        raise _unfit(text, field, "the moment of a write is a TIMESTAMP")
    given = _constant(sql)
    if given is None:
        raise _unfit(text, field, "the column allows no nulls" if sql.upper() == "NULL" else "it is no constant")
    found = stored(given, kind) if given.kind != "text" or not pt.is_date(kind) else None
    if found is None:
        raise _unfit(text, field, f"it is no {kind}")
    return fit_column(pa.array([found], kind), field)[0]  # CHAR is padded


def constant_of(text: str, field: pa.Field) -> pa.Scalar:
    """The value of a default that is a constant. Raises InvalidOption for one that the column cannot have."""
    return value_of(text, field, _ANY_MOMENT)


def _constant(sql: str) -> Constant | None:
    if number := _NUMBER.fullmatch(sql):
        return Constant("number", number[1].replace("+", "") + number[2])
    if text := _TEXT.fullmatch(sql):
        return Constant("text", text[1].replace("\\'", "'"))
    if typed := _TYPED.fullmatch(sql):
        return Constant("date" if typed[1].upper() == "DATE" else "time", unquoted(typed[2]))
    return Constant("bool", sql.upper() == "TRUE") if sql.upper() in ("TRUE", "FALSE") else None


def _unfit(text: str, field: pa.Field, why: str) -> InvalidOption:
    return InvalidOption(
        f"Column '{field.name}' of type {field.type} cannot have the default {text}: {why}.", hint=_HINT
    )


def settled(text: str, field: pa.Field, now: datetime) -> str:
    """A default as a constant of the column's type: of a column that is added, for the rows that are there."""
    if is_now(text):
        return f"TIMESTAMP '{now.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S.%f}Z'"
    value = value_of(text, field, now).as_py()
    return "'" + value.replace("'", "\\'") + "'" if isinstance(value, str) else text


def defaults_for(schema: pa.Schema, given: Collection[str], now: datetime) -> dict[str, pa.Scalar]:
    """The values of the columns that rows lack, of those that have a default."""
    lacking = (field for field in schema if field.name not in given)
    return {field.name: value_of(text, field, now) for field in lacking if (text := default_of(field)) is not None}


def with_defaults(schema: pa.Schema, defaults: Mapping[str, str]) -> pa.Schema:
    """The columns with these defaults, by name. Raises InvalidOption for one that a column cannot have."""
    return pa.schema([with_default(field, defaults.get(field.name)) for field in schema], metadata=schema.metadata)


def with_default(field: pa.Field, text: str | None) -> pa.Field:
    """A column with another default; None leaves it as it is, an empty one removes it. Raises InvalidOption."""
    if text is None:
        return field
    metadata = {key: value for key, value in (field.metadata or {}).items() if key != DEFAULT_KEY.encode()}
    if text.strip():
        constant_of(text, field)
        metadata[DEFAULT_KEY.encode()] = text.strip().encode()
    return field.with_metadata(metadata or None)
