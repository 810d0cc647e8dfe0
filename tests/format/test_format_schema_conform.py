"""Values on their way into a type: kept exactly, or refused naming the column."""

import math
from decimal import Decimal

import pyarrow as pa
import pytest

from lance_spark.errors import SchemaMismatch
from lance_spark.format.schema import conform, conform_column

pytestmark = pytest.mark.pure

F16, KEY, ONE = pa.float16(), pa.string(), {"a": 1}
STRUCT = pa.struct([pa.field("a", pa.int32(), False)])
LIST = pa.list_(pa.field("item", pa.int32(), False))
VECTOR = pa.list_(pa.field("item", pa.int32(), False), 2)
MAP = pa.map_(pa.string(), pa.field("value", pa.int32(), False))
MAP_OF_LISTS = pa.map_(pa.large_string(), LIST)


def ticks(kind, *numbers):
    return pa.array(numbers, pa.int64()).cast(kind)


def dictionary(values, kind):
    return pa.array(values, kind).dictionary_encode()


def into(array, kind, nullable=True):
    result = conform_column(array, pa.field("c", kind, nullable))
    result.validate(full=True)
    assert result.type == kind
    return result.to_pylist()


def test_columns_are_matched_by_name_and_come_out_as_the_schema_says():
    batch = pa.record_batch({"x": pa.array([1, 2], pa.int32()), "y": ["a", None], "z": [True, False]})
    schema = pa.schema(
        [pa.field("y", pa.large_string(), metadata={"k": "v"}), pa.field("x", pa.int64(), nullable=False)], {"m": "1"}
    )
    result = conform(batch, schema)
    assert result.schema.equals(schema, check_metadata=True)
    assert result.to_pydict() == {"y": ["a", None], "x": [1, 2]}


def test_what_fits_already_is_not_copied():
    column = pa.array(range(1000))
    assert conform_column(column, pa.field("c", pa.int64(), False)).buffers()[1].address == column.buffers()[1].address


@pytest.mark.parametrize(
    ("array", "kind", "values"),
    [
        (pa.array([0, 2**16 - 1], pa.int32()), pa.uint16(), [0, 2**16 - 1]),
        (pa.array([Decimal(2**64 - 1)], pa.decimal128(20, 0)), pa.uint64(), [2**64 - 1]),
        (pa.array([2**64 - 1], pa.uint64()), pa.decimal128(20, 0), [Decimal(2**64 - 1)]),
        (ticks(pa.timestamp("ns"), 5000), pa.timestamp("us"), ticks(pa.timestamp("us"), 5).to_pylist()),
        (pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32())), pa.list_(pa.int64(), 2), [[1, 2], None, [3, 4]]),
        (pa.array([[1], [1, 2], None], pa.list_(pa.int32()))[1:], VECTOR, [[1, 2], None]),
        (pa.array([[0, 0], [1, 2]], pa.list_(pa.int32(), 2))[1:], pa.large_list(pa.int64()), [[1, 2]]),
        (pa.array([None, "a"]), pa.dictionary(pa.int8(), pa.string()), [None, "a"]),
        (dictionary(["a", None], pa.string()), pa.large_string(), ["a", None]),
        (dictionary([1.5], pa.float32()), F16, [1.5]),
        (pa.array([b"abcd", None]), pa.binary(4), [b"abcd", None]),
        (
            pa.array([{"a": 1, "b": "x"}, None]),
            pa.struct([("b", pa.large_string()), ("c", pa.int8()), ("a", pa.int64())]),
            [{"b": "x", "c": None, "a": 1}, None],
        ),
    ],
)
def test_a_value_that_fits_arrives_unchanged(array, kind, values):
    assert into(array, kind) == values


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array([2**16], pa.int32()), pa.uint16()),
        (pa.array([-1], pa.int64()), pa.uint64()),
        (pa.array([Decimal(2**64)], pa.decimal128(20, 0)), pa.uint64()),
        (pa.array([Decimal(-1)], pa.decimal128(20, 0)), pa.uint64()),
        (ticks(pa.timestamp("ns"), 1001), pa.timestamp("us")),
        (ticks(pa.timestamp("s"), 2**62), pa.timestamp("ns")),
        (pa.array([[1001]], pa.list_(pa.timestamp("ns"))), pa.list_(pa.timestamp("us"))),
        (ticks(pa.time64("us"), 1001), pa.time32("ms")),
        (ticks(pa.duration("ns"), 1), pa.duration("us")),
        (pa.array([[1, 2], [3]], pa.list_(pa.int32())), VECTOR),
        (pa.array([[]], pa.list_(pa.int32())), VECTOR),
        (pa.array([b"abc"]), pa.binary(4)),
        (pa.array([str(number) for number in range(200)]), pa.dictionary(pa.int8(), pa.string())),
        (pa.array([1]), pa.null()),
        (pa.array([[[None, None]]], pa.list_(pa.list_(pa.null()))), pa.large_list(pa.list_(pa.null()))),
    ],
)
def test_a_value_that_does_not_fit_is_refused_naming_the_column(array, kind):
    with pytest.raises(SchemaMismatch, match=r"Column 'c'"):
        into(array, kind)


