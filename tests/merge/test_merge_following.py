"""Contests: random stories of two sides with compactions, settled, against rows that know who they are."""

from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.merge_values import data_file, deletion, fragment, sides, steps, version

from lance_spark.format.operations import Step
from lance_spark.format.row_ids import Rewrite, read_rewrites, taken_over, write_rewrites
from lance_spark.format.versions import Deletions
from lance_spark.merge.change_rules import OTHER_ROWS, Kinship
from lance_spark.merge.conflict_rules import compare
from lance_spark.merge.following_rules import COLUMNS_COMPACTED, UNCERTAIN, settle

pytestmark = pytest.mark.pure


@dataclass
class Part:
    """A fragment, the names of its rows, and which of these are deleted."""

    path: str
    rows: list
    gone: set = field(default_factory=set)
    number: int = 0

    @property
    def live(self):
        return [row for at, row in enumerate(self.rows) if at not in self.gone]


class Story:
    """One side: what it has, and the versions that led there."""

    def __init__(self, name, parts, known):
        self.name, self.parts, self.steps = name, dict(parts), []
        self.known, self.files = known, count(1)

    def as_fragment(self, key, part):
        if not part.gone:
            return fragment(key, part.path, rows=len(part.rows))
        self.known[part.path, part.number] = sorted(part.gone)
        return fragment(key, part.path, deleted=deletion(len(part.gone), part.number), rows=len(part.rows))

    def fragments(self):
        return [self.as_fragment(key, part) for key, part in sorted(self.parts.items())]

    def add(self, rows):
        number = next(self.files)
        self.parts[100 * number + 10000 * "bot".index(self.name)] = Part(f"{self.name}{number}", rows)

    def delete(self, chosen):
        for key, part in list(self.parts.items()):
            hit = {at for at, row in enumerate(part.rows) if row in chosen} - part.gone
            if hit:
                gone = part.gone | hit
                number = 1000 * next(self.files) + "bot".index(self.name)
                self.parts[key] = Part(part.path, part.rows, gone, number)
                if len(gone) == len(part.rows):
                    del self.parts[key]
        self.steps.append("Delete")

    def compact(self, keys):
        keys = [key for key in sorted(self.parts) if key in keys]
        if not keys:
            return
        old = tuple(self.as_fragment(key, self.parts[key]) for key in keys)
        rows = [row for key in keys for row in self.parts.pop(key).live]
        self.add(rows)
        key = max(self.parts)
        self.steps.append(Step(2, "Rewrite", rewrites=(Rewrite(old, (self.as_fragment(key, self.parts[key]),)),)))

    def act(self, data, names):
        kind = data.draw(st.sampled_from(["delete", "compact", "compact", "append"]))
        if kind == "append":
            self.add([next(names) for _ in range(data.draw(st.integers(1, 3)))])
            self.steps.append("Append")
        elif kind == "compact":
            self.compact(data.draw(st.sets(st.sampled_from(sorted(self.parts)))) if self.parts else ())
        else:
            live = sorted(row for part in self.parts.values() for row in part.live)
            self.delete(data.draw(st.sets(st.sampled_from(live), max_size=4)) if live else ())

    @property
    def live(self):
        return {row for part in self.parts.values() for row in part.live}


@settings(max_examples=max(100, settings().max_examples))
@given(st.data())
def test_rows_end_where_they_belong(data):
    names, known = count(), {}
    base = Story("b", {}, known)
    for _ in range(data.draw(st.integers(1, 4))):
        base.add([next(names) for _ in range(data.draw(st.integers(1, 4)))])
    before = sorted(base.live)
    base.delete(data.draw(st.sets(st.sampled_from(before), max_size=2)))
    ours, theirs = Story("o", base.parts, known), Story("t", base.parts, known)
    for side in (ours, theirs):
        for _ in range(data.draw(st.integers(0, 4))):
            side.act(data, names)
    compared = sides(
        version(base.fragments()),
        version(ours.fragments(), 2),
        version(theirs.fragments(), 2, "exp"),
        steps(None, *ours.steps),
        steps("exp", *theirs.steps),
    )
    settled = settle(compared, compare(compared), lambda part: rows_gone(known, part))
    lost_ours, lost_theirs = base.live - ours.live, base.live - theirs.live
    change = settled.change
    if lost_ours & lost_theirs:
        # Where no compaction is involved, the deletion files are compared later.
        assert settled.clashes or change.conflicts or any(each.both_deleted for each in change.replaced)
        return
    assert not settled.clashes
    assert not change.conflicts
    result = [row for part in result_of(change, ours, theirs, known) for row in part]
    assert sorted(result) == sorted((ours.live | theirs.live) - lost_ours - lost_theirs)


