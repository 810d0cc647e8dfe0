"""Frozen sets decided: what a call means, which split a row falls into, where it stands, what differs."""

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import CorruptData, InvalidName, InvalidOption, NotFound, Refused
from lance_spark.frozen import draw_rules as rules

pytestmark = pytest.mark.pure

SPLITS = {"train": 0.8, "val": 0.15, "test": 0.05}
PINNED = {"train": [2, 13, 14, 18, 11, 12, 8, 7, 4, 5, 6, 9, 1, 19, 17, 10, 15, 16], "val": [3], "test": [0]}


def drawn(ids, spec, groups=()):
    ids = np.array(ids, np.uint64)
    return rules.draw(groups, ids, ids.astype(np.int64) * 10, spec)


def summed(batches):
    """Rows by the first column of batches of counts."""
    sums = Counter()
    for batch in batches:
        sums.update(dict(zip(batch[0].to_pylist(), batch["rows"].to_pylist(), strict=True)))
    return sums


def planned(table, spec, most=10**6):
    """The plan of drawn rows, as the action puts it together."""
    found = summed(rules.count_splits(iter(table.to_batches())))
    layout = rules.Layout(
        tuple(name for name, _ in spec.splits),
        tuple(rules.slices([found.get(number, 0) for number in range(len(spec.splits))], most)),
    )
    rows = summed(rules.count_slices(layout, iter(table.to_batches())))
    layout = replace(layout, rows=tuple(rows.get(number, 0) for number in range(len(layout.slices))))
    pieces = pa.Table.from_batches(rules.divide(layout, iter(table.to_batches(max_chunksize=90)))).group_by("part")
    parts = []
    for part in pieces.aggregate([("rows", "list")]).sort_by("part").to_pylist():
        number, own = rules.unpack(part["rows_list"], layout)
        assert (number, own.num_rows) == (part["part"], layout.rows[number])
        parts.append(layout.ordered(number, own))
    return pa.concat_tables(parts).combine_chunks()


@pytest.mark.parametrize(
    ("split", "ends"),
    [
        ({"all": 1}, (2**64 - 1,)),
        ({"a": 0.5, "b": 0.5}, (2**63 - 1, 2**64 - 1)),
        ({"a": 0.1, "b": 0.2, "c": 0.7}, (2**64 // 10 - 1, 2**64 * 3 // 10 - 1, 2**64 - 1)),
        (
            {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3},
            (int(0.3333333333333333 * 10**16) * 2**64 // 10**16 - 1, None, 2**64 - 1),
        ),
    ],
)
def test_fractions_are_cut_exactly_as_they_are_written(split, ends):
    found = rules.thresholds(rules.make_spec("s", split=split).splits)
    assert all(expected in (None, end) for end, expected in zip(found, ends, strict=True))
    assert list(found) == sorted(found)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"split": {"a": 0.5}}, InvalidOption, "add up to 0.5, not to 1"),
        ({"split": {"a": 0.9, "b": 0.2}}, InvalidOption, "add up to 1.1"),
        ({"split": {}}, InvalidOption, "add up to 0"),
        ({"split": {"a": 1.0, "b": 0.0}}, InvalidOption, "'b' cannot have the fraction 0.0"),
        ({"split": {"": 1.0}}, InvalidOption, "not a valid name of a split"),
        ({"split": {1: 1.0}}, InvalidOption, "1 is not a valid name of a split"),
        ({"split": {"a": "1"}}, InvalidOption, "'a' cannot have the fraction '1'"),
        ({"split": {"a": True}}, InvalidOption, "cannot have the fraction True"),
        ({"split": ["a"]}, InvalidOption, "names no fractions"),
        ({"seed": 1.5}, InvalidOption, "whole number"),
        ({"seed": True}, InvalidOption, "whole number"),
        ({"filter": 5}, InvalidOption, "filter= must be text"),
        ({"code": 5}, InvalidOption, "code= must be text"),
        ({"name": 5}, InvalidOption, "name of a set must be text"),
        ({"by": ["a", "a"]}, InvalidOption, "named twice"),
        ({"by": 3}, InvalidOption, "by=3 names no columns"),
        ({"by": ["a", 3]}, InvalidOption, "names no columns"),
        ({"name": "a/b"}, InvalidName, "valid tag name"),
        ({"name": "a..b"}, InvalidName, "valid tag name"),
    ],
)
def test_calls_that_mean_nothing_are_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        rules.make_spec(**{"name": "s", **arguments})


