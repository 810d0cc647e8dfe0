"""The first rows of an order, and samples, as tables of data."""

import math
import random
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from lance_spark.pushdown.order import Sample, SortKey, first_rows, sample, sortable

pytestmark = pytest.mark.pure


def batches(table, rows):
    return table.to_batches(max_chunksize=rows)


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([SortKey("n", True, True)], [None, None, 1, 1, 2]),
        ([SortKey("n", True, False)], [1, 1, 2, 3, 3]),
        ([SortKey("n", False, False)], [3, 3, 2, 1, 1]),
        ([SortKey("n", False, True)], [None, None, 3, 3, 2]),
    ],
)
def test_nulls_are_where_they_are_wanted(keys, expected, size):
    table = pa.table({"n": [3, None, 1, 2, None, 1, 3]})
    found = pa.Table.from_batches(first_rows(keys, 5, batches(table, size)))
    assert found["n"].to_pylist() == expected


def test_each_column_has_its_own_place_for_nulls():
    table = pa.table({"a": [1, None, 1, None], "b": ["x", None, None, "y"], "at": [0, 1, 2, 3]})
    keys = [SortKey("a", True, False), SortKey("b", False, True)]
    found = pa.Table.from_batches(first_rows(keys, 4, batches(table, 2)))
    assert found["at"].to_pylist() == [2, 0, 1, 3]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_nan_is_larger_than_everything_else(kind):
    values = [1.0, math.nan, None, math.inf, -math.inf, -0.0, 0.0]
    table = pa.table({"f": pa.array(values, kind), "at": list(range(7))})

    def order(*key):
        return pa.Table.from_batches(first_rows([SortKey("f", *key)], 7, batches(table, 3)))["at"].to_pylist()

    assert order(True, False) in ([4, 5, 6, 0, 3, 1, 2], [4, 6, 5, 0, 3, 1, 2])
    assert order(False, True) in ([2, 1, 3, 0, 5, 6, 4], [2, 1, 3, 0, 6, 5, 4])


def test_a_zero_below_zero_is_no_smaller_than_zero():
    """The next column decides."""
    table = pa.table({"f": [0.0, -0.0, 0.0, -0.0], "at": [3, 2, 1, 0]})
    keys = [SortKey("f", True, True), SortKey("at", True, True)]
    assert pa.Table.from_batches(first_rows(keys, 4, table.to_batches()))["at"].to_pylist() == [0, 1, 2, 3]


def test_few_of_many_rows():
    values = random.Random(1).sample(range(100_000), 20_000)
    table = pa.table({"n": values, "text": [str(value) for value in values]})
    found = pa.Table.from_batches(first_rows([SortKey("n", False, True)], 7, batches(table, 512)))
    assert found["n"].to_pylist() == sorted(values, reverse=True)[:7]
    assert found["text"].to_pylist() == [str(value) for value in sorted(values, reverse=True)[:7]]


def test_no_rows():
    assert list(first_rows([SortKey("n", True, True)], 3, [])) == []
    empty = pa.table({"n": pa.array([], pa.int64())})
    assert sum(batch.num_rows for batch in first_rows([SortKey("n", True, True)], 3, empty.to_batches())) == 0


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.int64(), True),
        (pa.uint8(), True),
        (pa.string(), True),
        (pa.decimal128(10, 2), True),
        (pa.date32(), True),
        (pa.timestamp("us", "UTC"), True),
        (pa.float64(), True),
        (pa.float32(), True),
        (pa.float16(), False),
        (pa.struct([("a", pa.int8())]), False),
        (pa.list_(pa.int8()), False),
        (pa.dictionary(pa.int8(), pa.string()), False),
    ],
)
def test_types_that_both_sort_alike(kind, expected):
    assert sortable([SortKey("c", True, True)], pa.schema([("c", kind)])) is expected


def test_what_cannot_be_sorted_by():
    schema = pa.schema([("a", pa.int8())])
    assert not sortable([], schema)
    assert not sortable([SortKey("b", True, True)], schema)


def test_values_of_other_types_are_sorted():
    table = pa.table({"d": [Decimal("1.50"), Decimal("-1.00")], "t": [date(1, 1, 1), date(1582, 10, 4)]})
    for column in table.column_names:
        found = pa.Table.from_batches(first_rows([SortKey(column, True, True)], 1, table.to_batches()))
        assert found[column].to_pylist() == [min(table[column].to_pylist())]


def chosen(wanted, addresses, size):
    table = pa.table({"_rowaddr": pa.array(addresses, pa.uint64())})
    return [value for batch in sample(wanted, batches(table, size), "_rowaddr") for value in batch[0].to_pylist()]


def test_a_sample_does_not_depend_on_how_the_read_is_divided():
    addresses = [(fragment << 32) + row for fragment in range(5) for row in range(1000)]
    whole = chosen(Sample(0.0, 0.2, 42), addresses, 5000)
    assert chosen(Sample(0.0, 0.2, 42), addresses, 7) == whole
    assert 850 < len(whole) < 1150
    assert chosen(Sample(0.0, 0.2, 43), addresses, 5000) != whole
    assert chosen(Sample(0.0, 0.2, -43), addresses, 5000) != whole


def test_parts_of_a_split_have_each_row_once():
    addresses = list(range(3000))
    parts = [chosen(Sample(low, high, 9), addresses, 100) for low, high in ((0.0, 0.3), (0.3, 0.7), (0.7, 1.0))]
    assert sorted(row for part in parts for row in part) == addresses