FLOATS = {
    "itself": lambda value: (pa.array([value], pa.float32()), F16),
    "list": lambda value: (pa.array([[value]], pa.list_(pa.float32())), pa.list_(F16)),
    "sliced list": lambda value: (pa.array([[0.1], [value]], pa.list_(pa.float32()))[1:], pa.list_(F16)),
    "vector": lambda value: (pa.array([[value, 0], None], pa.list_(pa.float32())), pa.list_(F16, 2)),
    "struct": lambda value: (pa.array([{"a": value}], pa.struct([("a", pa.float32())])), pa.struct([("a", F16)])),
    "map value": lambda value: (pa.array([None, [("k", value)]], pa.map_(KEY, pa.float32())), pa.map_(KEY, F16)),
    "map key": lambda value: (pa.array([[(value, "k")]], pa.map_(pa.float32(), KEY)), pa.map_(F16, KEY)),
    "sliced map": lambda value: (
        pa.array([[("k", 0.1)], [("k", value)]], pa.map_(KEY, pa.float32()))[1:],
        pa.map_(KEY, F16),
    ),
    "from a dictionary": lambda value: (dictionary([value], pa.float32()), F16),
    "to a dictionary": lambda value: (pa.array([value], pa.float32()), pa.dictionary(pa.int8(), F16)),
    "double": lambda value: (pa.array([value], pa.float64()), F16),
}


@pytest.mark.parametrize("name", FLOATS)
def test_a_float_becomes_a_half_only_when_it_is_one(name):
    if name == "to a dictionary" and int(pa.__version__.partition(".")[0]) < 26:
        pytest.skip("this pyarrow makes no dictionaries of half floats")
    wrap = FLOATS[name]
    for exact in (0.5, -65504.0, math.inf, 2.0**-24):
        array, kind = wrap(exact)
        assert str(exact) in str(into(array, kind))
    assert "nan" in str(into(*wrap(math.nan)))
    for rounded in (0.1, 1e6, 2049.0, 2.0**-30):
        with pytest.raises(SchemaMismatch, match="cannot hold exactly"):
            into(*wrap(rounded))


def test_a_nan_or_a_null_does_not_hide_a_rounded_float():
    assert into(pa.array([None, None], pa.float32()), F16) == [None, None]
    with pytest.raises(SchemaMismatch):
        into(pa.array([math.nan, None, 0.1], pa.float32()), F16)


