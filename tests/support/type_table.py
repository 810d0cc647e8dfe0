"""The table in docs/reference/types.md: what pylance stores, what Spark shows, and what Spark creates from that."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import types as st

HAS_TIME = hasattr(st, "TimeType")
_NOON = datetime(2020, 2, 29, 12, 34, 56, tzinfo=timezone.utc).replace(tzinfo=None)
_EXACT = _NOON.replace(microsecond=789012)
_BEFORE_1970 = datetime(1901, 12, 13, 20, 45, 51, tzinfo=timezone.utc).replace(tzinfo=None)
_F16, _F32 = pa.float16(), pa.float32()
_VECTOR = pa.list_(_F32, 2)


@dataclass(frozen=True)
class Row:
    """One row of the table: a column of two values and a null."""

    name: str
    lance: pa.DataType
    values: list[Any]
    """As pylance returns them; a null follows."""
    spark: str
    """Spark's type, as ``simpleString`` has it."""
    created: pa.DataType
    """The type of the column when Spark creates the dataset."""
    collected: list[Any] | None = None
    """As Spark returns them, where that differs."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Metadata of the Spark column."""

    @property
    def needs_time(self) -> bool:
        return self.spark.startswith("time(")

    @property
    def stored(self) -> pa.Array:
        return pa.array([*self.values, None], self.lance)

    @property
    def shown(self) -> list[Any]:
        return [*(self.values if self.collected is None else self.collected), None]

    @property
    def read_back(self) -> list[Any]:
        return list(self.stored.to_pylist())


def _utc(moments: Iterable[datetime]) -> list[datetime]:
    return [moment.replace(tzinfo=timezone.utc) for moment in moments]


def _local(moments: Iterable[datetime]) -> list[datetime]:
    """Spark's collect() shows an instant in the time zone of the Python process."""
    return [moment.replace(tzinfo=timezone.utc).astimezone().replace(tzinfo=None) for moment in moments]


def _timestamps(unit: str, *moments: datetime) -> list[Row]:
    stored = pa.timestamp(unit)
    zoned = pa.timestamp(unit, "UTC")
    micros, utc_micros = pa.timestamp("us"), pa.timestamp("us", "UTC")
    return [
        Row(f"timestamp_{unit}", stored, list(moments), "timestamp_ntz", micros),
        Row(f"timestamp_{unit}_utc", zoned, _utc(moments), "timestamp", utc_micros, _local(moments)),
    ]


_VECTOR_SIZE = {"arrow.fixed-size-list.size": 2}
_MIX = pa.struct([("n", pa.uint16()), ("v", _VECTOR), ("m", pa.map_(pa.string(), pa.list_(pa.timestamp("ms"))))])
_MIX_CREATED = pa.struct([("n", pa.int32()), ("v", _VECTOR), ("m", pa.map_(pa.string(), pa.list_(pa.timestamp("us"))))])
_MONEY = pa.struct([("amount", pa.decimal128(20, 2)), ("kind", pa.dictionary(pa.int8(), pa.string()))])
_MONEY_CREATED = pa.struct([("amount", pa.decimal128(20, 2)), ("kind", pa.string())])

