"""What indexes cover, and what is built: decisions over plain values."""

import pytest

from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import AlreadyExists, InvalidOption, NotFound
from lance_spark.format.metadata import Segment
from lance_spark.indexes import index_rules
from lance_spark.indexes import index_rules as rules

pytestmark = pytest.mark.pure

ROWS = {0: 100, 1: 100, 2: 50, 3: 10, 4: 0}


def segment(uuid, *fragments, name="id_idx", column="id", type="BTree", inherited=False):
    return Segment(name, type, [column], uuid, frozenset(fragments), 10, None, None, inherited)


def test_coverage_counts_rows_that_are_there():
    found = rules.info([segment("a", 0, 9), segment("b", 2, inherited=True)], ROWS)
    assert (found.rows_covered, found.rows_uncovered, found.segments, found.inherited_segments) == (150, 110, 2, 1)
    assert str(found) == "id_idx: btree on id, 150 of 260 rows (57.6%), 2 segments, 20 B"
    assert rules.info([segment("a")], {}).percent == 100.0
    assert rules.info([segment("a", 0)], {0: 99_999, 1: 1}).percent < 100
    assert "(99.9%)" in str(rules.info([segment("a", 0)], {0: 99_999, 1: 1}))


def test_indexes_are_found_by_name_and_by_column():
    of_text = [segment(uuid, 0, name=name, column="s") for uuid, name in (("b", "t1"), ("c", "t2"))]
    indexes = rules.by_name([segment("a", 0), segment("x", 0, name="__mem"), *of_text])
    assert [*indexes] == ["id_idx", "t1", "t2"]
    assert rules.find_index(indexes, "id_idx") == rules.find_index(indexes, "id") == "id_idx"
    with pytest.raises(InvalidOption, match="t1, t2"):
        rules.find_index(indexes, "s")
    for unknown in ("nope", "__mem"):
        with pytest.raises(NotFound):
            rules.find_index(indexes, unknown)


@pytest.mark.parametrize(
    ("there", "replace", "plan"),
    [
        ([], False, rules.BuildPlan(frozenset({0, 1, 2, 3}))),
        ([segment("a", 0)], True, rules.BuildPlan(frozenset({0, 1, 2, 3}), frozenset("a"))),
        ([segment("a", 0, 1, inherited=True)], False, rules.BuildPlan(frozenset({2, 3}))),
        ([segment("a", 0, 1, inherited=True), segment("b", 2)], False, rules.BuildPlan(frozenset({3}))),
        ([segment("a", 0, 1, 2, 3, inherited=True)], False, rules.BuildPlan(frozenset())),
        ([segment("a", 0, inherited=True)], True, rules.BuildPlan(frozenset({0, 1, 2, 3}), frozenset("a"))),
        ([segment("a", 0)], False, AlreadyExists),
        ([segment("a", 0, type="Bitmap", inherited=True)], False, AlreadyExists),
        ([segment("a", 0, column="other", inherited=True)], False, AlreadyExists),
    ],
)
def test_what_a_new_index_needs(there, replace, plan):
    request = rules.IndexRequest("id", replace=replace)
    if plan is AlreadyExists:
        with pytest.raises(AlreadyExists, match="'id_idx'"):
            rules.plan_create(request, "btree", there, ROWS)
    else:
        assert rules.plan_create(request, "btree", there, ROWS) == plan


@pytest.mark.parametrize(
    ("there", "built", "removed"),
    [
        ([segment("a", 0, 1, 2, 3)], (), ""),
        ([segment("a", 0, 1, 2, 3), segment("b", 7, 4)], (), "b"),
        ([segment("a", 0, 1, 2)], (3,), ""),
        ([segment("a", 0, 1), segment("b", 2)], (3,), ""),
        ([segment("a", 0, 1), segment("b", 3)], (2, 3), "b"),
        ([segment("a", 1), segment("b", 2), segment("c", 3)], (0, 1, 2, 3), "abc"),
        ([segment("a", 1, inherited=True), segment("b", 2), segment("c", 3, inherited=True)], (0, 2), "b"),
        ([segment("a", 9), segment("b", 0, 1)], (2, 3), "a"),
    ],
)
def test_what_an_index_lacks_is_built_with_its_smaller_segments(there, built, removed):
    assert rules.plan_optimize(there, ROWS) == rules.BuildPlan(frozenset(built), frozenset(removed))


def test_segments_stay_few_and_rows_are_built_a_few_times_only():
    rows, there, work = {}, [], 0
    for number in range(200):
        rows[number] = 10
        plan = rules.plan_optimize(there, rows)
        work += len(plan.fragments)
        kept = [each for each in there if each.uuid not in plan.removed]
        there = [*kept, segment(f"s{number}", *plan.fragments)]
        assert len(there) <= 9
        assert index_rules.covered(there) == frozenset(rows)
    assert work <= 200 * 9


@pytest.mark.parametrize(("tasks", "groups"), [(1, [[0, 1, 2, 3]]), (2, [[0], [1, 2, 3]]), (9, [[0], [1], [2], [3]])])
def test_tasks_get_neighbours(tasks, groups):
    assert rules.task_groups([3, 1, 0, 2], ROWS, tasks) == groups


@pytest.mark.parametrize(
    ("fragments", "rows", "side_by_side", "segments", "count"),
    [
        (10, 1_000, 8, None, 1),
        (10, 1_000, 8, 3, 3),
        (2, 1_000, 8, 3, 2),
        (10, 400_000, 8, None, 4),
        (100, 10_000_000, 8, None, 8),
        (100, 10_000_000, 8, 1, 8),
    ],
)
def test_how_many_tasks(fragments, rows, side_by_side, segments, count):
    each = dict.fromkeys(range(fragments), rows // fragments)
    assert rules.task_count(each, each, side_by_side, segments) == count


@pytest.mark.parametrize(
    ("built", "segments", "sizes"),
    [(3, None, [1, 1, 1]), (20, None, [2, 3, 2, 3, 2, 3, 2, 3]), (4, 1, [4]), (2, 5, [1, 1])],
)
def test_segments_are_merged_in_groups_and_in_their_order(built, segments, sizes):
    groups = rules.merge_groups(built, segments)
    assert [len(group) for group in groups] == sizes
    assert [place for group in groups for place in group] == list(range(built))


def test_results_in_one_line():
    at = PinnedVersion("exp", 7)
    built = rules.IndexResult(at, "id_idx", "btree", 1_000, 2, 0, 2048, "spark")
    assert str(built) == "exp@7: id_idx (btree), 1,000 rows in 2 segments, 2.0 KiB, built on spark"
    assert str(rules.IndexResult(at, "id_idx", "btree")) == "exp@7: id_idx (btree), nothing to index"
    assert str(rules.IndexResult(at, "i", "btree", replaced=1)) == "exp@7: i (btree), 1 segment dropped"
    assert str(rules.IndexResult(at, "i", "ivf_pq", left="too few rows")).endswith("nothing was built; too few rows")
