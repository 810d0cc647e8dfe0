"""Compaction: what may be touched, how tasks become commits, and how plan and result read."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import InvalidOption, Refused
from lance_spark.format.contents import DataFile, DeletionFile, Fragment, IndexRecord
from lance_spark.format.versions import Root
from lance_spark.optimize import compaction_rules as rules

pytestmark = pytest.mark.pure

PIN = PinnedVersion("exp", 9)
KIND = "/lance.table.BTreeIndexDetails"


def fragment(key, size=1024, bases=(None,), rows=100, deleted=0):
    files = tuple(DataFile(f"{key}-{at}.lance", (at,), size, base) for at, base in enumerate(bases))
    deletion = DeletionFile(0, 3, 1, deleted, None) if deleted else None
    return Fragment(key, files, deletion, rows, b"", False)


def task(*keys, size=1024):
    return rules.RewriteTask(tuple(fragment(key, size) for key in keys), "{}")


def index(base_id, fragments, name="i"):
    covers = None if fragments is None else frozenset(fragments)
    return IndexRecord(name, f"uuid-{name}", (0,), 1, covers, (KIND, b""), 0, None, base_id)


@pytest.mark.parametrize(
    "wrong",
    [
        {"target_rows": 0},
        {"target_rows": "9"},
        {"target_rows": True},
        {"target_rows": 1.5},
        {"partial_progress": 0},
        {"partial_progress": -1},
        {"where": " "},
    ],
)
def test_options_that_cannot_be(wrong):
    with pytest.raises(InvalidOption, match=next(iter(wrong))):
        rules.OptimizeOptions(**wrong)


@pytest.mark.parametrize(
    ("sizes", "most", "expected"),
    [
        ([], 10, []),
        ([5], 10, [[5]]),
        ([1, 1, 1, 1], 10, [[1], [1], [1], [1]]),
        ([1, 1, 1, 1], 2, [[1, 1], [1, 1]]),
        ([1, 1, 1, 1], 1, [[1, 1, 1, 1]]),
        ([9, 1, 1, 1], 2, [[9], [1, 1, 1]]),
        ([1, 1, 1, 9], 2, [[1, 1, 1], [9]]),
        ([0, 0, 0], 2, [[0, 0], [0]]),
        ([1, 1, 1, 1, 1], 3, [[1, 1], [1, 1], [1]]),
    ],
)
def test_tasks_become_commits(sizes, most, expected):
    groups = rules.grouped([task(key, size=size) for key, size in enumerate(sizes)], most)
    assert [[each.bytes for each in group] for group in groups] == expected


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 12))
def test_every_task_is_in_one_commit_and_none_is_empty(sizes, most):
    tasks = [task(key, size=size) for key, size in enumerate(sizes)]
    groups = rules.grouped(tasks, most)
    assert [each for group in groups for each in group] == tasks
    assert len(groups) == min(most, len(tasks))
    assert all(groups)


class Version:
    """As much of a snapshot as the decision looks at."""

    def __init__(self, branch, bases, *fragments):
        self.pin = PinnedVersion(branch, 1)
        self.bases = {key: root if isinstance(root, Root) else Root(root) for key, root in bases.items()}
        self.contents = self
        self.fragments = lambda: iter(fragments)


@pytest.mark.parametrize(
    ("branch", "bases", "expected"),
    [
        (None, {None: "/d", 0: "/d/tree/exp"}, set()),
        (None, {None: "/d", 0: "/d2"}, {1, 2}),
        (None, {None: "/d", 0: Root("/d/apart", False)}, {1, 2}),
        ("exp", {None: "/d/tree/exp", 0: "/d"}, {1, 2}),
        ("exp", {None: "/d/tree/exp", 0: "/d/tree/other"}, {1, 2}),
    ],
)
def test_the_fragments_that_a_branch_inherited_are_known(branch, bases, expected):
    own, inherited, mixed = fragment(0), fragment(1, bases=(0,)), fragment(2, bases=(None, 0))
    assert rules.inherited_fragments(Version(branch, bases, own, inherited, mixed), "/d") == expected


def test_inherited_indexes_that_know_the_fragments_are_rehomed():
    near, far, own = index(0, {1, 2}, "near"), index(0, {7}, "far"), index(None, {1, 2}, "own")
    assert rules.indexes_to_rehome([near, far, own], {2, 3}) == (near,)
    assert rules.indexes_to_rehome([near, far, own], set()) == ()


@pytest.mark.parametrize("unclear", [index(0, None), index(0, {1}, "__lance_frag_reuse")])
def test_an_index_of_which_it_is_not_certain_what_it_covers_is_refused(unclear):
    with pytest.raises(Refused, match=unclear.name):
        rules.indexes_to_rehome([unclear], {5})
    assert rules.indexes_to_rehome([unclear._replace(base_id=None)], {5}) == ()
    assert rules.indexes_to_rehome([unclear], set()) == ()


@pytest.mark.parametrize("details", [None, ("/lance.table.NewIndexDetails", b"")])
def test_an_index_of_an_unknown_kind_is_refused_only_where_it_would_be_rehomed(details):
    new = index(0, {1}, "new")._replace(details=details)
    with pytest.raises(Refused, match="'new' is of a kind"):
        rules.indexes_to_rehome([new], {1, 2})
    assert rules.indexes_to_rehome([new], {2}) == ()


@pytest.mark.parametrize(
    ("now", "same"),
    [
        ([fragment(1), fragment(2), fragment(3, deleted=2)], True),
        ([fragment(2), fragment(1)], True),
        ([fragment(1)], False),
        ([fragment(1), fragment(2, deleted=1)], False),
        ([fragment(1), fragment(2, size=9)], False),
        ([fragment(1), fragment(2)._replace(row_ids=b"x")], False),
        ([fragment(1), fragment(2, bases=(None, None))], False),
    ],
)
def test_a_task_stands_while_its_fragments_are_as_they_were(now, same):
    assert rules.same_sources(task(1, 2), {each.id: each for each in now}) is same


@pytest.mark.parametrize(
    ("files", "there"), [(("a", "b"), True), (("a", "c"), False), ((), False)], ids=["all", "some", "nothing written"]
)
def test_a_task_has_landed_if_its_files_are_there(files, there):
    assert rules.landed(rules.RewrittenTask(task(1), "{}", files, len(files), 9), {"a", "b", "x"}) is there


def test_how_a_plan_reads():
    plan = rules.OptimizePlan(PIN, ((task(0, 1), task(2, 3)), (task(5, 6),)), 9, 2, ("emb_idx",))
    assert (plan.sources, plan.rows, plan.bytes) == (6, 600, 6144)
    assert repr(plan) == "<OptimizePlan exp@9: 6 of 9 fragments in 3 tasks and 2 commits; 600 rows, 6.0 KiB>"
    text = str(plan)
    assert "2 inherited fragments left alone" in text
    assert "emb_idx" in text
    assert "5, 6" in text
    many = rules.OptimizePlan(PIN, (tuple(task(key) for key in range(25)),), 25)
    assert "5 more tasks" in str(many)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "exp@9: nothing to rewrite"),
        ({"dry_run": True}, "exp@9: would rewrite 2 of 4 fragments in 1 task and 1 commit; 200 rows, 2.0 KiB"),
        (
            {"fragments_removed": 12, "fragments_added": 3, "rows": 1200, "bytes": 3482, "commits": 2},
            "exp@9: 12 fragments became 3 in 2 commits; 1,200 rows, 3.4 KiB",
        ),
        ({"conflicts": ((4, 5),)}, "exp@9: nothing was rewritten; 1 task in conflict"),
    ],
)
def test_how_a_result_reads(given, text):
    result = replace(rules.OptimizeResult(PIN, rules.OptimizePlan(PIN, ((task(0, 1),),), 4)), **given)
    assert str(result) == text
    record = result.as_record()
    assert (record["branch"], record["version"], record["fragments_planned"]) == ("exp", 9, 2)
    assert record["conflicts"] == ["4, 5" for _ in result.conflicts]
