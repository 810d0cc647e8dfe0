"""Minima and maxima from the ends of indexes: what is read, and when it settles the matter."""

import pyarrow as pa
import pytest

from lance_spark.pushdown.aggregates import Aggregate, beyond, ends_of, extreme_columns, plan_aggregates, settled
from lance_spark.pushdown.filters import Column

pytestmark = pytest.mark.pure

SCHEMA = pa.schema(
    [
        ("a", pa.int64()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us")),
        ("f", pa.float64()),
        ("s", pa.struct([("x", pa.int64())])),
    ]
)


def plan(*asked, groups=()):
    aggregates = [Aggregate(function, Column(tuple(path)) if path else None) for function, *path in asked]
    return plan_aggregates(aggregates, [Column((name,)) for name in groups], SCHEMA)


COUNT = ("COUNT_STAR",)


@pytest.mark.parametrize(
    ("given", "columns"),
    [
        (plan(("MIN", "a")), ("a",)),
        (plan(("MIN", "a"), ("MAX", "a"), ("MAX", "d"), COUNT), ("a", "d")),
        (plan(COUNT), ()),
        (plan(("MIN", "a"), groups=["d"]), ()),
        (plan(("MIN", "a"), ("SUM", "a")), ()),
        (plan(("MIN", "a"), ("COUNT", "a")), ()),
        (plan(("MIN", "s", "x")), ()),
        (plan(groups=["a"]), ()),
    ],
)
def test_what_ends_can_answer(given, columns):
    assert extreme_columns(given) == columns


@pytest.mark.parametrize(
    ("segments", "kind", "expected"),
    [
        ([("0", "9")], pa.int64(), (0, 9)),
        ([("-3", "9"), ("-7", "2")], pa.int8(), (-7, 9)),
        ([("NULL", "9")], pa.int64(), (None, 9)),
        ([("3", "9"), ("NULL", "12")], pa.int64(), (None, 12)),
        ([("N/A", "N/A")], pa.int64(), (None, None)),
        ([], pa.int64(), (None, None)),
        ([("0", "18446744073709551615")], pa.uint64(), (None, None)),
        ([("1970-01-02", "1969-12-31")], pa.date32(), (1, -1)),
        ([("-0044-03-15", "2020-01-01")], pa.date32(), (None, 18_262)),
        ([("-315619181999995", "7")], pa.timestamp("us", "UTC"), (-315619181999995, 7)),
        ([("1", "2")], pa.timestamp("ms"), (None, None)),
        ([("1.5", "NaN")], pa.float64(), (None, None)),
        ([("a", "b")], pa.string(), (None, None)),
        ([("1", "2")], pa.decimal128(3, 0), (None, None)),
    ],
)
def test_the_ends_of_all_segments(segments, kind, expected):
    assert ends_of(segments, kind) == expected


@pytest.mark.parametrize(
    ("given", "ends", "sql"),
    [
        (plan(("MIN", "a")), {"a": (3, None)}, "`a` <= 3"),
        (plan(("MAX", "a"), COUNT), {"a": (None, 9)}, "`a` >= 9"),
        (plan(("MIN", "a"), ("MAX", "d")), {"a": (3, 4), "d": (1, 2)}, "(`a` <= 3) OR (`d` >= CAST(2 AS DATE))"),
        (plan(("MIN", "a"), ("MAX", "a")), {"a": (None, 9)}, None),
        (plan(("MIN", "a")), {}, None),
    ],
)
def test_what_is_read(given, ends, sql):
    found = beyond(given, ends, SCHEMA)
    assert (found and found.sql) == sql


BOTH = plan(("MIN", "a"), COUNT, ("MAX", "a"))


@pytest.mark.parametrize(
    ("low", "high", "settles"),
    [
        (3, 9, True),
        (2, 12, True),  # further out than the index knew
        (4, 9, False),  # the row was deleted: what is there came in by the other end
        (3, 8, False),
        (None, None, False),
    ],
)
def test_rows_beyond_the_ends_settle_it(low, high, settles):
    batch = pa.RecordBatch.from_arrays(
        [pa.array([low], pa.int64()), pa.array([2]), pa.array([high], pa.int64())], schema=BOTH.output
    )
    found = settled(BOTH, {"a": (3, 9)}, [batch], rows=1000)
    assert (found and [column.to_pylist() for column in found]) == ([[low], [1000], [high]] if settles else None)


def test_dates_and_moments_are_compared_as_numbers():
    given = plan(("MIN", "d"), ("MAX", "t"))
    batch = pa.RecordBatch.from_arrays(
        [pa.array([-5], pa.int32()).cast(pa.date32()), pa.array([7], pa.timestamp("us"))], schema=given.output
    )
    assert settled(given, {"d": (-5, 0), "t": (0, 7)}, [batch], 3) is not None
    assert settled(given, {"d": (-6, 0), "t": (0, 7)}, [batch], 3) is None
    assert settled(given, {"d": (-5, 0), "t": (0, 8)}, [batch], 3) is None


def test_nothing_that_came_out_settles_nothing():
    assert settled(BOTH, {"a": (3, 9)}, [], rows=0) is None
