"""Distributions that merge, and histograms cut from them, beside numpy's counts. Pure."""

import itertools
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.layout import histogram_rules
from lance_spark.layout.histogram_rules import (
    POINTS,
    bins_of,
    distribution_from,
    distribution_of,
    distribution_text,
    has_distribution,
    joined_distributions,
)

pytestmark = pytest.mark.pure
CHOOSE = np.random.default_rng(7)
DATA = {
    "random": CHOOSE.uniform(-5, 5, 30_000),
    "normal": CHOOSE.normal(0, 1e-6, 30_000),
    "skewed": CHOOSE.zipf(1.3, 30_000).clip(max=1e12),
    "few": CHOOSE.integers(0, 5, 30_000),
    "constant": np.full(30_000, 7.0),
    "tiny": np.array([3.0, 1.0]),
    "one": np.array([-4.0]),
    "huge": CHOOSE.uniform(-1.7, 1.7, 30_000) * 1e308,
    "small": CHOOSE.uniform(-5e-324, 1e-300, 30_000),
    "negative": -CHOOSE.lognormal(3, 2, 30_000),
    "spike": np.where(CHOOSE.uniform(size=30_000) < 0.6, 42.0, CHOOSE.uniform(0, 1e6, 30_000)),
    "far": np.append(CHOOSE.uniform(0, 1, 30_000), 1e300),
}


def off(known, values):
    """How far counts are off at most, as a part of all values: at the values, beside them and beyond."""
    ordered = np.sort(np.asarray(values, float))
    with np.errstate(over="ignore"):
        probes = np.unique(np.concatenate((ordered, np.nextafter(ordered, np.inf), np.nextafter(ordered, -np.inf))))
    probes = probes[np.isfinite(probes)]
    less, most = known.counts(probes)
    least = np.searchsorted(ordered, probes, side="left") - less
    most = np.searchsorted(ordered, probes, side="right") - most
    return max(abs(most).max(), abs(least).max()) / len(ordered)


@pytest.mark.parametrize("name", DATA)
def test_a_distribution_counts_as_numpy_does(name):
    values = DATA[name]
    known = distribution_of(pa.array(values.astype(float)))
    assert known.count == len(values)
    assert (known.points[0], known.points[-1]) == (values.min(), values.max())
    assert off(known, values) <= 1 / POINTS + 1e-9
    assert len(known.points) <= POINTS + 1
    if len(np.unique(values)) <= POINTS:
        assert off(known, values) == 0


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("parts", [2, 9, 70])
def test_parts_join_to_the_whole(name, parts):
    """Parts of ranges, as a table that is partitioned has them, and parts of all values."""
    for values in (np.sort(DATA[name].astype(float)), DATA[name].astype(float)):
        pieces = [distribution_of(pa.array(piece)) for piece in np.array_split(values, parts)]
        known = joined_distributions(pieces)
        assert known.count == pytest.approx(len(values))
        assert (known.points[0], known.points[-1]) == (values.min(), values.max())
        assert off(known, values) <= (2 if parts <= 32 else 3) / POINTS + 1e-9