@pytest.mark.parametrize(
    ("filter", "name"),
    [
        ("ts < now()", "now"),
        ("ts > NOW () - interval '1 day'", "now"),
        ("day = current_date", "current_date"),
        ("day = Current_Date()", "current_date"),
        ("ts < current_timestamp", "current_timestamp"),
        ("day = today()", "today"),
        ("random() < 0.5", "random"),
        ("a = 'x' AND uuid() > 'a'", "uuid"),
        ("`now`() > ts", "now"),
        ("now/* 'x */() > ts", "now"),
        ("id > 3 AND now -- of the day\n() > ts", "now"),
        ("`a'b` > 3 AND `random` () < 0.5", "random"),
    ],
)
def test_filters_by_the_clock_or_by_chance_are_refused(filter, name):
    with pytest.raises(InvalidOption, match=f"different rows each time, because of '{name}'"):
        rules.make_spec("s", filter)


@pytest.mark.parametrize(
    "filter",
    [
        "a = 'now()'",
        "`current_date` > 5",
        "now > 5",
        "random_id = 3",
        "a = 'it''s random()'",
        "known(x)",
        '"now()" = 1',
        "id < 5 -- not now()",
        "id < 5 /* all but random() */",
        "a = '--' AND `now()` = 1 AND (`now`) > 3",
        "a = '/*' OR a = 'now()' OR a = '*/'",
    ],
)
def test_filters_that_only_look_like_that_are_taken(filter):
    assert rules.make_spec("s", filter).filter == filter


def test_numbers_of_numpy_are_numbers_and_are_kept_as_plain_ones():
    spec = rules.make_spec("s", split={"a": np.float64(0.9), "b": np.float32(0.1)}, seed=np.int64(7))
    assert spec == rules.make_spec("s", split={"a": 0.9, "b": 0.1}, seed=7)
    assert type(spec.seed) is int


def test_split_and_order_of_rows_are_pinned():
    spec = rules.make_spec("s", split=SPLITS, seed=7)
    rows = planned(drawn(range(20), spec), spec)
    assert {name: rows.filter(pa.compute.equal(rows["split"], name))["row_id"].to_pylist() for name in SPLITS} == PINNED
    assert rows.schema == rules.PLAN_SCHEMA
    assert rows["row_offset"].to_pylist() == [each * 10 for each in rows["row_id"].to_pylist()]


def test_the_plan_is_the_same_however_rows_come_and_however_many_are_sorted_at_once():
    spec = rules.make_spec("s", split=SPLITS, seed=3)
    whole = drawn(range(1000), spec)
    shuffled = pa.concat_tables([drawn(range(600, 1000), spec), drawn(range(600), spec)])
    assert planned(whole, spec) == planned(shuffled, spec, most=70).combine_chunks()
    positions = planned(shuffled, spec, most=70)
    for name in SPLITS:
        own = positions.filter(pa.compute.equal(positions["split"], name))["position"].to_pylist()
        assert own == list(range(len(own)))


def test_slices_cover_every_place_once():
    found = list(rules.slices([10, 0, 95], 30))
    assert [part.split for part in found] == [0, 2, 2, 2, 2]
    assert found[0] == rules.Slice(0, -(2**63), 2**63 - 1)
    ends = found[1:]
    assert ends[0].first == -(2**63)
    assert ends[-1].last == 2**63 - 1
    assert all(after.first == before.last + 1 for before, after in pairwise(ends))


def test_groups_never_straddle_splits_and_stay_when_others_come():
    spec = rules.make_spec("s", split=SPLITS, by="p", seed=1)
    groups = pa.array([f"g{number % 300}" for number in range(3000)])
    first = drawn(range(3000), spec, [groups])
    splits = {}
    for group, split in zip(groups.to_pylist(), first["split"].to_pylist(), strict=True):
        assert splits.setdefault(group, split) == split
    later = drawn(range(50_000, 50_300), spec, [pa.array([f"g{number}" for number in range(300)])])
    assert dict(zip((f"g{number}" for number in range(300)), later["split"].to_pylist(), strict=True)) == splits


def test_sizes_are_near_the_fractions():
    spec = rules.make_spec("s", split=SPLITS, seed=5)
    counts = np.bincount(drawn(range(100_000), spec)["split"].to_numpy())
    assert all(abs(found - wanted) < 600 for found, wanted in zip(counts, (80_000, 15_000, 5_000), strict=True))


