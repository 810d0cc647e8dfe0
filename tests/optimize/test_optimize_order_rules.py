"""Orders of rows: ranks, z-values, how rows are divided, which fragments are rewritten; as tables of data."""

from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.errors import InvalidOption
from lance_spark.optimize import order_rules

pytestmark = pytest.mark.pure

BY_DAY = order_rules.Ordering(("day", "carrier"))
CURVE = order_rules.Ordering(("day", "carrier"), curve=True)


def keyed(days, carriers, first=0):
    count = len(days)
    return pa.table(
        {
            "day": pa.array(days, pa.int64()),
            "carrier": pa.array(carriers, pa.string()),
            "_rowaddr": pa.array(range(first, first + count), pa.uint64()),
        }
    )


def mixed(count, seed=0, days=100):
    random = np.random.default_rng(seed)
    return keyed(
        random.integers(0, days, count).tolist(), [f"c{number:02}" for number in random.integers(0, 30, count)]
    )


def fragment(key, rows, ordering=BY_DAY):
    in_order, ends = order_rules.ends_of(ordering, rows)
    return order_rules.FragmentKeys(key, rows.num_rows, in_order, ends, rows)


def cut_up(rows, ordering, part_rows):
    """The fragments that a rewrite makes, as it would read them the next time."""
    scale = order_rules.scale_of(ordering, rows)
    bounds = order_rules.cut(scale, rows, -(-rows.num_rows // part_rows))
    parts = order_rules.ranks(bounds, scale.line(rows))
    found = []
    for part in range(bounds.num_rows + 1):
        own = rows.filter(pa.array(parts == part))
        own = own.take(pa.array(order_rules.positions(scale.line(own))))
        address = pa.array(range(part << 32, (part << 32) + own.num_rows), pa.uint64())
        found.append(fragment(part, own.set_column(2, "_rowaddr", address), ordering))
    return found


@pytest.mark.parametrize(
    ("sort_by", "zorder", "expected"),
    [
        (None, None, None),
        ("day", None, order_rules.Ordering(("day",))),
        (["day", "carrier"], None, BY_DAY),
        (None, ["day", "carrier"], CURVE),
        ([], None, "sort_by must be a list"),
        ([" "], None, "sort_by must be a list"),
        (["day", "day"], None, "twice"),
        (None, [], "zorder must be a list"),
        (None, ["day"], "at least two"),
        (["day"], ["day", "carrier"], "cannot both"),
    ],
)
def test_what_may_be_asked_for(sort_by, zorder, expected):
    if isinstance(expected, str):
        with pytest.raises(InvalidOption, match=expected):
            order_rules.ordering_of(sort_by, zorder)
    else:
        assert order_rules.ordering_of(sort_by, zorder) == expected


@pytest.mark.parametrize(
    ("kind", "fits"),
    [
        (pa.int8(), True),
        (pa.uint64(), True),
        (pa.float32(), True),
        (pa.decimal128(10, 2), True),
        (pa.large_string(), True),
        (pa.date32(), True),
        (pa.timestamp("us", "UTC"), True),
        (pa.bool_(), True),
        (pa.list_(pa.int64()), False),
        (pa.list_(pa.float32(), 8), False),
        (pa.struct([("a", pa.int64())]), False),
    ],
)
def test_columns_that_have_an_order(kind, fits):
    schema = pa.schema([("a", kind), ("b", pa.int64())])
    if fits:
        order_rules.check_columns(order_rules.Ordering(("a",)), schema)
    else:
        with pytest.raises(InvalidOption, match="has no order"):
            order_rules.check_columns(order_rules.Ordering(("b", "a")), schema)
    with pytest.raises(InvalidOption, match="no column 'c'"):
        order_rules.check_columns(order_rules.Ordering(("c",)), schema)


@pytest.mark.parametrize(
    ("bounds", "values", "expected"),
    [
        ([], [1, None], [0, 0]),
        ([3, 5], [1, 3, 4, 5, 9, None], [0, 1, 1, 2, 2, 2]),
        (["b"], ["a", "b", "ba", None], [0, 1, 1, 1]),
        ([Decimal("1.50")], [Decimal("1.49"), Decimal("1.50")], [0, 1]),
        ([date(2026, 1, 2)], [date(2026, 1, 1), date(2026, 1, 2)], [0, 1]),
        ([0.0], [float("-inf"), -0.5, float("nan"), None], [0, 0, 1, 1]),
        ([True], [False, True], [0, 1]),
        ([5, None], [4, 5, None], [0, 1, 2]),
    ],
)
def test_ranks(bounds, values, expected):
    column = pa.array([*bounds, *values])
    found = order_rules.ranks(pa.table({"x": column[: len(bounds)]}), pa.table({"x": column[len(bounds) :]}))
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("values", "count", "expected"),
    [
        (range(100), 3, [25, 50, 75]),
        ([7] * 100, 3, []),
        ([1] * 90 + list(range(2, 12)), 3, []),
        ([1] * 50 + [2] * 50, 3, [2]),
        (["a", "b", "c", None], 3, ["b", "c", None]),
        ([1], 3, []),
    ],
)
def test_quantiles_are_distinct_and_cut_rows_evenly(values, count, expected):
    assert order_rules.quantiles(pa.table({"x": pa.array(values)}), count)["x"].to_pylist() == expected


@pytest.mark.parametrize(
    ("codes", "bits", "expected"),
    [
        (([0b11], [0b00]), 2, 0b1010),
        (([0b00], [0b11]), 2, 0b0101),
        (([0b10], [0b01]), 2, 0b1001),
        (([1], [0], [1]), 1, 0b101),
        (([2**10 - 1], [2**10 - 1]), 10, 2**20 - 1),
    ],
)
def test_bits_are_interleaved(codes, bits, expected):
    assert order_rules.interleaved([np.array(code) for code in codes], bits).tolist() == [expected]


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255)), min_size=1))
def test_a_curve_never_goes_back_in_both_columns(pairs):
    first, second = (np.array(each) for each in zip(*pairs, strict=True))
    curve = order_rules.interleaved([first, second], 8).tolist()
    for (a, b), here in zip(pairs, curve, strict=True):
        assert all(there >= here for (c, d), there in zip(pairs, curve, strict=True) if c >= a and d >= b)


