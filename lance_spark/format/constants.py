"""Constants of SQL as values of Arrow: what conditions compare with, and what columns have by default."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

ZONES = "write TIMESTAMP '2026-01-31 12:00:00', of a column with a time zone with a Z"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Constant:
    kind: str
    """``number``, ``text``, ``bool``, ``date`` or ``time``."""
    value: Any
    """A text; of a ``bool`` whether it is true."""

    def __str__(self) -> str:
        return str(self.value) if self.kind in ("number", "bool") else f"'{self.value}'"


def unquoted(text: str) -> str:
    """The text of a literal."""
    return text[1:-1].replace("''", "'")


def is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind))


_FAMILIES: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
    ("whole", pt.is_signed_integer),
    ("decimal", pt.is_decimal128),
    ("float", lambda kind: bool(pt.is_float32(kind) or pt.is_float64(kind))),
    ("text", is_text),
    ("bool", pt.is_boolean),
    ("date", pt.is_date32),
    ("time", pt.is_timestamp),
)


def family(kind: pa.DataType) -> str | None:
    """Types whose values compare with each other have one family; None for those that are not compared."""
    return next((name for name, fits in _FAMILIES if fits(kind)), None)


def comparable(given: Constant, kind: pa.DataType) -> pa.Scalar | None:
    """A constant as a value to compare with those of a type; None if it is none."""
    of, value = family(kind), given.value
    try:
        if of in ("whole", "decimal") and given.kind == "number" and "e" not in value.lower():
            number = Decimal(value)
            if number == number.to_integral_value() and abs(number) < 2**63:
                return pa.scalar(int(number), pa.int64())
            return pa.scalar(number)
        if of == "float" and given.kind == "number":
            return pa.scalar(float(value), pa.float64())
        if of == "text" and given.kind == "text":
            return pa.scalar(value, pa.large_string())
        if of == "bool" and given.kind == "bool":
            return pa.scalar(value, pa.bool_())
        if of == "date" and given.kind in ("date", "text") and re.fullmatch(r"\d{4}-\d\d-\d\d", value):
            return pa.scalar(date.fromisoformat(value), pa.date32())
        if of == "time" and given.kind == "time":
            return _moment(value, kind)
    except (ValueError, ArithmeticError, pa.ArrowInvalid):
        pass
    return None


def stored(given: Constant, kind: pa.DataType) -> pa.Scalar | None:
    """A constant as exactly this value of a type; None if the type has no such value."""
    found = comparable(given, kind)
    try:
        if found is not None and pt.is_decimal(kind):
            return pa.scalar(Decimal(given.value), kind)
        return None if found is None else found.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _moment(text: str, kind: pa.DataType) -> pa.Scalar:
    """Raises ValueError for a text whose moment depends on a session's time zone."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(Z|[+-]\d\d:\d\d)?", text)
    if match is None or (match[4] is None) != (kind.tz is None):
        raise ValueError(text)
    zone = "+00:00" if match[4] in (None, "Z") else match[4]
    whole = datetime.fromisoformat(f"{match[1]}T{match[2]}{zone}") - _EPOCH
    micros = whole // timedelta(microseconds=1) + int((match[3] or "0").ljust(6, "0"))
    return pa.scalar(micros, pa.int64()).cast(pa.timestamp("us", kind.tz))
