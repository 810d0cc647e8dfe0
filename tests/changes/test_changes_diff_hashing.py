"""Hashes of rows: equal exactly where a plain Python comparison of the values says so."""

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.format.row_values import hash_rows

pytestmark = pytest.mark.pure

NAN = float("nan")


def hashes(values, kind):
    array = values if isinstance(values, pa.Array) else pa.array(values, kind)
    return hash_rows([array], len(array)).tolist()


def plain(value):
    """A value that compares as rows should: NaN equals itself, 0.0 is -0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((key, plain(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(plain(item) for item in value)
    return value


VALUES = {
    pa.int8(): [0, 1, -1, 127, None],
    pa.int64(): [0, 1, -1, 2**63 - 1, None],
    pa.uint32(): [0, 1, 2**32 - 1, None],
    pa.bool_(): [True, False, None],
    pa.float16(): [np.float16(0), np.float16(1.5), np.float16("nan"), None],
    pa.float32(): [0.0, -0.0, 1.5, NAN, math.inf, -math.inf, None],
    pa.float64(): [0.0, -0.0, 1.5, NAN, math.inf, None],
    pa.string(): ["", "a", "b", "ab", "ba", "aa", "a\0", "ü", None],
    pa.large_string(): ["", "a", None],
    pa.string_view(): ["", "a", "a long one that does not fit inline", None],
    pa.binary(): [b"", b"\0", b"\0\0", b"a", None],
    pa.binary(3): [b"abc", b"cba", None],
    pa.decimal128(10, 2): [Decimal("0.00"), Decimal("1.10"), Decimal("-1.10"), None],
    pa.date32(): [0, 1, None],
    pa.timestamp("us", "UTC"): [0, 1, None],
    pa.duration("ms"): [0, 5, None],
    pa.time64("ns"): [0, 5000, None],
    pa.null(): [None, None],
    pa.list_(pa.int32()): [[], [1], [1, 2], [2, 1], [None], [0], None],
    pa.large_list(pa.string()): [[], ["a"], ["a", "b"], ["ab"], [None], None],
    pa.list_(pa.float32(), 2): [[0.0, 1.0], [1.0, 0.0], [NAN, 1.0], None],
    pa.list_(pa.list_(pa.int8())): [[], [[]], [[1], [2]], [[1, 2]], [None], None],
    pa.struct([("x", pa.int32()), ("y", pa.string())]): [
        {"x": 1, "y": "a"},
        {"x": None, "y": None},
        {"x": None, "y": "a"},
        None,
    ],
    pa.map_(pa.string(), pa.int32()): [[], [("a", 1)], [("a", 2)], [("a", 1), ("b", 2)], None],
    pa.dictionary(pa.int8(), pa.string()): ["a", "b", "a", None],
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_equal_values_hash_alike_and_others_do_not(kind):
    values = VALUES[kind] * 2
    array = pa.array(values, kind)
    told = [plain(value) for value in array.to_pylist()]
    found = hashes(array, kind)
    for one, mine in zip(told, found, strict=True):
        for other, theirs in zip(told, found, strict=True):
            assert (one == other) == (mine == theirs), (one, other)


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_slices_and_garbage_below_nulls_do_not_matter(kind):
    array = pa.array(VALUES[kind] * 3, kind)
    whole = hashes(array, kind)
    for start in range(len(VALUES[kind])):
        assert hashes(array.slice(start, 5), kind) == whole[start : start + 5]
    assert hashes(array.slice(2, 0), kind) == []


def test_what_lies_below_a_null_does_not_matter():
    clean = pa.array([1, None, 3], pa.int64())
    dirty = pa.Array.from_buffers(pa.int64(), 3, [clean.buffers()[0], pa.array([1, 77, 3]).buffers()[1]])
    assert hashes(dirty, None) == hashes(clean, None)


def test_columns_count_in_their_order():
    one, two = pa.array([1]), pa.array([2])
    assert hash_rows([one, two], 1) != hash_rows([two, one], 1)
    assert hash_rows([one], 1) != hash_rows([one, one], 1)
    assert hash_rows([], 3).tolist() == [hash_rows([], 1)[0]] * 3


def test_a_million_rows_have_a_million_hashes():
    assert len(set(hashes(pa.array(range(1_000_000)), None))) == 1_000_000
    assert len(set(hashes(pa.array([f"row {number}" for number in range(200_000)]), None))) == 200_000


@given(st.lists(st.lists(st.lists(st.integers(-2, 2) | st.none(), max_size=3) | st.none(), max_size=3), max_size=8))
def test_nested_lists(values):
    found = hashes(values, pa.list_(pa.list_(pa.int64())))
    assert len(set(found)) == len({plain(value) for value in values})


@given(st.lists(st.text(max_size=3) | st.none(), max_size=10))
def test_texts(values):
    assert len(set(hashes(values, pa.string()))) == len(set(values))