def test_few_values_count_as_much_as_many():
    rows = keyed(list(range(1000)), ["a", "b"] * 500)
    line = order_rules.scale_of(CURVE, rows).line(rows)
    ordered = rows.take(pa.array(order_rules.positions(line)))
    # A quarter of the rows has half of the days, and one of the two carriers.
    quarter = ordered.slice(0, 250)
    assert set(quarter["carrier"].to_pylist()) == {"a"}
    assert max(quarter["day"].to_pylist()) < 510


@pytest.mark.parametrize("ordering", [BY_DAY, CURVE], ids=["sorted", "curve"])
@pytest.mark.parametrize("days", [1, 2, 100], ids=["one value", "two values", "many values"])
def test_parts_have_the_same_size_however_few_values_there_are(ordering, days):
    sizes = [each.rows for each in cut_up(mixed(4000, days=days), ordering, 500)]
    assert sizes == [500] * 8


def test_rows_are_in_order_within_parts_and_from_one_to_the_next():
    rows = keyed([3, None, 1, 2, 1, None], ["b", "a", None, "c", "a", None])
    found = [each.sample.select(["day", "carrier"]).to_pylist() for each in cut_up(rows, BY_DAY, 2)]
    expected = [(1, "a"), (1, None), (2, "c"), (3, "b"), (None, "a"), (None, None)]
    assert [(row["day"], row["carrier"]) for part in found for row in part] == expected


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([(0, 9), (10, 19)], 1.0),
        ([(0, 19), (0, 19)], 2.0),
        ([(0, 19), (0, 9)], 1.5),
        ([(0, 0)], 0.05),
    ],
)
def test_depth_is_the_fragments_in_which_a_row_might_be(ranges, expected):
    ends = keyed([end for pair in ranges for end in pair], ["a"] * 2 * len(ranges))
    sample = keyed(list(range(20)), ["a"] * 20)
    assert order_rules.depth_of(BY_DAY, ends, sample) == pytest.approx(expected)
    # Every fragment has the one carrier that there is.
    assert order_rules.depth_of(CURVE, ends, sample) == pytest.approx((expected + len(ranges)) / 2)