def rows_gone(known, part):
    return np.array([] if part.deletion is None else known[part.files[0].path, part.deletion.id], np.int64)


def result_of(change, ours, theirs, known):
    """The rows of ours with the change carried out, as a commit does it."""
    away = {here.id for _, here in change.removed}
    replaced = {each.ours.id: each for each in change.replaced}
    for key, part in ours.parts.items():
        gone = set(part.gone) | set(change.followed.deletions.get(key, ()))
        if key in replaced:
            there = replaced[key].theirs
            gone |= set(rows_gone(known, there).tolist())
        if key not in away:
            yield [row for at, row in enumerate(part.rows) if at not in gone]
    by_path = {part.path: part for part in theirs.parts.values()}
    for new in change.added:
        part = by_path[new.files[0].path]
        gone = change.followed.masks.get(new.id, part.gone)
        yield [row for at, row in enumerate(part.rows) if at not in gone]


FIRST, SECOND = fragment(0), fragment(1, "a.lance")
OURS, THEIRS = fragment(3, "o.lance", rows=20), fragment(4, "t.lance", rows=20)


def moved(*old, into, deletions=None):
    return Step(2, "Rewrite", rewrites=(Rewrite(old, (into,), deletions or {}),))


def settled(theirs, ours, their_steps, our_steps, gone=None, base=(FIRST, SECOND), **more):
    compared = sides(
        version(base), version(ours, 2), version(theirs, 2, "exp"), steps(None, *our_steps), steps("exp", *their_steps)
    )
    compared = replace(compared, **more)
    nothing = np.array([], np.int64)
    gone = gone or {}
    change = compare(compared)
    return settle(
        compared,
        change,
        lambda part: nothing if part.deletion is None else gone.get(part.deletion.id),
    )


def reasons(found):
    return {clash.reason for clash in found.clashes} | {conflict.reason for conflict in found.change.conflicts}


def test_a_compaction_of_theirs_adds_nothing_where_ours_compacted_too():
    both = moved(FIRST, SECOND, into=THEIRS), moved(FIRST, SECOND, into=OURS)
    found = settled([THEIRS], [OURS], [both[0]], [both[1]])
    assert not found.change
    assert not reasons(found)


def test_a_fragment_with_old_and_new_rows_comes_without_the_old_ones():
    new = fragment(2, "new.lance")
    into = THEIRS._replace(physical_rows=30)
    found = settled([into], [OURS], [moved(FIRST, SECOND, new, into=into)], [moved(FIRST, SECOND, into=OURS)])
    assert [each.files[0].path for each in found.change.added] == ["t.lance"]
    assert found.change.followed.masks == {4: tuple(range(20))}
    assert found.change.added[0].rows == 10


def test_numbers_of_rows_that_do_not_agree_are_a_conflict():
    wrong = OURS._replace(physical_rows=19)
    found = settled(
        [FIRST._replace(deletion=deletion(1)), SECOND], [wrong], ["Delete"], [moved(FIRST, SECOND, into=wrong)]
    )
    assert all(reason.startswith(UNCERTAIN) for reason in reasons(found))
    assert reasons(found)


def test_two_copies_of_a_row_in_one_version_are_a_conflict():
    again = fragment(5, "again.lance", rows=20)
    story = [moved(FIRST, SECOND, into=OURS), moved(FIRST, SECOND, into=again)]
    found = settled(
        [FIRST._replace(deletion=deletion(1)), SECOND], [OURS, again], ["Delete"], story, {1: np.array([3])}
    )
    assert all(reason.startswith(UNCERTAIN) for reason in reasons(found))
    assert reasons(found)


def test_without_the_deletion_file_of_a_compaction_its_rows_are_not_followed():
    """Then they look as if ours had updated them."""
    old = FIRST._replace(deletion=deletion(1, 7))
    into = OURS._replace(physical_rows=19)
    story = [moved(old, SECOND, into=into)]
    theirs = [FIRST, SECOND._replace(deletion=deletion(1, 2))]
    gone = {2: np.array([5])}
    known = settled(theirs, [into], ["Delete"], story, {**gone, 7: np.array([0])})
    assert known.change.followed.deletions == {3: (14,)}
    assert not reasons(known)
    assert reasons(settled(theirs, [into], ["Delete"], story, gone)) == {
        "rows that ours rewrote or removed were changed"
    }


