"""Columns with the values on which Lance's filters and Spark's could differ, and constants to compare them with."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

NEGATIVE_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000000))[0]
"""What 0.0 / 0.0 gives on x86."""
ODD_NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]
_TEXTS = [
    "",
    "a",
    "A",
    "it's",
    None,
    "a\\b",
    "a%b_c",
    "\U0001f600",
    "ab",
    "\uffff",
    " a ",
    "a\x00b",
    'q"q',
    "new\nline",
]
_FLOATS = [math.nan, -0.0, 0.0, 1.5, None, math.inf, -math.inf, 0.1, NEGATIVE_NAN, ODD_NAN, -1.0, 5e-324, 1e300, 2.0]
_BYTES = [b"", b"a", b"\xff", b"\x00", None, b"'", b"ab", b"zz", b"\xff\xfe", b"a\x00", b"A", b"\\", b"a", b"\x7f"]
_MICROS = [
    0,
    -1,
    -62_135_596_800_000_000,
    253_402_300_799_999_999,
    None,
    1,
    1_600_000_000_123_456,
    -12_219_292_800_000_000,
    -12_219_292_800_000_001,
    1_603_587_600_000_000,
    1_603_591_200_000_000,
    86_400_000_000,
    999_999,
    1_000_000,
]
_DAYS = [0, -719_162, 2_932_896, None, -141_427, -141_428, 18_321, 1, -1, -25_567, 11_016, 20_000_000, -10_000_000, 0]
_CENTS = [
    "1.50",
    "-0.01",
    "99999999.99",
    None,
    "0.00",
    "2.00",
    "1.51",
    "1.49",
    "-99999999.99",
    "1.50",
    "0.01",
    "3",
    "4",
    "5",
]
ROWS = len(_TEXTS)


def _scaled(values: list[Any], per_micro: float) -> list[Any]:
    return [None if value is None else int(value // (1 / per_micro)) for value in values]


def _cycled(values: list[Any]) -> list[Any]:
    return [values[index % len(values)] for index in range(ROWS)]


def _integers(kind: pa.DataType, lowest: int, highest: int) -> pa.Array:
    return pa.array(_cycled([lowest, highest, 0, 1, None, 2, highest - 1, lowest + 1, 3]), kind)


def _halves() -> pa.Array:
    wide = np.array([np.nan if value is None else value for value in _FLOATS])
    with np.errstate(over="ignore", under="ignore"):
        return pa.array(wide.astype(np.float16), mask=np.array([value is None for value in _FLOATS]))


def _singles() -> pa.Array:
    wide = np.array([np.nan if value is None else value for value in _FLOATS])
    with np.errstate(over="ignore", under="ignore"):
        return pa.array(wide.astype(np.float32), mask=np.array([value is None for value in _FLOATS]))


def _points() -> pa.Array:
    """Null structs, with values below the null that nobody may see, and structs of nulls."""
    inner = pa.StructArray.from_arrays(
        [pa.array(_TEXTS)], fields=[pa.field("z", pa.string())], mask=pa.array([n % 5 == 1 for n in range(ROWS)])
    )
    fields = [
        pa.field("x", pa.int32()),
        pa.field("X", pa.int32()),
        pa.field("y", inner.type),
        pa.field("a.b c", pa.float64()),
    ]
    numbers = pa.array([None if n % 3 == 2 else n % 4 for n in range(ROWS)], pa.int32())
    others = pa.array([n % 2 for n in range(ROWS)], pa.int32())
    floats = pa.array(_FLOATS, pa.float64())
    return pa.StructArray.from_arrays(
        [numbers, others, inner, floats], fields=fields, mask=pa.array([n % 4 == 1 for n in range(ROWS)])
    )


def table() -> pa.Table:
    """One row for each of the values."""
    numbers = pa.array(range(ROWS), pa.int32())
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "boolean": pa.array(_cycled([True, False, None])),
            "tinyint": _integers(pa.int8(), -128, 127),
            "smallint": _integers(pa.int16(), -(2**15), 2**15 - 1),
            "int": _integers(pa.int32(), -(2**31), 2**31 - 1),
            "bigint": _integers(pa.int64(), -(2**63), 2**63 - 1),
            "uint8": _integers(pa.uint8(), 0, 255),
            "uint16": _integers(pa.uint16(), 0, 2**16 - 1),
            "uint32": _integers(pa.uint32(), 0, 2**32 - 1),
            "uint64": _integers(pa.uint64(), 0, 2**64 - 1),
            "double": pa.array(_FLOATS, pa.float64()),
            "float": _singles(),
            "half": _halves(),
            "decimal": pa.array([None if text is None else Decimal(text) for text in _CENTS], pa.decimal128(10, 2)),
            "decimal38": pa.array(
                _cycled([Decimal(10) ** 37, -(Decimal(10) ** 37), None, Decimal(1)]), pa.decimal128(38, 0)
            ),
            "string": pa.array(_TEXTS),
            "large_string": pa.array(_TEXTS, pa.large_string()),
            "binary": pa.array(_BYTES),
            "large_binary": pa.array(_BYTES, pa.large_binary()),
            "fixed_binary": pa.array(
                [None if value is None else (value + b"ab")[:2] for value in _BYTES], pa.binary(2)
            ),
            "date": pa.array(_DAYS, pa.int32()).cast(pa.date32()),
            "timestamp": pa.array(_MICROS, pa.timestamp("us", "UTC")),
            "timestamp_berlin": pa.array(_MICROS, pa.timestamp("us", "Europe/Berlin")),
            "timestamp_ntz": pa.array(_MICROS, pa.timestamp("us")),
            "timestamp_s": pa.array(_scaled(_MICROS, 1e-6), pa.timestamp("s", "UTC")),
            "timestamp_ms": pa.array(_scaled(_MICROS, 1e-3), pa.timestamp("ms")),
            "timestamp_ns": pa.array(
                [None if n is None or abs(n) > 2**53 else n * 1000 for n in _MICROS], pa.timestamp("ns", "UTC")
            ),
            "dictionary": pa.array(_TEXTS).dictionary_encode(),
            "point": _points(),
            "list": pa.array(_cycled([[1], [], None, [None]]), pa.list_(pa.int32())),
            "Case": numbers,
            "case": pa.array(range(100, 100 + ROWS), pa.int32()),
            "select": numbers,
            "with space": numbers,
            "q\"uo'te": numbers,
            "ünï-cödé": numbers,
        }
    )


SPECIAL: dict[str, list[Any]] = {
    "boolean": [],
    "tinyint": [-128, 127],
    "smallint": [-1, 300, -(2**15), 2**15 - 1],
    "int": [-1, 2**16, -(2**31), 2**31 - 1],
    "bigint": [-1, 2**32, -(2**63), 2**63 - 1],
    "decimal(20,0)": [Decimal(-1), Decimal(2**64), Decimal(2**63)],
    "double": [math.nan, NEGATIVE_NAN, 0.0, -0.0, 1e-5, math.inf, -math.inf, 1.7976931348623157e308],
    "float": [math.nan, 0.0, -0.0, 0.1, 65504.0, 1e10, math.inf, -math.inf],
    "decimal(10,2)": [Decimal("99999999.99"), Decimal("1.5"), Decimal("-0.00")],
    "decimal(38,0)": [Decimal("9" * 38), Decimal(10) ** 38, -(Decimal(10) ** 38), Decimal(0)],
    "string": ["", "'", "''", "b", "%", "_", "\\", "a%", "\ud7ff", "İ"],
    "binary": [b"", b"\xff", b"'", b"ab\x00", b"\x80"],
    "date": [-719_163, 2_932_897, 100_000_000, -141_420],
    "timestamp": [
        -62_135_596_800_000_001,
        253_402_300_800_000_000,
        123,
        10**18,
        -(10**18),
        2**63 - 1,
        1_603_587_600_000_001,
    ],
    "timestamp_ntz": [-62_135_596_800_000_001, 253_402_300_800_000_000, 123, 10**18, -(10**18), 1500],
}
"""Constants for each of Spark's types beside those that are in the columns."""