def test_columns_of_a_curve_count_alike():
    ends = keyed([0, 9], ["a", "b"])
    assert order_rules.shares(CURVE, ends, keyed([0, 9, 10, 50], ["a", "b", "a", "c"])).tolist() == [(0.5 + 0.75) / 2]
    assert order_rules.shares(BY_DAY, ends, keyed([0, 9, 9, 5], ["a", "b", "c", "z"])).tolist() == [0.75]


def test_rows_that_are_sorted_are_no_curve():
    sorted_rows = [fragment(each.id, each.sample, CURVE) for each in cut_up(mixed(8000), BY_DAY, 500)]
    assert len(order_rules.plan_clusters(CURVE, sorted_rows, 500).fragments) == 16
    curved = [fragment(each.id, each.sample) for each in cut_up(mixed(8000), CURVE, 500)]
    assert len(order_rules.plan_clusters(BY_DAY, curved, 500).fragments) == 16


@pytest.mark.parametrize("ordering", [BY_DAY, CURVE], ids=["sorted", "curve"])
def test_what_is_in_order_is_left_alone(ordering):
    settled = cut_up(mixed(8000), ordering, 500)
    assert order_rules.plan_clusters(ordering, settled, 500).fragments == frozenset()
    new = [fragment(90 + number, mixed(500, number + 1), ordering) for number in range(2)]
    plan = order_rules.plan_clusters(ordering, [*settled, *new], 500)
    assert {90, 91} <= plan.fragments
    assert len(plan.fragments) < 9
    if ordering is BY_DAY:
        assert (plan.fragments, plan.parts) == ({90, 91}, 2)


@pytest.mark.parametrize(("new", "rewritten"), [(8, 8), (16, 20)])
def test_once_much_is_new_everything_is_rewritten(new, rewritten):
    old = cut_up(mixed(2000), BY_DAY, 500)
    added = [fragment(90 + number, mixed(500, number + 1)) for number in range(new)]
    assert len(order_rules.plan_clusters(BY_DAY, [*old, *added], 500).fragments) == rewritten


@pytest.mark.parametrize(
    ("fragments", "expected"),
    [
        ([], 0),
        ([keyed([], [])], 0),
        ([keyed([1, 2, 3], ["a"] * 3)], 0),
        ([keyed([3, 2, 1], ["a"] * 3)], 1),
        ([keyed([1, 2], ["a"] * 2), keyed([3, 4], ["a"] * 2)], 2),
        ([keyed(list(range(10)), ["a"] * 10), keyed(list(range(10, 20)), ["a"] * 10)], 0),
    ],
    ids=["none", "empty", "small, in order", "small, not in order", "two small ones", "large, in order"],
)
def test_small_tables(fragments, expected):
    ends = keyed([1, 2], ["a"] * 2)
    keys = [
        fragment(number, rows) if rows.num_rows else order_rules.FragmentKeys(number, 0, True, ends.slice(0, 0), rows)
        for number, rows in enumerate(fragments)
    ]
    assert len(order_rules.plan_clusters(BY_DAY, keys, 10).fragments) == expected


@pytest.mark.parametrize(
    ("target", "width", "expected"),
    [(1000, 10.0, 1000), (1_000_000, 1.0, 1_000_000), (1_000_000, 2.0**20, 256), (5, 2.0**40, 1), (9, 0.0, 9)],
)
def test_a_part_fits_into_memory(target, width, expected):
    assert order_rules.rows_of_part(target, width) == expected


@pytest.mark.parametrize(
    ("rows", "part", "expected"), [(0, 10, 1), (20_000, 1000, 1), (10**9, 10**6, 20_000), (10**6, 10**6, 50)]
)
def test_how_many_rows_are_looked_at(rows, part, expected):
    assert order_rules.step_of(rows, part) == expected


@given(st.lists(st.integers(0, 5), max_size=30))
def test_rows_are_divided_among_parts_in_their_order(parts):
    found = {part: own.tolist() for part, own in order_rules.divided(np.array(parts, np.int64))}
    assert found == {part: [at for at, other in enumerate(parts) if other == part] for part in {*parts}}
