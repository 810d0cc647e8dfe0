"""Sketches of distinct values, and what they tell of a version. Pure."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.layout.fact_rules import Bounds
from lance_spark.layout.filter_rules import All, Compared, OneOf
from lance_spark.layout.histogram_rules import distribution_of
from lance_spark.layout.statistic_rules import (
    ColumnEstimate,
    Group,
    KnownGroups,
    Places,
    countable,
    decoded_groups,
    distinct_of,
    encoded_groups,
    estimate_of,
    group_from,
    group_json,
    joined,
    joined_sketches,
    registers_of,
    share_of,
    sketch_of,
    within,
)

pytestmark = pytest.mark.pure
SOME = (0, 1, 3, 40, 1_000, 20_000, 300_000)


@pytest.mark.parametrize(
    "made",
    [
        lambda numbers: pa.array(numbers, pa.int64()),
        lambda numbers: pa.array(numbers * 3, pa.int32()),
        lambda numbers: pa.array(numbers.astype(float) / 7),
        lambda numbers: pa.array(numbers, pa.int64()).cast(pa.string()),
        lambda numbers: pa.array(numbers, pa.int64()).cast(pa.string()).cast(pa.binary()),
        lambda numbers: pa.array(numbers, pa.int64()).cast(pa.decimal128(30, 0)),
        lambda numbers: pa.array(numbers, pa.int32()).cast(pa.date32()),
        lambda numbers: pa.array(numbers * 1000, pa.int64()).cast(pa.timestamp("us", "UTC")),
    ],
)
def test_a_sketch_counts_distinct_values(made):
    for count in SOME:
        values = made(np.arange(count))
        twice = pa.concat_arrays([values, values, pa.nulls(3, values.type)])
        assert abs(distinct_of(registers_of(twice)) - count) <= max(1.0, 0.07 * count)


def test_sketches_of_parts_merge_to_that_of_the_whole():
    values = pa.array(range(5_000))
    parts = [sketch_of(values[:3_000]), sketch_of(values[2_000:])]
    both, whole = joined_sketches(parts), sketch_of(values)
    assert (both.registers == whole.registers).all()
    assert (both.rows, both.bounds) == (6_000, Bounds(0, 4_999, False))


def test_what_a_column_is():
    known = sketch_of(pa.array(["a", None, "abc"]))
    assert (known.rows, known.nulls, known.bytes, known.longest, known.bounds) == (3, 1, 4, 3, None)
    known = sketch_of(pa.array([Decimal("1.5"), None]))
    assert (known.bytes, known.longest, known.bounds) == (16, 16, Bounds(Decimal("1.5"), Decimal("1.5"), True))
    assert sketch_of(pa.array([1.0, float("nan")])).bounds is None
    assert sketch_of(pa.array([], pa.bool_())).longest == 1


def test_columns_that_can_be_counted():
    kinds = {"a": pa.int8(), "b": pa.string(), "c": pa.list_(pa.int8()), "d": pa.binary(), "e": pa.struct([])}
    assert countable(pa.schema([*kinds.items()])) == ("a", "b", "d")


GROUP = Group(("a.lance", "b.lance"), {0: sketch_of(pa.array(range(100)))}, {0: "id"})


def test_a_file_says_what_was_written_and_a_damaged_one_nothing():
    content = encoded_groups([GROUP])
    (found,) = decoded_groups(content)
    assert (found.files, found.names, found.columns[0].bounds) == (GROUP.files, GROUP.names, Bounds(0, 99, False))
    assert (found.columns[0].registers == GROUP.columns[0].registers).all()
    for at in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[at] ^= 5
        assert decoded_groups(bytes(damaged)) == ()
    assert decoded_groups(b"") == ()


def test_groups_of_other_columns_in_the_same_place_stay_apart():
    other = Group(("c.lance",), GROUP.columns, {0: "v"})
    more = Group(("d.lance",), GROUP.columns, {0: "id"})
    assert [each.files for each in joined([GROUP, other, more])] == [("a.lance", "b.lance", "d.lance"), ("c.lance",)]


def test_a_group_most_of_whose_files_are_gone_is_measured_again():
    old = Group(("a", "b", "c"), GROUP.columns, GROUP.names)
    known = KnownGroups([old])
    assert known.measured([Places(10, "a", 0), Places(10, "b", 0), Places(5, "d", 0)])[:2] == ({0: 20}, (2,))
    assert known.measured([Places(10, "a", 0), Places(10, "b", 0), Places(5, None, -1)])[:2] == ({0: 20}, ())
    assert known.measured([Places(10, "a", 0), Places(10, "x", 0)])[:2] == ({0: 10}, (0, 1))
    assert known.measured([Places(10, "a", 7)]).missing == (0,)
    newer = KnownGroups([old, Group(("a",), GROUP.columns, GROUP.names)])
    assert newer.measured([Places(10, "a", 0)])[:2] == ({1: 10}, ())


def test_a_version_with_rows_that_were_deleted_when_others_were_measured_is_measured_again():
    known = KnownGroups([GROUP])  # 100 rows of both files
    assert known.measured([Places(60, "a.lance", 0), Places(40, "b.lance", 0)])[:2] == ({0: 100}, ())
    before = [Places(70, "a.lance", 0), Places(40, "b.lance", 0)]
    assert known.measured(before)[:2] == ({0: 110}, (0, 1))
    found = estimate_of([(GROUP.columns[0], 110)], 110)
    assert (found.low, found.high, found.measured) == (None, None, (0, 99))
    whole = Group(("a.lance", "b.lance"), {0: sketch_of(pa.array(range(110)))}, {0: "id"})
    assert KnownGroups([GROUP, whole]).measured(before)[:2] == ({1: 110}, ())


SPREAD = Group(("a", "b"), {0: sketch_of(pa.array(range(100)), histogram=True)}, {0: "id"})


def test_files_whose_distribution_nobody_knows_are_measured_for_it():
    a, b = Places(10, "a", 0), Places(10, "b", 0)
    plain = Group(("a", "b"), GROUP.columns, GROUP.names)
    assert KnownGroups([plain]).measured([a, b]) == ({0: 20}, (), (0, 1))
    for groups in ([SPREAD, plain], [plain, SPREAD]):
        known = KnownGroups(groups)
        assert known.measured([a, b]) == ({0 if groups[0] is SPREAD else 1: 20}, (), ())
    few = Group(("a", "x", "y", "z"), SPREAD.columns, SPREAD.names)  # most of it is of files that are gone
    assert KnownGroups([few, plain]).measured([a, b]) == ({1: 20}, (), (0, 1))
    assert KnownGroups([plain]).measured([Places(10, None, -1)]).without == ()


def test_distributions_in_files():
    content = encoded_groups([SPREAD, GROUP])
    spread, plain = decoded_groups(content)
    assert spread.columns[0].distribution.points.tolist() == [*range(100)]
    assert plain.columns[0].distribution is None
    assert [len(each.files) for each in joined([SPREAD, GROUP, SPREAD])] == [2, 2]
    assert joined([SPREAD, SPREAD])[0].columns[0].distribution.count == 200
    told = group_json(SPREAD)
    assert [len(each) for each in told["columns"].values()] == [7]  # what versions before read
    del told["distributions"]  # as they write
    assert group_from(told).columns[0].distribution is None


def test_a_version_has_the_distribution_of_half_of_its_rows_or_none():
    spread, plain = SPREAD.columns[0], sketch_of(pa.array(range(100, 200)))
    assert estimate_of([(spread, 50)], 50).distribution.count == 50
    assert estimate_of([(spread, 100), (plain, 100)], 200).distribution.count == 100
    assert estimate_of([(spread, 100), (plain, 110)], 210).distribution is None
    part = estimate_of([(spread, 100)], 120)
    assert (part.low, part.measured, part.distribution.count) == (None, (0, 99), 120)
    assert (part.distribution.points[0], part.distribution.points[-1]) == (-99, 198)
    assert share_of(Compared("id", ">", (99,)), {"id": part}, 120) == pytest.approx(20 / 120 / 3, abs=0.01)
    assert sketch_of(pa.array(["a"]), histogram=True).distribution is None


def test_a_version_of_which_a_part_is_known():
    key, few = sketch_of(pa.array(range(1_000))), sketch_of(pa.array([1, 2, None, None] * 250))
    assert estimate_of([(key, 400)], 1_000) is None
    assert estimate_of([], 0) is None
    grown = estimate_of([(key, 1_000)], 1_800)
    assert abs(grown.distinct - 1_800) < 100
    assert (grown.low, grown.high) == (None, None)
    same = estimate_of([(few, 1_000)], 1_800)
    assert (same.distinct, same.nulls) == (2, 900)
    left = estimate_of([(key, 100)], 100)  # after deletions
    assert (left.distinct, left.low, left.high) == (100, 0, 999)


COLUMNS = {
    "a": ColumnEstimate(100, 0, 8, 8, 0, 99),
    "n": ColumnEstimate(10, 500, 8, 8),
    "c": ColumnEstimate(4, 0, 3, 9),
    "s": ColumnEstimate(11, 0, 8, 8, 0, 1000, None, distribution_of(pa.array([*[7] * 90, *range(100, 1100, 100)]))),
}


@pytest.mark.parametrize(
    ("condition", "share"),
    [
        (None, 1.0),
        (Compared("a", "=", (5,)), 0.01),
        (Compared("a", "=", (500,)), 0.0),
        (Compared("a", "=", ("5",)), 0.01),
        (Compared("a", "IN", (5, 6, 6, 700)), 0.02),
        (Compared("a", "<>", (5,)), 0.99),
        (Compared("a", "<", (49.5,)), 0.5),
        (Compared("a", ">=", (99,)), 0.0),
        (Compared("a", "<", (-1,)), 0.0),
        (Compared("a", ">", (-1,)), 1.0),
        (Compared("n", "IS NULL"), 0.5),
        (Compared("n", "IS NOT NULL"), 0.5),
        (Compared("n", "=", (3,)), 0.05),
        (Compared("n", "<", (3,)), 1.0),
        (Compared("c", "STARTS", ("x",)), 1.0),
        (Compared("q", "=", (3,)), 1.0),
        (Compared("s", "=", (7,)), 0.9),
        (Compared("s", "<>", (7,)), 0.1),
        (Compared("s", "IN", (7, 100)), 0.91),
        (Compared("s", "=", (150,)), 1 / 512),
        (Compared("s", "<", (7,)), 0.0),
        (Compared("s", "<=", (7,)), 0.9),
        (Compared("s", ">", (7,)), 0.1),
        (Compared("s", ">=", (7.0,)), 1.0),
        (Compared("s", ">", (Decimal(500),)), 0.05),
        (Compared("s", "<", ("x",)), 1.0),
        (All((Compared("a", "=", (5,)), Compared("c", "=", ("x",)))), 0.0025),
        (All((Compared("a", ">=", (33,)), Compared("a", "<", (66,)))), 1 / 3),
        (All((Compared("a", ">", (66,)), Compared("a", "<", (33,)))), 0.0),
        (All((Compared("a", ">", ("x",)), Compared("a", "<", (33,)))), 1 / 3),
        (All((Compared("s", ">", (7,)), Compared("s", "<=", (600,)), Compared("c", "=", ("x",)))), 0.015),
        (All((Compared("q", ">", (66,)), Compared("n", "IS NULL"))), 0.5),
        (OneOf((Compared("c", "=", ("x",)), Compared("c", "=", ("y",)))), 0.4375),
        (OneOf((Compared("c", "=", ("x",)), None)), 1.0),
    ],
)
def test_the_part_of_the_rows_that_a_filter_keeps(condition, share):
    assert share_of(condition, COLUMNS, 1_000) == pytest.approx(share)


def test_columns_of_the_rows_that_a_filter_keeps():
    five = Compared("a", "=", (5,))
    assert within(five, "a", COLUMNS["a"], 10, 1_000).distinct == 1
    assert within(five, "n", COLUMNS["n"], 10, 1_000) == ColumnEstimate(6, 5, 8, 8)
    assert within(None, "a", COLUMNS["a"], 1_000, 1_000) is COLUMNS["a"]
    assert within(Compared("a", "<", (49.5,)), "a", COLUMNS["a"], 500, 1_000).distinct == 50
