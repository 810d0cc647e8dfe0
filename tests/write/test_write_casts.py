"""Appending casts what fits without loss, checks values where it must, and refuses the rest with a way out."""

from datetime import datetime, timezone
from decimal import Decimal

import lance
import pyarrow as pa
import pytest
from pyspark.sql import types as st
from support.frames import all_files, numbers, refused, save

from lance_spark.errors import SchemaMismatch

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest", sample=0.1)]

VECTOR = pa.list_(pa.float32(), 2)
NOON = datetime(2020, 1, 1, 12, tzinfo=timezone.utc)
STRUCT = pa.struct([("a", pa.int64()), ("b", pa.large_string()), ("c", pa.float64())])

SAFE = {
    "int to bigint": ("cast(1 as int)", pa.int64(), 1),
    "tinyint to uint8": ("cast(7 as tinyint)", pa.uint8(), 7),
    "int to uint16": ("65535", pa.uint16(), 65535),
    "int to double": ("5", pa.float64(), 5.0),
    "int to decimal": ("5", pa.decimal128(12, 2), Decimal("5.00")),
    "decimal to a wider one": ("cast(1.5 as decimal(3,1))", pa.decimal128(10, 3), Decimal("1.500")),
    "decimal(20,0) to uint64": ("cast('18446744073709551615' as decimal(20,0))", pa.uint64(), 2**64 - 1),
    "float to double": ("cast(1.5 as float)", pa.float64(), 1.5),
    "float to float16": ("cast(1.5 as float)", pa.float16(), 1.5),
    "string to large_string": ("'a'", pa.large_string(), "a"),
    "string to dictionary": ("'a'", pa.dictionary(pa.int8(), pa.string()), "a"),
    "binary to fixed size": ("X'0102'", pa.binary(2), b"\x01\x02"),
    "timestamp to seconds": ("timestamp'2020-01-01 12:00:00Z'", pa.timestamp("s", "UTC"), NOON),
    "timestamp to another zone": ("timestamp'2020-01-01 12:00:00Z'", pa.timestamp("us", "+01:00"), NOON),
    "array<float> to vector": ("array(float(1.5), float(2))", VECTOR, [1.5, 2.0]),
    "array<int> to list<bigint>": ("array(1, null)", pa.large_list(pa.int64()), [1, None]),
    "struct by name": ("named_struct('b', 'x', 'a', 1)", STRUCT, {"a": 1, "b": "x", "c": None}),
    "map values": ("map('k', 1)", pa.map_(pa.large_string(), pa.int64()), [("k", 1)]),
    "null to anything": ("null", VECTOR, None),
}

LOSSY = {
    "bigint to int": ("1L", pa.int32(), ("int64", "int32")),
    "double to float": ("cast(1.5 as double)", pa.float32(), ("double", "float")),
    "bigint to double": ("1L", pa.float64(), ("int64", "double")),
    "decimal to a narrower one": ("cast(1.5 as decimal(10,3))", pa.decimal128(9, 3), ("decimal128(10, 3)",)),
    "string to int": ("'1'", pa.int32(), ("string", "int32")),
    "int to string": ("1", pa.string(), ("int32", "string")),
    "date to timestamp": ("date'2020-01-01'", pa.timestamp("us"), ("date32[day]", "timestamp[us]")),
    "instant to wall clock": ("timestamp'2020-01-01 12:00:00Z'", pa.timestamp("us"), ("time zone",)),
    "wall clock to instant": ("timestamp_ntz'2020-01-01 12:00:00'", pa.timestamp("us", "UTC"), ("time zone",)),
    "array<double> to vector": ("array(double(1), double(2))", VECTOR, ("list<item: double",)),
    "field unknown to the dataset": ("named_struct('a', 1, 'z', 1)", STRUCT, ("'z'",)),
    "struct to map": ("named_struct('a', 1)", pa.map_(pa.string(), pa.int32()), ("struct<a: int32",)),
}

BAD_VALUES = {
    "int above uint8": ("cast(300 as smallint)", pa.uint8()),
    "negative to unsigned": ("-1L", pa.uint64()),
    "float16 would round": ("cast(1.1 as float)", pa.float16()),
    "nested float16 would round": ("map('k', cast(1.1 as float))", pa.map_(pa.string(), pa.float16())),
    "seconds would lose micros": ("timestamp'2020-01-01 12:00:00.5Z'", pa.timestamp("s", "UTC")),
    "bytes of another length": ("X'010203'", pa.binary(2)),
    "vector of another length": ("array(float(1.5))", VECTOR),
    "value in a null column": ("1", pa.null()),
}


def make(uri, kind):
    lance.write_dataset(pa.schema([pa.field("k", pa.int64()), pa.field("c", kind)]).empty_table(), uri)


def frame_of(spark, expression):
    return numbers(spark, 0, 1).selectExpr(f"{expression} as c")