@pytest.mark.parametrize("who", ["ours", "theirs"])
def test_columns_that_were_written_before_or_after_a_compaction(who):
    """Of ours they are in the result. Of theirs they cannot be."""
    wider = fragment(0, "f0.lance", data_file("w.lance", 2))
    fields = {"fields": (*version([]).contents.fields, version([]).contents.fields[1]._replace(id=2, name="w"))}
    written = moved(wider, SECOND, into=OURS)
    changed = [FIRST, SECOND._replace(deletion=deletion(1))]
    if who == "ours":
        compared = sides(
            version([FIRST, SECOND]),
            version([OURS], 3, **fields),
            version(changed, 2, "exp"),
            steps(None, "Merge", written),
            steps("exp", "Delete"),
        )
    else:
        compared = sides(
            version([FIRST, SECOND]),
            version(changed, 2),
            version([OURS], 3, "exp", **fields),
            steps(None, "Delete"),
            steps("exp", "Merge", written),
        )
    gone = {1: np.array([3])}
    found = settle(compared, compare(compared), lambda part: gone[1] if part.deletion else np.array([], np.int64))
    assert (COLUMNS_COMPACTED in reasons(found)) == (who == "theirs")
    if who == "ours":
        assert found.change.followed.deletions == {3: (13,)}


def test_rows_that_a_revert_brings_back_come_in_their_old_fragment():
    """The base has them deleted; ours was compacted since, so that its files do not have them."""
    base = [FIRST._replace(deletion=deletion(2)), SECOND]
    into = OURS._replace(physical_rows=18)
    found = settled([FIRST, SECOND], [into], ["Delete"], [moved(*base, into=into)], {1: np.array([3, 4])}, base)
    assert not reasons(found)
    assert [each.files[0].path for each in found.change.added] == ["f0.lance"]
    assert found.change.followed.masks == {0: (0, 1, 2, 5, 6, 7, 8, 9)}
    assert not found.change.followed.deletions


def test_rows_are_followed_back_through_a_compaction_before_the_base():
    """The base has them compacted, and ours, which is another branch, never compacted them."""
    after = THEIRS._replace(deletion=deletion(1))
    compacted = Step(1, "Rewrite", rewrites=(Rewrite((FIRST, SECOND), (THEIRS,)),))
    sides_of_a_pick = [after], [FIRST, SECOND], ["Delete"], ["Append"], {1: np.array([12])}, [THEIRS]
    found = settled(*sides_of_a_pick, kinship=Kinship(has_base=False, earlier=steps("exp", compacted)))
    assert not reasons(found)
    assert found.change.followed.deletions == {1: (2,)}
    assert reasons(settled(*sides_of_a_pick))


def test_rows_that_both_deleted_are_named():
    found = settled(
        [FIRST, SECOND._replace(deletion=deletion(2, 2))],
        [OURS._replace(deletion=deletion(2, 3))],
        ["Delete"],
        [moved(FIRST, SECOND, into=OURS), "Delete"],
        {2: np.array([1, 2]), 3: np.array([3, 12])},
    )
    assert [(clash.reason, clash.offsets) for clash in found.clashes] == [(OTHER_ROWS.reason, (2,))]


def test_what_a_version_took_over_is_read_back():
    places = {("f0.lance", 1, 1, 2): Deletions("s3://b/t", "_deletions/0-1-1.arrow")}
    rewrite = Rewrite((FIRST._replace(deletion=deletion(2)), SECOND), (OURS._replace(physical_rows=18),), places)
    (found,) = read_rewrites(write_rewrites([rewrite]))
    assert found.paths == rewrite.paths
    assert found.deletions == places
    assert [part.rows for part in (*found.old, *found.new)] == [8, 10, 18]
    assert read_rewrites({"lance_spark.rewrites": "nonsense"}) == ()
    assert write_rewrites([]) == {}
    other = Rewrite((fragment(8),), (fragment(9),))
    assert taken_over([rewrite, other, rewrite], version([SECOND]).contents) == (rewrite,)
