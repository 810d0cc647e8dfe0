"""What Spark's optimizer is told of a column, from what is known of it. Pure."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.layout.histogram_rules import distribution_of
from lance_spark.layout.statistic_rules import ColumnEstimate, estimate_of, sketch_of
from lance_spark.native.estimates import column_statistics, estimable, widened

pytestmark = pytest.mark.pure


def of(values, rows=None, bins=4):
    """The statistics of a version with these values in measured files, and perhaps more rows in others."""
    rows = rows or len(values)
    known = estimate_of([(sketch_of(values, histogram=True), len(values))], rows)
    return estimable(values.type, known, rows), column_statistics("c", values.type, known, rows, bins)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (pa.array(range(100), pa.int8()), "0", "99"),
        (pa.array([-(2**63), 2**63 - 1, 5]), str(-(2**63)), str(2**63 - 1)),
        (pa.array([2**53 + 1, 2**53 + 3]), str(2**53 + 1), str(2**53 + 3)),
        (pa.array([0.1, 0.7], pa.float32()), str(float(np.float32(0.1))), str(float(np.float32(0.7)))),
        (pa.array([Decimal("-0.10"), Decimal("123456789012345678.91")]), "-0.10", "123456789012345678.91"),
        (pa.array([-3, 40_000], pa.int32()).cast(pa.date32()), "-3", "40000"),
        (pa.array([-3, 1_999], pa.timestamp("ms", "UTC")), "-3000", "1999000"),
        (pa.array([2_999, 9_999], pa.timestamp("ns", "UTC")), "2", "9"),
    ],
)
def test_a_histogram_ends_where_its_column_does(values, low, high):
    """Spark ends a query with an error if it does not, in the very digits."""
    told, found = of(values)
    assert told
    assert (found.low, found.high) == (low, high)
    assert (found.bins[0][0], found.bins[-1][1]) == (float(low), float(high))
    edges = [edge for each in found.bins for edge in each[:2]]
    assert edges == sorted(edges)
    assert found.height == pytest.approx(len(values) / 4)
    told, found = of(values, rows=len(values) + 1)  # ends are guessed
    assert told
    assert (found.bins[0][0], found.bins[-1][1]) == (float(found.low), float(found.high))
    assert float(found.low) <= float(low)
    assert float(found.high) >= float(high)


def test_columns_with_which_spark_would_estimate_wrongly_or_fail():
    local = pa.array([1, 2], pa.timestamp("us"))
    assert of(local) == (False, column_statistics("c", local.type, ColumnEstimate(2, 0, 8, 8, 1, 2), 2, 4))
    assert of(local)[1].low is None
    assert of(pa.array([1.0, float("nan")]))[0] is False
    assert of(pa.array([1.0, float("inf")]))[0] is False
    assert of(pa.array([-1.7e308, 1.7e308]))[0] is False
    assert of(pa.array([-1e308, 1.0]), rows=3)[0] is False
    assert of(pa.nulls(4, pa.int32()))[0] is True
    told, found = of(pa.array(["a", "b"]))
    assert (told, found.low, found.bins) == (True, None, ())


@pytest.mark.parametrize(
    ("kind", "low", "high", "ends"),
    [
        (pa.int64(), 10, 30, (-10, 50)),
        (pa.int8(), -100, 100, (-128, 127)),
        (pa.int32(), 7, 7, (6, 8)),
        (pa.bool_(), True, True, (False, True)),
        (pa.float64(), -1.7e308, 1.7e308, (-np.finfo(np.float64).max, np.finfo(np.float64).max)),
        (pa.decimal128(10, 2), Decimal("1.50"), Decimal("4.00"), (Decimal("-1.00"), Decimal("6.50"))),
    ],
)
def test_guessed_ends(kind, low, high, ends):
    assert widened(kind, low, high) == ends


def test_bins_are_those_that_the_session_asks_for():
    values = pa.array(range(1000))
    known = ColumnEstimate(1000, 0, 8, 8, 0, 999, None, distribution_of(values))
    for bins in (0, 1, 254):
        found = column_statistics("c", values.type, known, 1000, bins)
        assert len(found.bins) == bins
        assert sum(each[2] for each in found.bins) == (pytest.approx(1000, abs=10) if bins else 0)