@given(st.data())
def test_the_bound_of_the_error(data):
    """Whatever is joined in which order: one part in POINTS for the values, and one for each step of joins."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(histogram_rules, "POINTS", 16)  # few, so that small data needs more than there are
        check_the_bound(data)


def check_the_bound(data):
    numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-20, 20).map(float)
    batches = data.draw(st.lists(st.lists(numbers, max_size=80), min_size=1, max_size=12))
    found = [(distribution_of(pa.array(batch, pa.float64())), 1) for batch in batches]
    while len(found) > 1:
        some = data.draw(st.integers(2, len(found)))
        taken, found = found[:some], found[some:]
        found.append((joined_distributions([each for each, _ in taken]), 1 + max(steps for _, steps in taken)))
    known, steps = found[0]
    values = [value for batch in batches for value in batch]
    if not values:
        assert known.count == 0
        return
    assert off(known, values) <= steps / histogram_rules.POINTS + 1e-9
    known = distribution_from(distribution_text(known))
    assert off(known, values) <= steps / histogram_rules.POINTS + 1e-9
    bins = bins_of(known, 10, len(set(values)), False)
    assert (bins[0].low, bins[-1].high) == (min(values), max(values))
    assert all(each.low <= each.high and each.distinct >= 1 for each in bins)
    assert all(one.high == other.low for one, other in itertools.pairwise(bins))


@pytest.mark.parametrize("name", DATA)
def test_bins_hold_as_many_values_each(name):
    values = DATA[name].astype(float)
    known = joined_distributions([distribution_of(pa.array(piece)) for piece in np.array_split(values, 5)])
    distinct = len(np.unique(values))
    for count in (2, 254):
        bins = bins_of(known, count, distinct, False)
        assert len(bins) == count
        ordered = np.sort(values)
        edges = np.array([bins[0].low, *(each.high for each in bins)])
        here = np.arange(count + 1) / count * len(values)
        least, most = np.searchsorted(ordered, edges, side="left"), np.searchsorted(ordered, edges, side="right")
        assert (least - 3 * len(values) / POINTS - 1 <= here).all()
        assert (here <= most + 3 * len(values) / POINTS + 1).all()


@pytest.mark.parametrize("name", ["random", "normal", "skewed", "few", "constant", "huge", "negative", "spike"])
def test_distinct_values_of_bins_add_up(name):
    values = DATA[name].astype(float)
    known = distribution_of(pa.array(values))
    bins = bins_of(known, 20, len(np.unique(values)), name == "skewed")
    edges = [np.nextafter(bins[0].low, -np.inf), *(each.high for each in bins)]
    exact = [len(np.unique(values[(values > low) & (values <= high)])) for low, high in itertools.pairwise(edges)]
    single = [each.distinct for each in bins if each.low == each.high]
    assert single == [1] * len(single)
    told = sum(each.distinct for each in bins if each.low < each.high)
    assert abs(told - sum(exact)) <= 0.1 * sum(exact) + len(bins)


def test_bins_of_few_values_are_exact():
    """A bin of one value has that one; others have those in them, as Spark counts: without the lower end."""
    known = distribution_of(pa.array([1] * 60 + [2] * 20 + [3] * 10 + [9] * 10))
    assert bins_of(known, 5, 4, True) == ((1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 2, 1), (2, 9, 2))
    assert bins_of(distribution_of(pa.array([], pa.int64())), 5, 0, True) == ()


def test_whole_numbers_have_no_more_values_than_there_is_room_for():
    values = np.concatenate((np.arange(1000), np.repeat(np.arange(10_000, 10_100), 50)))
    bins = bins_of(distribution_of(pa.array(values)), 6, 1100, True)
    assert [each.distinct for each in bins][-1] <= 30
    assert 900 <= bins[0].distinct <= 1010


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        (pa.array([1, None, 3], pa.int8()), [1, 3]),
        (pa.array([2**62 + 1], pa.int64()), [2.0**62]),
        (pa.array([Decimal("1.25"), Decimal("-3.5")]), [-3.5, 1.25]),
        (pa.array([date(1970, 1, 3), date(1969, 12, 31)]), [-1, 2]),
        (pa.array([5, -7], pa.timestamp("ms", "UTC")), [-7, 5]),
        (pa.array([float("nan"), 1.5, float("inf"), None]), [1.5]),
        (pa.array([0.5], pa.float32()), [0.5]),
        (pa.nulls(3, pa.int32()), []),
    ],
)
def test_values_as_numbers(values, numbers):
    assert has_distribution(values.type)
    assert distribution_of(values).points.tolist() == numbers


def test_types_without_one():
    kinds = (pa.string(), pa.bool_(), pa.binary(), pa.timestamp("us"), pa.list_(pa.int8()))
    assert not any(map(has_distribution, kinds))


def test_texts_that_are_no_distribution():
    text = distribution_text(distribution_of(pa.array([1.0, 2.0])))
    assert distribution_from(text).points.tolist() == [1.0, 2.0]
    for wrong in (
        "",
        text[:-3],
        distribution_text(histogram_rules.Distribution(*np.array([[2.0, 1], [0, 1], [1, 2]]))),
    ):
        with pytest.raises((ValueError, ArithmeticError, histogram_rules.zlib.error)):
            distribution_from(wrong)