TABLE = [
    Row("bool", pa.bool_(), [True, False], "boolean", pa.bool_()),
    Row("int8", pa.int8(), [-(2**7), 2**7 - 1], "tinyint", pa.int8()),
    Row("int16", pa.int16(), [-(2**15), 2**15 - 1], "smallint", pa.int16()),
    Row("int32", pa.int32(), [-(2**31), 2**31 - 1], "int", pa.int32()),
    Row("int64", pa.int64(), [-(2**63), 2**63 - 1], "bigint", pa.int64()),
    Row("uint8", pa.uint8(), [0, 2**8 - 1], "smallint", pa.int16()),
    Row("uint16", pa.uint16(), [0, 2**16 - 1], "int", pa.int32()),
    Row("uint32", pa.uint32(), [0, 2**32 - 1], "bigint", pa.int64()),
    Row(
        "uint64",
        pa.uint64(),
        [0, 2**64 - 1],
        "decimal(20,0)",
        pa.decimal128(20, 0),
        collected=[Decimal(0), Decimal(2**64 - 1)],
    ),
    Row("float16", _F16, [1.5, -0.25], "float", _F32),
    Row("float32", _F32, [1.5, float("inf")], "float", _F32),
    Row("float64", pa.float64(), [0.1, -1e308], "double", pa.float64()),
    Row(
        "decimal_38_10",
        pa.decimal128(38, 10),
        [Decimal("9" * 28 + "." + "9" * 10), Decimal("-0.0000000001")],
        "decimal(38,10)",
        pa.decimal128(38, 10),
    ),
    Row("decimal_5_2", pa.decimal128(5, 2), [Decimal("999.99"), Decimal("-0.01")], "decimal(5,2)", pa.decimal128(5, 2)),
    Row(
        "decimal256_38_3",
        pa.decimal256(38, 3),
        [Decimal("9" * 35 + ".999"), Decimal("-0.001")],
        "decimal(38,3)",
        pa.decimal128(38, 3),
    ),
    Row("string", pa.string(), ["", "zażółć 🏳"], "string", pa.string()),
    Row("large_string", pa.large_string(), ["", "zażółć 🏳"], "string", pa.string()),
    Row("binary", pa.binary(), [b"", b"\x00\xff"], "binary", pa.binary()),
    Row("large_binary", pa.large_binary(), [b"", b"\x00\xff"], "binary", pa.binary()),
    Row("fixed_size_binary", pa.binary(2), [b"ab", b"\x00\xff"], "binary", pa.binary()),
    Row("date32", pa.date32(), [date(1, 1, 1), date(9999, 12, 31)], "date", pa.date32()),
    Row("date64", pa.date64(), [date(1969, 12, 31), date(2020, 2, 29)], "date", pa.date32()),
    Row("time32_s", pa.time32("s"), [time(0), time(23, 59, 59)], "time(6)", pa.time64("ns")),
    Row("time32_ms", pa.time32("ms"), [time(0), time(1, 2, 3, 4000)], "time(6)", pa.time64("ns")),
    Row("time64_us", pa.time64("us"), [time(0), time(1, 2, 3, 4)], "time(6)", pa.time64("ns")),
    Row("time64_ns", pa.time64("ns"), [time(0), time(1, 2, 3, 4)], "time(6)", pa.time64("ns")),
    *_timestamps("s", _NOON, _BEFORE_1970),
    *_timestamps("ms", _NOON.replace(microsecond=789000), _BEFORE_1970),
    *_timestamps("us", _EXACT, _BEFORE_1970),
    *_timestamps("ns", _EXACT, _BEFORE_1970),
    Row(
        "timestamp_us_zone",
        pa.timestamp("us", "America/New_York"),
        _utc([_EXACT, _BEFORE_1970]),
        "timestamp",
        pa.timestamp("us", "UTC"),
        _local([_EXACT, _BEFORE_1970]),
    ),
    *(
        Row(
            f"duration_{unit}",
            pa.duration(unit),
            [timedelta(days=-400, seconds=1), timedelta(days=1, microseconds=digits)],
            "interval day to second",
            pa.duration("us"),
        )
        for unit, digits in (("s", 0), ("ms", 1000), ("us", 1), ("ns", 1))
    ),
    Row("list", pa.list_(pa.int32()), [[1, None], []], "array<int>", pa.list_(pa.int32())),
    Row("large_list", pa.large_list(pa.string()), [["a", None], []], "array<string>", pa.list_(pa.string())),
    Row("vector", _VECTOR, [[1.5, 2.0], [-1.0, 0.0]], "array<float>", _VECTOR, metadata=_VECTOR_SIZE),
    Row(
        "vector_float16",
        pa.list_(_F16, 2),
        [[1.5, 2.0], [-1.0, 0.0]],
        "array<float>",
        _VECTOR,
        metadata=_VECTOR_SIZE,
    ),
    Row(
        "vector_uint8",
        pa.list_(pa.uint8(), 2),
        [[0, 255], [1, 2]],
        "array<smallint>",
        pa.list_(pa.int16(), 2),
        metadata=_VECTOR_SIZE,
    ),
    Row(
        "struct",
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        [{"a": 1, "b": "x"}, {"a": None, "b": None}],
        "struct<a:int,b:string>",
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        collected=[(1, "x"), (None, None)],
    ),
    Row(
        "map",
        pa.map_(pa.string(), pa.int32()),
        [[("a", 1), ("b", None)], []],
        "map<string,int>",
        pa.map_(pa.string(), pa.int32()),
        collected=[{"a": 1, "b": None}, {}],
    ),
    Row("dictionary", pa.dictionary(pa.int8(), pa.string()), ["b", "a"], "string", pa.string()),
    Row("dictionary_int", pa.dictionary(pa.uint16(), pa.int64()), [2**40, -1], "bigint", pa.int64()),
    Row("null", pa.null(), [None, None], "void", pa.null()),
    Row(
        "struct_mix",
        _MIX,
        [{"n": 65535, "v": [1.0, 2.0], "m": [("k", [_NOON, None])]}, {"n": None, "v": None, "m": None}],
        "struct<n:int,v:array<float>,m:map<string,array<timestamp_ntz>>>",
        _MIX_CREATED,
        collected=[(65535, [1.0, 2.0], {"k": [_NOON, None]}), (None, None, None)],
    ),
    Row(
        "list_mix",
        pa.large_list(_MONEY),
        [[{"amount": Decimal("-1.50"), "kind": "a"}, None], []],
        "array<struct<amount:decimal(20,2),kind:string>>",
        pa.list_(_MONEY_CREATED),
        collected=[[(Decimal("-1.50"), "a"), None], []],
    ),
    Row(
        "map_mix",
        pa.map_(pa.int64(), pa.list_(pa.decimal128(38, 0))),
        [[(1, [Decimal(10) ** 37, None])], [(2, None)]],
        "map<bigint,array<decimal(38,0)>>",
        pa.map_(pa.int64(), pa.list_(pa.decimal128(38, 0))),
        collected=[{1: [Decimal(10) ** 37, None]}, {2: None}],
    ),
]

READABLE = [row for row in TABLE if HAS_TIME or not row.needs_time]
"""The rows that the Spark version running this can hold: TIME came with Spark 4.1."""
