"""Constants in Lance's SQL, in the column's own type, so that neither a value nor the use of an index is lost.

DataFusion converts a constant to the type of the column that it is compared with, and rounds or wraps around where
that type cannot hold it: a timestamp with microseconds becomes one with milliseconds, a year 1 in nanoseconds one of
this century, a wall-clock time in a column with a time zone an instant of that zone.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

_UNITS = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


class Outside(enum.Enum):
    """Why a constant has no text: no value of the column's type is equal to it."""

    BELOW = "less than all values of the type"
    ABOVE = "greater than all values of the type"
    BETWEEN = "between two values of the type"


def literal(value: Any, kind: pa.DataType) -> str | Outside | None:
    """The constant as text of the column's type, or where it lies beside that type; None where neither is known.

    ``value`` is not None and not NaN, and is what Spark holds for the type that it sees in the column.
    """
    if pt.is_dictionary(kind):
        return literal(value, kind.value_type)
    write = next((write for applies, write in _WRITERS if applies(kind)), None)
    return None if write is None else write(value, kind)


def quoted(text: str) -> str | None:
    """A string constant; None for one that is no Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return None
    return "'" + text.replace("'", "''") + "'"


def float_text(value: float, kind: pa.DataType) -> str:
    """A float constant, ``inf`` and NaN among them, in the type that Spark sees."""
    # A Java float comes as the double that prints the same; both are the same float.
    text = repr(value) if pt.is_float64(kind) else str(np.float32(value))
    return f"CAST('{text}' AS {'DOUBLE' if pt.is_float64(kind) else 'FLOAT'})"


def _boolean(value: bool, _kind: pa.DataType) -> str:
    return "true" if value else "false"


def _integer(value: int | Decimal, kind: pa.DataType) -> str | Outside:
    number = int(value)
    signed = pt.is_signed_integer(kind)
    highest = 2 ** (kind.bit_width - signed) - 1
    lowest = -highest - 1 if signed else 0
    if number < lowest:
        return Outside.BELOW
    if number > highest:
        return Outside.ABOVE
    # The parser takes the digits behind the minus for a number of their own, which is too large for a bigint.
    return str(number) if number != _LOWEST else f"CAST('{number}' AS BIGINT)"


def _float(value: float, kind: pa.DataType) -> str | Outside:
    if pt.is_float16(kind):
        with np.errstate(over="ignore"):
            exact = float(np.float16(value)) == float(np.float32(value))
        if not exact:
            return Outside.BETWEEN
    return float_text(value, kind)


def _decimal(value: Decimal, kind: pa.DataType) -> str | Outside:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or -exponent > kind.scale:
        return Outside.BETWEEN
    if any(digits) and len(digits) + exponent > kind.precision - kind.scale:
        return Outside.BELOW if sign else Outside.ABOVE
    return f"CAST('{value:f}' AS DECIMAL({kind.precision},{kind.scale}))"


def _string(value: str, _kind: pa.DataType) -> str | None:
    return quoted(value)


def _binary(value: bytes, _kind: pa.DataType) -> str:
    return f"X'{bytes(value).hex()}'"


def _fixed_binary(value: bytes, kind: pa.DataType) -> str | Outside:
    return _binary(value, kind) if len(value) == kind.byte_width else Outside.BETWEEN


def _date(value: int, _kind: pa.DataType) -> str:
    return f"CAST({int(value)} AS DATE)"


def _timestamp(value: int, kind: pa.DataType) -> str | Outside | None:
    if kind.tz is not None and not set(kind.tz).isdisjoint("'\"\\"):
        return None
    ticks, rest = divmod(int(value) * _PER_SECOND[kind.unit], 10**6)
    if rest:
        return Outside.BETWEEN
    if ticks > _HIGHEST:
        return Outside.ABOVE
    if ticks <= _LOWEST:
        return Outside.BELOW if ticks < _LOWEST else None
    zone = "None" if kind.tz is None else f'Some("{kind.tz}")'
    return f"arrow_cast({ticks}, 'Timestamp({_UNITS[kind.unit]}, {zone})')"


_WRITERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], str | Outside | None]], ...] = (
    (pt.is_boolean, _boolean),
    (pt.is_integer, _integer),
    (pt.is_floating, _float),
    (pt.is_decimal128, _decimal),
    (pt.is_string, _string),
    (pt.is_large_string, _string),
    (pt.is_binary, _binary),
    (pt.is_large_binary, _binary),
    (pt.is_fixed_size_binary, _fixed_binary),
    (pt.is_date32, _date),
    (pt.is_timestamp, _timestamp),
)


def is_nan(value: Any) -> bool:
    """Whether a constant is NaN."""
    return isinstance(value, float) and math.isnan(value)
