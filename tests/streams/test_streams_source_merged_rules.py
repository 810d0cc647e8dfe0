"""Which rows a version added that brought compactions along: tables of fragments, and stories whose rows have names."""

from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.merge_values import data_file, deletion, fragment

from lance_spark.format.row_ids import Rewrite, read_rewrites, write_rewrites
from lance_spark.streams.source_rules import Effect, MergedStep, NewRows, may_have_moved, new_rows

pytestmark = pytest.mark.pure

OLD, OLDER = fragment(0, "a", rows=4), fragment(1, "b", rows=3)
NEW = fragment(7, "n", rows=5)
MIXED, SHORT = fragment(9, "c", rows=12), fragment(9, "c", rows=11)
COMPACTED = Rewrite((OLD, OLDER, NEW), (MIXED,))
FIELDS = frozenset({0, 1})


def found(before, after, rewrites=(COMPACTED,), deleted=None, fields=FIELDS):
    gone = {(entry.files[0].path, number): rows for entry, number, rows in deleted or ()}

    def known(entry):
        if entry.deletion is None:
            return np.zeros(0, np.int64)
        rows = gone.get((entry.files[0].path, entry.deletion.id))
        return None if rows is None else np.array(rows, np.int64)

    step = MergedStep(tuple(before), tuple(after), tuple(rewrites), fields)
    return new_rows(step, {entry.id for entry in after} - {entry.id for entry in before}, known)


def ranges(*bounds):
    return NewRows(bounds, bounds)


def test_rows_behind_those_that_moved_are_new():
    assert found([OLD, OLDER], [MIXED]) == {9: ranges((7, 12))}
    assert found([OLD, OLDER], [MIXED])[9].total == 5
    assert found([OLD], [fragment(9, "c", rows=4)], [Rewrite((OLD,), (fragment(9, "c", rows=4),))]) == {9: ranges()}
    assert found([OLD], [OLD, NEW], []) == {7: ranges((0, 5))}


def test_new_rows_among_older_ones_and_deleted_ones():
    between = Rewrite((OLD, NEW, OLDER), (MIXED,))
    assert found([OLD, OLDER], [MIXED], [between]) == {9: ranges((4, 9))}
    without = replace_deletion(MIXED, 2, 5)
    told = [(MIXED, 5, [0, 6])]
    gone = replace_deletion(OLD, 1, 3)
    shorter = Rewrite((gone, NEW, OLDER), (SHORT,))
    # Rows 0 to 2 are of OLD; of NEW's five, at 3 to 7, one was deleted after the compaction.
    after = replace_deletion(SHORT, 1, 5)
    assert found([gone, OLDER], [after], [shorter], [(OLD, 3, [2]), (MIXED, 5, [6])]) == {
        9: NewRows(((3, 6), (7, 8)), ((3, 7),))
    }
    assert found([OLD, OLDER], [without], [between], told) is None  # an older row was deleted


def test_rows_that_a_fragment_loses_and_another_one_brings():
    """Both sides of a merge were compacted: the fragment of one stays with what the other one does not have."""
    here, there = fragment(5, "m", rows=7), fragment(6, "k", rows=4)
    both = [Rewrite((OLD, OLDER), (here,)), Rewrite((OLD,), (there,))]
    less, none = replace_deletion(here, 4, 1), replace_deletion(there, 1, 2)
    told = [(here, 1, [0, 1, 2, 3]), (there, 2, [2])]
    assert found([here], [less, there], both, told) == {6: ranges()}
    assert found([here], [less, none], both, told) is None  # nobody has one of them
    assert found([here], [here, there], both, told) is None  # both have them
    assert found([here], [less, there], [], told) is None  # nothing says where they are


def replace_deletion(entry, rows, number):
    return entry._replace(deletion=deletion(rows, number))