@pytest.fixture(scope="module")
def all_safe(spark, tmp_path_factory):
    """One dataset with a column for each safe cast, after one append to it."""
    uri = str(tmp_path_factory.mktemp("safe") / "t.lance")
    kinds = [(name, kind) for name, (_, kind, _) in SAFE.items()]
    lance.write_dataset(pa.schema(kinds).empty_table(), uri)
    save(numbers(spark, 0, 1).selectExpr(*(f"{text} as `{name}`" for name, (text, _, _) in SAFE.items())), uri)
    return lance.dataset(uri).to_table()


@pytest.mark.parametrize("name", SAFE)
def test_what_fits_is_cast(all_safe, name):
    _, kind, value = SAFE[name]
    assert all_safe.schema.field(name).type == kind
    assert all_safe[name].to_pylist() == [value]


@pytest.mark.when(
    day={"name": ["bigint to int", "instant to wall clock", "field unknown to the dataset", "struct to map"]}
)
@pytest.mark.parametrize("name", LOSSY)
def test_what_could_lose_values_is_refused_before_the_job(spark, uri, name):
    expression, kind, types = LOSSY[name]
    make(uri, kind)
    before = all_files(uri)
    with refused(SchemaMismatch, "Column 'c'", str(kind), "hint: Cast it", *types):
        save(frame_of(spark, expression), uri)
    assert all_files(uri) == before


BY_DAY = [
    "int above uint8",
    "nested float16 would round",
    "vector of another length",
    "value in a null column",
]


@pytest.mark.when(day={"name": BY_DAY})
@pytest.mark.parametrize("name", BAD_VALUES)
def test_a_value_that_does_not_fit_fails_the_job_and_leaves_nothing(spark, uri, name):
    expression, kind = BAD_VALUES[name]
    make(uri, kind)
    before = all_files(uri)
    with refused(SchemaMismatch, "'c'", "hint: " if kind != pa.null() else ""):
        save(frame_of(spark, expression), uri)
    assert all_files(uri) == before


@pytest.mark.parametrize(
    ("expressions", "words"),
    [
        (["id as k", "1 as nope"], ("'nope'", "df.drop('nope')")),
        (["id as k", "1 as nam"], ("'nam'", "Did you mean 'name'?", "withColumnRenamed('nam', 'name')")),
        (["id as K"], ("'K'", "Did you mean 'k'?")),
        (["'x' as name"], ("'k'", "int64", "withColumn('k'")),
        (["id as k", "0L as _rowid"], ("'_rowid'", "df.drop('_rowid')")),
    ],
    ids=["unknown", "misspelt", "other case", "missing", "row id"],
)
def test_columns_that_do_not_match_are_refused(spark, uri, expressions, words):
    schema = pa.schema([pa.field("k", pa.int64(), False), pa.field("name", pa.string())])
    lance.write_dataset(schema.empty_table(), uri)
    before = all_files(uri)
    with refused(SchemaMismatch, *words):
        save(numbers(spark, 0, 1).selectExpr(*expressions), uri)
    assert all_files(uri) == before


def test_columns_match_by_name_and_nullable_ones_may_be_missing(spark, uri):
    schema = pa.schema([("k", pa.int64()), ("name", pa.string()), ("other", pa.int64())])
    lance.write_dataset(pa.table([[1], ["a"], [2]], schema), uri)
    save(numbers(spark, 5, 6).selectExpr("id * 10 as other", "id as k"), uri)
    assert lance.dataset(uri).to_table().to_pylist() == [
        {"k": 1, "name": "a", "other": 2},
        {"k": 5, "name": None, "other": 50},
    ]


def test_nulls_do_not_get_into_a_column_that_forbids_them(spark, uri):
    lance.write_dataset(pa.table([[1]], pa.schema([pa.field("k", pa.int64(), False)])), uri)
    frame = numbers(spark, 0, 5).selectExpr("nullif(id, 3) as k")
    before = all_files(uri)
    with refused(SchemaMismatch, "Column 'k' holds a null", "df.na.fill"):
        save(frame.coalesce(1), uri)
    assert all_files(uri) == before
    save(frame.na.fill(9), uri)
    assert sorted(lance.dataset(uri).to_table()["k"].to_pylist()) == [0, 1, 1, 2, 4, 9]


def test_many_batches_of_one_task_are_all_cast(spark, uri):
    lance.write_dataset(pa.schema([("k", pa.float64()), ("v", VECTOR)]).empty_table(), uri)
    vectors = st.ArrayType(st.FloatType()).simpleString()
    expressions = ["cast(id as int) as k", f"cast(array(id, id + 1) as {vectors}) as v"]
    save(numbers(spark, 0, 25_000).selectExpr(*expressions), uri)
    table = lance.dataset(uri).to_table()
    assert table["k"].to_pylist() == [float(number) for number in range(25_000)]
    assert table["v"].to_pylist()[-1] == [24_999.0, 25_000.0]