def test_rows_without_a_group_are_told():
    spec = rules.make_spec("s", by=["a", "b"])
    groups = [pa.array(["x", None, "y"]), pa.array([1, 2, None])]
    assert drawn(range(3), spec, groups)["split"].to_pylist() == [0, rules.NO_GROUP, rules.NO_GROUP]
    assert drawn(range(1), spec, [pa.array([None], pa.string()), pa.array([1])])["split"].to_pylist() == [
        rules.NO_GROUP
    ]


def test_numbers_of_live_rows_skip_deleted_ones():
    physical, deleted = np.array([1, 3, 4, 9]), np.array([0, 2, 5])
    assert rules.live_offsets(physical, deleted, 100).tolist() == [100, 101, 102, 106]


def lineage(**changes):
    spec = rules.make_spec("s", "id > 1", SPLITS, "p", 7, "abc123")
    sizes = (rules.SplitSize("train", "0.8", 8), rules.SplitSize("val", "0.15", 2), rules.SplitSize("test", "0.05", 0))
    return rules.Lineage(
        spec, "/data/t.lance", PinnedVersion("exp", 4, 99), "uuid", False, sizes, "lance_spark 0", **changes
    )


def test_lineage_comes_back_as_it_was_kept():
    assert rules.Lineage.from_json(lineage().to_json()) == lineage()
    with pytest.raises(CorruptData, match="lineage"):
        rules.Lineage.from_json('{"spec": 1}')


def test_ranges_of_splits_follow_one_another():
    ranges = {name: lineage().range_of(name) for name in (*SPLITS, None)}
    assert ranges == {"train": (0, 8), "val": (8, 2), "test": (10, 0), None: (0, 10)}
    with pytest.raises(NotFound, match="no split 'dev'"):
        lineage().range_of("dev")


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({}, ()),
        ({"code": "def456"}, ()),
        ({"seed": 8}, ("seed",)),
        ({"filter": None, "by": None}, ("filter", "by")),
        ({"split": dict(reversed(SPLITS.items()))}, ("splits",)),
        ({"split": {"train": Decimal("0.80"), "val": Decimal("0.150"), "test": 5e-2}}, ()),
        ({"source": PinnedVersion("exp", 5, 99)}, ("version",)),
        ({"source": PinnedVersion("exp", 4, 98)}, ("version",)),
        ({"identity": "another"}, ("version",)),
    ],
)
def test_another_plan_is_told_by_what_differs(change, names):
    source, identity = change.pop("source", PinnedVersion("exp", 4, 99)), change.pop("identity", "uuid")
    given = {"name": "s", "filter": "id > 1", "split": SPLITS, "by": "p", "seed": 7, **change}
    assert lineage().differences(rules.make_spec(**given), source, identity) == names


def side(**splits):
    rows = [(number, split, number + 100) for split, numbers in splits.items() for number in numbers]
    schema = pa.schema([("local", pa.int64()), ("split", pa.string()), ("row_id", pa.int64())])
    return pa.table([list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []], schema=schema)


def test_rows_of_two_sets_are_compared():
    found = rules.compare(side(train=[1, 2, 3], val=[4]), side(train=[2, 4, 5], val=[3]))
    assert found.schema == rules.DIFFERENCES
    rows = {(row["row_id_before"] or row["row_id_after"]) - 100: tuple(row.values())[:3] for row in found.to_pylist()}
    assert rows == {
        1: ("removed", "train", None),
        2: ("kept", "train", "train"),
        3: ("moved", "train", "val"),
        4: ("moved", "val", "train"),
        5: ("added", None, "train"),
    }
    counts = {
        tuple(row.values())[:3]: row["rows"] for b in rules.count(iter(found.to_batches())) for row in b.to_pylist()
    }
    diff = rules.FrozenDiff("a", "b", counts)
    assert (diff.added, diff.removed, diff.moved, diff.kept) == (1, 1, 2, 1)
    assert sum(batch.num_rows for batch in rules.changed(iter(found.to_batches()))) == 4
    assert "1 added, 1 removed, 2 moved, 1 kept" in repr(diff)


def test_sets_without_rows_are_compared():
    assert rules.compare(side(), side()).num_rows == 0
    assert rules.compare(side(), side(a=[1]))["change"].to_pylist() == ["added"]


def test_a_key_that_several_rows_share_is_refused():
    with pytest.raises(Refused, match="same key"):
        rules.compare(side(train=[1, 1]), side(train=[1]))