@pytest.mark.parametrize(
    ("array", "kind", "path"),
    [
        (pa.array([1, None], pa.int32()), pa.int32(), "c"),
        (pa.array([1, None], pa.int32()), pa.int64(), "c"),
        (pa.nulls(1), pa.int64(), "c"),
        (pa.nulls(1), pa.dictionary(pa.int8(), pa.string()), "c"),
        (dictionary(["a", None], pa.string()), pa.string(), "c"),
        (pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([None], pa.string())), pa.string(), "c"),
        (pa.StructArray.from_arrays([pa.array([None], pa.int32())], fields=list(STRUCT)), STRUCT, "c.a"),
        (pa.array([[1, None]], pa.list_(pa.int32())), LIST, "c.element"),
        (pa.array([[None]], pa.list_(pa.null())), LIST, "c.element"),
        (pa.array([[1, None]], pa.list_(pa.int32())), VECTOR, "c.element"),
        (pa.array([[1, None]], pa.list_(pa.int32(), 2)), VECTOR, "c.element"),
        (pa.array([[("k", 1)], [("k", None)]], pa.map_(pa.string(), pa.int32())), MAP, "c.value"),
        (pa.array([[("k", None)], [("k", 1)]], pa.map_(pa.string(), pa.int32()))[:1], MAP, "c.value"),
        (pa.array([[("k", [None])]], pa.map_(pa.string(), pa.list_(pa.int32()))), MAP_OF_LISTS, "c.value.element"),
        (pa.array([[[1], None]], pa.list_(pa.list_(pa.int32()))), pa.list_(pa.field("item", LIST, False)), "c.element"),
        (pa.array([[[None]]], pa.list_(pa.list_(pa.int32()))), pa.list_(LIST), "c.element.element"),
    ],
)
def test_a_null_is_found_wherever_the_type_forbids_it(array, kind, path):
    with pytest.raises(SchemaMismatch, match=f"Column '{path}' holds a null") as caught:
        into(array, kind, nullable=False)
    assert "na.fill" in caught.value.hint


def test_a_null_field_of_a_converted_struct_is_refused_naming_the_column():
    with pytest.raises(SchemaMismatch, match="Column 'c'"):
        into(pa.array([{"a": None}], pa.struct([("a", pa.int32())])), STRUCT)


def masked(child, field):
    """One null struct row over a child that is there, and one visible row."""
    return pa.StructArray.from_arrays([child], fields=[field], mask=pa.array([True, False]))


@pytest.mark.parametrize(
    ("array", "values"),
    [
        (masked(pa.array([None, 1], pa.int32()), STRUCT.field(0)), [None, {"a": 1}]),
        (masked(pa.array([[None], [1]], LIST), pa.field("a", LIST)), [None, {"a": [1]}]),
        (masked(pa.array([[None, 1], [1, 2]], VECTOR), pa.field("a", VECTOR, False)), [None, {"a": [1, 2]}]),
        (masked(pa.array([[("k", None)], []], MAP), pa.field("a", MAP)), [None, {"a": []}]),
        (masked(masked(pa.array([None, 1], pa.int32()), STRUCT.field(0)), pa.field("s", STRUCT)), [None, {"s": ONE}]),
        (pa.StructArray.from_arrays([pa.array([None, 1], pa.int32())], fields=list(STRUCT))[1:], [{"a": 1}]),
        (pa.array([[None], [1]], LIST)[1:], [[1]]),
        (pa.array([[None, 1], [1, 2]], VECTOR)[1:], [[1, 2]]),
        (
            pa.FixedSizeListArray.from_arrays(
                pa.array([None, 1, 1, 2], pa.int32()), type=VECTOR, mask=pa.array([True, False])
            ),
            [None, [1, 2]],
        ),
        (pa.array([[("k", None)], [("k", 1)]], MAP)[1:], [[("k", 1)]]),
        (pa.array([], MAP), []),
        (pa.array([None], LIST), [None]),
    ],
)
def test_a_null_that_no_reader_can_see_does_not_matter(array, values):
    assert into(array, array.type) == values


@pytest.mark.parametrize("length", [0, 2])
@pytest.mark.parametrize(
    "kind",
    [
        *(pa.int8(), F16, pa.decimal128(5, 2), pa.dictionary(pa.int8(), pa.string()), pa.uuid(), pa.null()),
        *(pa.list_(F16), pa.list_(pa.int32(), 2), pa.map_(KEY, F16), pa.struct([("a", pa.list_(F16))])),
    ],
    ids=str,
)
def test_a_column_of_nothing_becomes_any_type(kind, length):
    assert into(pa.nulls(length), kind) == [None] * length
    assert into(pa.array([[None]] * length, pa.list_(pa.null())), pa.list_(kind)) == [[None]] * length