REWRITTEN = fragment(0, data_file("a", 0, -2), data_file("a2", 1), rows=4)
WITHOUT = {
    "an older fragment is nowhere": ([OLD, OLDER, fragment(3, "x")], [MIXED], [COMPACTED]),
    "nothing is said about it": ([OLD, OLDER], [MIXED], []),
    "another number of rows": ([OLD, OLDER], [SHORT], [Rewrite(COMPACTED.old, (SHORT,))]),
    "rows are there twice": ([OLD, OLDER], [OLD, MIXED], [COMPACTED]),
    "a column was written before": ([OLD, OLDER], [MIXED], [Rewrite((REWRITTEN, OLDER, NEW), (MIXED,))]),
    "a column was written after": (
        [OLD, OLDER], [fragment(9, data_file("c", 0, -2), data_file("c2", 1), rows=12)], [COMPACTED]
    ),
    "the rows of a fragment are not counted": ([OLD, OLDER], [MIXED, fragment(4, "x", rows=0)], [COMPACTED]),
    "values lie over others": ([OLD, OLDER], [MIXED._replace(has_overlays=True)], [COMPACTED]),
    "deleted rows are not known": (
        [OLD, OLDER], [MIXED], [Rewrite((OLD, replace_deletion(NEW, 1, 8), OLDER), (SHORT,))]
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WITHOUT)
def test_what_is_not_certain(case):
    assert found(*WITHOUT[case]) is None


def test_a_column_that_the_stream_does_not_read_may_change():
    before, after, rewrites = WITHOUT["a column was written before"]
    assert found(before, after, rewrites, fields=frozenset({0})) == {9: ranges((7, 12))}


def test_a_deleted_row_that_is_back_is_none_that_was_appended():
    gone = replace_deletion(OLD, 1, 3)
    assert found([gone, OLDER], [MIXED], deleted=[(OLD, 3, [2])]) is None


@pytest.mark.parametrize(
    ("effect", "expected"),
    [
        (Effect(added=1, removed=1), True),
        (Effect(added=1), False),
        (Effect(removed=1), False),
        (Effect(added=1, deleted=1), True),
        (Effect(deleted=1), False),
        (Effect(added=1, removed=1, deleted=1), True),
        (Effect(added=1, deleted=1, rewritten=1), False),
        (Effect(added=1, removed=1, rewritten=1), False),
    ],
)
def test_only_some_commits_may_have_moved_rows(effect, expected):
    assert may_have_moved(effect) is expected


@dataclass(frozen=True)
class Part:
    """A fragment, the names of its rows, and which of their places are deleted."""

    entry: object
    rows: tuple
    gone: frozenset = frozenset()

    @property
    def live(self):
        return [row for at, row in enumerate(self.rows) if at not in self.gone]


class Story:
    """Fragments that compactions, deletions and appends change; what is deleted is known by its number."""

    def __init__(self):
        self.names, self.numbers, self.known, self.rewrites = count(), count(1), {}, []
        self.parts = []

    def add(self, rows):
        number = next(self.numbers)
        self.parts.append(Part(fragment(number, f"p{number}", rows=len(rows)), tuple(rows)))

    def delete(self, rows):
        for at, part in enumerate(self.parts):
            gone = part.gone | {place for place, row in enumerate(part.rows) if row in rows}
            if gone == part.gone:
                continue
            number = next(self.numbers)
            entry = replace_deletion(part.entry, len(gone), number)
            self.known[entry.files[0].path, number] = sorted(gone)
            self.parts[at] = replace(part, entry=entry, gone=gone)
        self.parts = [part for part in self.parts if part.live]

    def compact(self, start, length):
        chosen = self.parts[start : start + length]
        if chosen:
            self.parts = [part for part in self.parts if part not in chosen]
            self.add([row for part in chosen for row in part.live])
            self.rewrites.append(Rewrite(tuple(part.entry for part in chosen), (self.parts[-1].entry,)))

    def deleted(self, entry):
        rows = [] if entry.deletion is None else self.known[entry.files[0].path, entry.deletion.id]
        return np.array(rows, np.int64)


SMALL = st.integers(0, 4)
ACTS = st.lists(
    st.tuples(st.sampled_from(["add", "delete", "delete new", "compact", "compact"]), SMALL, SMALL), max_size=8
)


@given(ACTS, ACTS)
@settings(max_examples=max(60, settings().max_examples))
def test_any_story_of_a_branch(earlier, later):
    story = Story()
    story.add([next(story.names) for _ in range(3)])

    def play(acts, first):
        for kind, one, other in acts:
            live = [row for part in story.parts for row in part.live if kind != "delete new" or row >= first]
            if kind == "add":
                story.add([next(story.names) for _ in range(1 + one)])
            elif kind == "compact":
                story.compact(one, 1 + other)
            else:
                story.delete(live[one : one + 1 + other // 3])

    play(earlier, 0)
    before = list(story.parts)
    old = {row for part in before for row in part.live}
    story.rewrites = [*read_rewrites(write_rewrites(story.rewrites))] if story.rewrites else []
    play(later, next(story.names))
    after = {part.entry.id: part for part in story.parts}
    step = MergedStep(
        tuple(part.entry for part in before), tuple(part.entry for part in story.parts), tuple(story.rewrites), FIELDS
    )
    added = after.keys() - {part.entry.id for part in before}
    chosen = new_rows(step, added, story.deleted)
    now = {row for part in story.parts for row in part.live}
    assert (chosen is None) == (not old <= now)
    if chosen is not None:
        for number, rows in chosen.items():
            part = after[number]
            told = [part.rows[at] for first, end in rows.offsets for at in range(first, end)]
            assert told == [part.live[at] for first, end in rows.ranks for at in range(first, end)]
            assert told == [row for row in part.live if row not in old]
