"""Which commits in between a change of rows can be combined with: a row for each thing that may have happened."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.format.contents import DataFile, DeletionFile, Field, Fragment
from lance_spark.format.row_ids import Rewrite
from lance_spark.rows.action_rules import Fate, column_conflict, fate_of, follow, new_fragments

pytestmark = pytest.mark.pure

LIVE = frozenset({0, 1})


def file(path, *fields):
    return DataFile(path, fields, 100, None)


def deletion(rows, number=1):
    return DeletionFile(0, 3, number, rows, None)


OLD = Fragment(7, (file("a", 0, 1),), None, 10, b"ids", False)

FATES = [
    ("nothing happened", OLD, False, Fate.SAME, Fate.SAME),
    ("rows were deleted", OLD._replace(deletion=deletion(2)), False, Fate.DELETIONS, Fate.DELETIONS),
    ("all rows were deleted", None, False, Fate.GONE, Fate.GONE),
    ("rows were written anew into another fragment", OLD._replace(deletion=deletion(1)), False, Fate.DELETIONS, None),
    ("it was compacted", None, True, Fate.MOVED, Fate.MOVED),
    (
        "a column was rewritten",
        OLD._replace(files=(file("a", 0, -2), file("b", 1))),
        False,
        Fate.REWRITTEN,
        Fate.REWRITTEN,
    ),
    ("a column was added", OLD._replace(files=(file("a", 0, 1), file("b", 2))), False, Fate.SAME, Fate.EXTENDED),
    (
        "a column was added, and rows deleted",
        OLD._replace(files=(file("a", 0, 1), file("b", 2)), deletion=deletion(1)),
        False,
        Fate.DELETIONS,
        Fate.EXTENDED,
    ),
    ("it has other row ids", OLD._replace(row_ids=b"other"), False, Fate.REWRITTEN, Fate.REWRITTEN),
    ("it got overlays", OLD._replace(has_overlays=True), False, Fate.REWRITTEN, Fate.REWRITTEN),
    ("it has another number of rows", OLD._replace(physical_rows=9), False, Fate.REWRITTEN, Fate.REWRITTEN),
    ("its files are elsewhere now", OLD._replace(files=(file("a", 0, 1)._replace(base_id=3),)), False, Fate.SAME, None),
]


@pytest.mark.parametrize(("after", "compacted", "deleting", "updating"), [case[1:] for case in FATES])
def test_what_became_of_a_fragment(after, compacted, deleting, updating):
    assert fate_of(OLD, after, LIVE, compacted, updates=False) is deleting
    assert fate_of(OLD, after, LIVE, compacted, updates=True) is (updating or deleting)


def test_a_second_deletion_is_seen():
    before, after = OLD._replace(deletion=deletion(1)), OLD._replace(deletion=deletion(2, number=9))
    assert fate_of(before, after, LIVE, False, updates=True) is Fate.DELETIONS
    assert fate_of(before, before, LIVE, False, updates=True) is Fate.SAME


def test_which_fates_are_conflicts():
    assert {fate for fate in Fate if fate.is_conflict} == {Fate.GONE, Fate.REWRITTEN, Fate.EXTENDED}


def field(number, name, kind="int64", nullable=True, metadata=()):
    return Field(number, -1, name, kind, nullable, metadata)


BEFORE = (field(0, "id"), field(1, "x"))


@pytest.mark.parametrize(
    ("after", "conflict", "only_for_writers"),
    [
        (BEFORE, None, False),
        (BEFORE[::-1], None, False),
        ((*BEFORE, field(2, "y")), None, False),
        ((*BEFORE, field(2, "y", nullable=False)), "'y' was added", True),
        (BEFORE[:1], "'x' was dropped", False),
        ((BEFORE[0], field(2, "x")), "'x' was dropped or replaced", False),
        ((BEFORE[0], field(1, "z")), "'x' was altered", False),
        ((BEFORE[0], field(1, "x", "double")), "'x' was altered", False),
        ((BEFORE[0], field(1, "x", nullable=False)), "'x' was altered", False),
        ((BEFORE[0], field(1, "x", metadata=(("comment", b"new"),))), None, False),
    ],
)
def test_columns_that_changed(after, conflict, only_for_writers):
    for writes in (True, False):
        found = column_conflict(BEFORE, after, writes)
        if conflict is None or (only_for_writers and not writes):
            assert found is None
        else:
            assert conflict in found


def test_new_fragments_are_those_with_rows_of_their_own():
    after = {
        1: OLD._replace(id=1),  # deletions changed
        2: OLD._replace(id=2, files=(file("new", 0, 1),)),
        3: OLD._replace(id=3, files=(file("compacted", 0, 1),)),
    }
    assert new_fragments({1}, after, {"compacted"}) == (2,)


NOTHING = np.zeros(0, np.int64)


def part(number, rows):
    return OLD._replace(id=number, files=(file(f"{number}.lance", 0, 1),), physical_rows=rows, row_ids=b"")


@given(st.data())
def test_rows_are_followed_through_a_compaction(data):
    """Against the plain way: a list of rows, written one after the other."""
    sizes = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=4))
    live, old, offsets, expected, gone = [], [], {}, set(), {}
    for key, size in enumerate(sizes):
        deleted = data.draw(st.sets(st.integers(0, size - 1)))
        kept = [offset for offset in range(size) if offset not in deleted]
        ours = data.draw(st.sets(st.sampled_from(kept))) if kept else set()
        old.append(part(key, size))
        gone[key] = np.array(sorted(deleted), np.int64)
        if ours:
            offsets[key] = np.array(sorted(ours), np.int64)
        expected |= {(key, offset) for offset in ours}
        live += [(key, offset) for offset in kept]
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(live) - 1))))) if len(live) > 1 else []
    bounds = [0, *cuts, len(live)]
    new = [part(100 + at, end - start) for at, (start, end) in enumerate(pairwise(bounds))]
    found = follow(Rewrite(tuple(old), tuple(new)), offsets, lambda entry: gone.get(entry.id, NOTHING))
    starts = {entry.id: start for entry, start in zip(new, bounds, strict=False)}
    assert {live[starts[key] + offset] for key, own in found.items() for offset in own.tolist()} == expected
    assert all(len(own) for own in found.values())


def test_rows_are_not_followed_where_numbers_do_not_agree():
    def followed(rows):
        return follow(
            Rewrite((part(1, 10),), (part(9, rows),)),
            {1: np.array([5])},
            lambda entry: np.array([3]) if entry.id == 1 else NOTHING,
        )

    assert followed(10) is None
    assert {key: own.tolist() for key, own in followed(9).items()} == {9: [4]}
