"""A table of values on which Spark and Lance could differ, and its copy in Parquet."""

from __future__ import annotations

import math
import random
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_DATES = [
    date(1, 1, 1),
    date(1582, 10, 4),
    date(1582, 10, 15),
    date(1969, 12, 31),
    date(2013, 1, 1),
    date(9999, 12, 31),
]


def _at(*fields: int) -> datetime:
    return datetime(*fields, tzinfo=timezone.utc).replace(tzinfo=None)  # type: ignore[misc, arg-type]


_MOMENTS = [
    _at(2, 1, 1),
    _at(1582, 10, 4, 23, 59, 59, 999999),
    _at(1582, 10, 15),
    _at(1969, 12, 31, 23, 59, 59, 999999),
    _at(1970, 1, 1),
    _at(2020, 10, 25, 1, 30),
    _at(2020, 10, 25, 1, 30, 0, 1),
    _at(9998, 12, 31, 23, 59, 59, 999999),
]
_FLOATS = [math.nan, 0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, 0.1, 1e300, 5e-324]
_TEXTS = ["", "a", "A", "ab", "a%b", "a_b", "a\\b", "it's", 'q"q', " a ", "\U0001f600", "\uffff", "new\nline", "a\x00b"]
_CENTS = [Decimal(text) for text in ("0.00", "-0.01", "1.50", "1.51", "99999999.99", "-99999999.99")]
_BYTES = [b"", b"a", b"\x00", b"\xff", b"\xff\xfe", b"'"]

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        ("g", pa.int32()),
        ("i8", pa.int8()),
        ("u8", pa.uint8()),
        ("big", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("yes", pa.bool_()),
        ("s", pa.string()),
        ("raw", pa.binary()),
        ("dec", pa.decimal128(10, 2)),
        ("dt", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("ntz", pa.timestamp("us")),
        ("st", pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.struct([("x", pa.float64())]))])),
        ("list", pa.list_(pa.int32())),
        ("Camel", pa.string()),
        ("odd na'me", pa.int32()),
    ]
)


def rows(count: int, first: int = 0, seed: int = 0) -> pa.Table:
    """Rows whose ``k`` counts from ``first``; about one value in six is null."""
    chance = random.Random(seed)

    def some(values: list[Any]) -> Any:
        return None if chance.random() < 0.16 else chance.choice(values)

    def struct() -> Any:
        inner = some([{"x": some(_FLOATS)}])
        return some([{"a": some([1, 2, 3]), "b": some(_TEXTS), "c": inner}])

    made = [
        {
            "k": first + at,
            "g": some([1, 2, 3, 4]),
            "i8": some([-128, -1, 0, 1, 127]),
            "u8": some([0, 1, 127, 128, 255]),
            "big": some([-(2**40), -1, 0, 1, 2**40, 2**53 + 1]),
            "f": some([*_FLOATS[:8], 3.4e38]),
            "d": some(_FLOATS),
            "yes": some([True, False]),
            "s": some(_TEXTS),
            "raw": some(_BYTES),
            "dec": some(_CENTS),
            "dt": some(_DATES),
            "ts": some([moment.replace(tzinfo=timezone.utc) for moment in _MOMENTS]),
            "ntz": some(_MOMENTS),
            "st": struct(),
            "list": some([[], [1], [1, None, 2]]),
            "Camel": some(_TEXTS[:4]),
            "odd na'me": some([1, 2, 3]),
        }
        for at in range(count)
    ]
    return pa.Table.from_pylist(made, SCHEMA)


def write_adversarial(uri: str, parquet: str, indexed: bool) -> None:
    """Four fragments, rows deleted from two of them, one written after the indexes; and a copy in Parquet."""
    import lance

    dataset = lance.write_dataset(rows(90), uri, max_rows_per_file=30)
    if indexed:
        for column, kind in (("k", "BTREE"), ("g", "BITMAP"), ("s", "BTREE"), ("d", "BTREE"), ("dt", "BTREE")):
            dataset.create_scalar_index(column, kind)
    dataset = lance.write_dataset(rows(40, 90, 1), uri, mode="append")
    dataset.delete("k % 7 = 3 AND k < 60")
    pq.write_table(lance.dataset(uri).to_table(), parquet)
