"""Random Arrow types and arrays, and what an array holds as plain Python values whatever its type."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from hypothesis import strategies as st

SIGNED = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
UNSIGNED = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
DECIMALS = [pa.decimal128(5, 2), pa.decimal128(20, 0), pa.decimal128(38, 18), pa.decimal256(9, 4)]
FAMILIES = [
    [*SIGNED, *UNSIGNED, *FLOATS, *DECIMALS],
    FLOATS,
    [pa.string(), pa.large_string()],
    [pa.binary(), pa.large_binary(), pa.binary(2)],
    [pa.date32(), pa.date64()],
    [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")],
    [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")],
    [pa.duration(unit) for unit in ("s", "ms", "us", "ns")],
    [pa.bool_()],
]
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY = 86_400


@st.composite
def type_pairs(draw: st.DrawFn, depth: int = 2) -> tuple[pa.DataType, pa.DataType]:
    """A type and another one that an array of the first may or may not become."""
    shape = draw(st.sampled_from(["scalar"] * 3 + ["list", "struct", "map", "dictionary", "null"] * bool(depth)))
    if shape == "scalar":
        family = draw(st.sampled_from(FAMILIES))
        return draw(st.sampled_from(family)), draw(st.sampled_from(family))
    if shape == "null":
        return pa.null(), draw(type_pairs(depth=depth - 1))[1]
    if shape == "dictionary":
        kinds = st.sampled_from([pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
        return draw(kinds), draw(kinds)
    source, target = draw(type_pairs(depth=depth - 1))
    inner = pa.field("item", target, draw(st.booleans()))
    if shape == "list":
        size = draw(st.integers(1, 2))
        makers: list[Callable[[Any], pa.DataType]] = [pa.list_, pa.large_list, lambda child: pa.list_(child, size)]
        return draw(st.sampled_from(makers))(source), draw(st.sampled_from(makers))(inner)
    if shape == "map":
        return pa.map_(pa.string(), source), pa.map_(pa.large_string(), inner)
    other, another = draw(type_pairs(depth=0))
    fields = [pa.field("a", target, draw(st.booleans())), pa.field("b", another), pa.field("c", pa.int8())]
    order = draw(st.permutations(fields[: draw(st.integers(2, 3))]))
    return pa.struct([("a", source), ("b", other)]), pa.struct(order)


@st.composite
def arrays(draw: st.DrawFn, kind: pa.DataType) -> pa.Array:
    """An array of the type, often a slice of a longer one."""
    values = draw(st.lists(_values(kind), max_size=5))
    first = draw(st.integers(0, len(values)))
    whole = pa.array(values, _writable(kind))
    return (whole if whole.type == kind else whole.cast(kind)).slice(first, draw(st.integers(0, len(values) - first)))


def plain(array: pa.Array) -> list[Any]:
    """The values as Python numbers, text, lists and dicts: times in nanoseconds, no entry for a null field."""
    kind = array.type
    if pt.is_dictionary(kind):
        return plain(array.dictionary_decode())
    if pt.is_temporal(kind):
        unit = _unit(kind)
        integers = array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
        return [None if value is None else value * unit for value in integers]
    if pt.is_struct(kind):
        columns = {child.name: plain(array.field(index)) for index, child in enumerate(kind)}
        rows = [{name: column[row] for name, column in columns.items()} for row in range(len(array))]
        rows = [{name: value for name, value in row.items() if value is not None} for row in rows]
        return [row if there else None for row, there in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if pt.is_nested(kind):
        return [_elements(scalar) if scalar.is_valid else None for scalar in array]
    return ["nan" if isinstance(value, float) and math.isnan(value) else value for value in array.to_pylist()]


def holds_forbidden_null(values: Sequence[Any], kind: pa.DataType, nullable: bool) -> bool:
    """Whether a null is visible where the type forbids one; ``values`` as ``plain`` gives them."""
    if not nullable and None in values:
        return True
    there = [value for value in values if value is not None]
    if pt.is_struct(kind):
        return any(
            holds_forbidden_null([value.get(child.name) for value in there], child.type, child.nullable)
            for child in kind
        )
    if pt.is_map(kind):
        items = [item for value in there for _, item in value]
        return holds_forbidden_null(items, kind.item_type, kind.item_field.nullable)
    if pt.is_nested(kind):
        elements = [element for value in there for element in value]
        return holds_forbidden_null(elements, kind.value_type, kind.value_field.nullable)
    return False


def _elements(scalar: Any) -> list[Any]:
    """A list's elements; a map's entries as pairs."""
    if pt.is_map(scalar.type):
        return list(zip(plain(scalar.values.field(0)), plain(scalar.values.field(1)), strict=True))
    return plain(scalar.values)


def _unit(kind: pa.DataType) -> int:
    if pt.is_date(kind):
        return _DAY * 10**9 if pt.is_date32(kind) else 10**6
    return _NANOSECONDS[kind.unit]


def _writable(kind: pa.DataType) -> pa.DataType:
    """The type with strings for dictionaries, which Arrow cannot make from Python values inside other types."""
    if pt.is_dictionary(kind):
        return kind.value_type
    if pt.is_struct(kind):
        return pa.struct([child.with_type(_writable(child.type)) for child in kind])
    if pt.is_map(kind):
        return pa.map_(kind.key_type, _writable(kind.item_type))
    if pt.is_fixed_size_list(kind):
        return pa.list_(_writable(kind.value_type), kind.list_size)
    if pt.is_list(kind) or pt.is_large_list(kind):
        return (pa.list_ if pt.is_list(kind) else pa.large_list)(_writable(kind.value_type))
    return kind


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    return st.none() | _present(kind)


def _present(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pt.is_dictionary(kind):
        return _present(kind.value_type)
    if pt.is_struct(kind):
        return st.fixed_dictionaries({child.name: _values(child.type) for child in kind})
    if pt.is_map(kind):
        keys = st.text("ab", max_size=2)
        return st.dictionaries(keys, _values(kind.item_type), max_size=2).map(lambda value: list(value.items()))
    if pt.is_fixed_size_list(kind):
        return st.lists(_values(kind.value_type), min_size=kind.list_size, max_size=kind.list_size)
    if pt.is_list(kind) or pt.is_large_list(kind):
        return st.lists(_values(kind.value_type), max_size=2)
    return _scalar(kind)


def _scalar(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pt.is_null(kind):
        return st.none()
    if pt.is_boolean(kind):
        return st.booleans()
    if pt.is_integer(kind):
        low = -(2 ** (kind.bit_width - 1)) if pt.is_signed_integer(kind) else 0
        high = low + 2**kind.bit_width - 1
        return st.integers(low, high) | st.sampled_from([low, high, 0, 1, 100])
    if pt.is_floating(kind):
        return st.floats(width=kind.bit_width) | st.sampled_from([0.5, 1.0, 2049.0])
    if pt.is_decimal(kind):
        limit = 10 ** (kind.precision - kind.scale) - 1
        return st.decimals(-limit, limit, places=kind.scale)
    if pt.is_temporal(kind):
        return _ticks(kind)
    if pt.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    return st.text(max_size=3) if "string" in str(kind) else st.binary(max_size=3)


def _ticks(kind: pa.DataType) -> st.SearchStrategy[int]:
    """Whole numbers of the type's unit, with many that a coarser unit holds too and some that a finer one does not."""
    if pt.is_date(kind):
        days = st.integers(-(2**20), 2**20)
        return days if pt.is_date32(kind) else days.map(lambda day: day * _DAY * 1000)
    second = 10**9 // _unit(kind)
    if pt.is_time(kind):
        return st.integers(0, _DAY - 1).map(lambda number: number * second) | st.integers(0, _DAY * second - 1)
    seconds = st.integers(-(2**32), 2**32).map(lambda number: number * second)
    return seconds | st.integers(-(2**40), 2**40) | st.sampled_from([2**62, -(2**62)])
