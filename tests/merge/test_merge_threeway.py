"""The conflict matrix, cell by cell, and what goes for the table as a whole: versions as plain values."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.merge_values import (
    FIELDS,
    HERE,
    ID,
    VALUE,
    data_file,
    deletion,
    fragment,
    sides,
    steps,
    version,
)

from lance_spark.format.contents import Field
from lance_spark.format.operations import Step
from lance_spark.format.row_ids import Rewrite
from lance_spark.format.versions import Root
from lance_spark.merge.change_rules import COLUMNS, FRAGMENTS, ColumnChanges, Decision, Kinship, MergeChange
from lance_spark.merge.conflict_rules import TAKEN_BEFORE, compare
from lance_spark.merge.following_rules import settle

pytestmark = pytest.mark.pure

FIRST = fragment(0)
SECOND = fragment(1, "a.lance")
BASE = version([FIRST, SECOND])
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "merging.md"


def deleted(number):
    return fragment(1, "a.lance", deleted=deletion(2, number))


def written(path, *fields):
    """The second fragment with ``v`` in another file, or with a new column."""
    if fields:
        return fragment(1, "a.lance", data_file(path, *fields))
    return fragment(1, data_file("a.lance", 0, -2), data_file(path, 1))


def compacted(into):
    """A version that wrote the second fragment into another one."""
    return Step(2, "Rewrite", rewrites=(Rewrite((SECOND,), (into,)),))


OURS = {
    "unchanged": ([FIRST, SECOND], "Append"),
    "rows deleted": ([FIRST, deleted(1)], "Delete"),
    "rows updated": ([FIRST, deleted(1), fragment(2, "ours.lance", rows=2)], "Update"),
    "columns written": ([FIRST, written("ours.lance")], "Merge"),
    "compacted": ([FIRST, fragment(3, "o.lance")], compacted(fragment(3, "o.lance"))),
    "gone": ([FIRST], "Delete"),
}
THEIRS = {
    "unchanged": ([FIRST, SECOND], "Append"),
    "rows deleted": ([FIRST, deleted(2)], "Delete"),
    "rows updated": ([FIRST, deleted(2), fragment(2, "theirs.lance", rows=2)], "Update"),
    "columns written": ([FIRST, written("theirs.lance")], "Merge"),
    "compacted": ([FIRST, fragment(4, "t.lance")], compacted(fragment(4, "t.lance"))),
    "gone": ([FIRST], "Delete"),
}
ROWS, BOTH_ROWS, VALUES, AWAY = "their rows", "their rows, if they are others", "their columns", "away"
IN_PLACE, ALL_IN_PLACE = "their rows, where ours has them now", "all rows, where ours has them now"
OURS_GONE = "rows that ours rewrote or removed were changed"
THEIRS_GONE = "both sides changed rows that theirs rewrote or removed"
SAME_COLUMN = "both sides wrote the same column of the same rows"
CELLS = [
    ("unchanged", "unchanged", None),
    ("unchanged", "rows deleted", None),
    ("unchanged", "rows updated", None),
    ("unchanged", "columns written", None),
    ("unchanged", "compacted", None),
    ("unchanged", "gone", None),
    ("rows deleted", "unchanged", ROWS),
    ("rows deleted", "rows deleted", BOTH_ROWS),
    ("rows deleted", "rows updated", BOTH_ROWS),
    ("rows deleted", "columns written", ROWS),
    ("rows deleted", "compacted", IN_PLACE),
    ("rows deleted", "gone", OURS_GONE),
    ("rows updated", "unchanged", ROWS),
    ("rows updated", "rows deleted", BOTH_ROWS),
    ("rows updated", "rows updated", BOTH_ROWS),
    ("rows updated", "columns written", "theirs updated rows in which ours wrote a column"),
    ("rows updated", "compacted", IN_PLACE),
    ("rows updated", "gone", OURS_GONE),
    ("columns written", "unchanged", VALUES),
    ("columns written", "rows deleted", VALUES),
    ("columns written", "rows updated", "ours updated rows in which theirs wrote a column"),
    ("columns written", "columns written", SAME_COLUMN),
    ("columns written", "compacted", "theirs wrote a column of rows that ours compacted"),
    ("columns written", "gone", OURS_GONE),
    ("compacted", "unchanged", AWAY),
    ("compacted", "rows deleted", None),
    ("compacted", "rows updated", None),
    ("compacted", "columns written", None),
    ("compacted", "compacted", None),
    ("compacted", "gone", None),
    ("gone", "unchanged", AWAY),
    ("gone", "rows deleted", THEIRS_GONE),
    ("gone", "rows updated", THEIRS_GONE),
    ("gone", "columns written", THEIRS_GONE),
    ("gone", "compacted", ALL_IN_PLACE),
    ("gone", "gone", THEIRS_GONE),
]
"""Of a fragment: what theirs did, what ours did, and what ours takes, or why it is a conflict."""


def compared(theirs, ours, their_steps=("Append",), our_steps=("Append",), base=BASE, **more):
    """A comparison of two lists of fragments with those of the base."""
    compared_sides = sides(
        base,
        version(ours, 2, **more.get("our", {})),
        version(theirs, 2, "exp", **more.get("their", {})),
        steps(None, *our_steps),
        steps("exp", *their_steps),
    )
    settled = settle(compared_sides, compare(compared_sides), gone)
    clashes = tuple(compared_sides.conflict(each.reason, [each.pair.base.id]) for each in settled.clashes)
    return replace(settled.change, conflicts=(*settled.change.conflicts, *clashes[:1]))


def gone(fragment):
    """The deleted rows of a fragment of which two rows are deleted: the deletion file's number says which."""
    return np.array([] if fragment.deletion is None else [2 * fragment.deletion.id, 2 * fragment.deletion.id + 1], int)


def taken(change):
    """What ours takes of the second fragment, as the cells say it."""
    assert not (change.conflicts and (change.removed and change.replaced))
    if change.conflicts:
        (conflict,) = change.conflicts
        assert conflict.fragments == (1,)
        return conflict.reason
    if change.removed:
        assert change.removed == ((SECOND, SECOND),)
        return AWAY
    if change.followed.deletions:
        (rows,) = change.followed.deletions.values()
        assert change.followed.deletions.keys() == {3}
        return {(4, 5): IN_PLACE, tuple(range(10)): ALL_IN_PLACE}[rows]
    if not change.replaced:
        return None
    (replacement,) = change.replaced
    return {(True, False, False): VALUES, (False, True, False): ROWS, (False, True, True): BOTH_ROWS}[
        replacement.files, replacement.deletion, replacement.both_deleted
    ]


@pytest.mark.parametrize(("theirs", "ours", "result"), CELLS)
def test_two_changes_of_a_fragment_merge_as_the_table_says(theirs, ours, result):
    (their_fragments, their_step), (our_fragments, our_step) = THEIRS[theirs], OURS[ours]
    change = compared(their_fragments, our_fragments, [their_step], [our_step])
    assert taken(change) == result
    new = {"rows updated": ["theirs.lance"], "compacted": ["t.lance"] if ours == "unchanged" else []}
    assert [each.files[0].path for each in change.added] == new.get(theirs, [])
    if change.conflicts:
        assert (change.conflicts[0].ours, change.conflicts[0].theirs) == (
            f"main@2 ({getattr(our_step, 'operation', our_step)})",
            f"exp@2 ({getattr(their_step, 'operation', their_step)})",
        )


def printed(beginning):
    """The cells of the table in the documentation, by (theirs, ours)."""
    text = PAGE.read_text()
    lines = text[text.index(beginning) + len(beginning) :].strip().split("\n\n")[0].splitlines()
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    assert head[0] == "theirs \\ ours"
    return {(row[0], ours): cell for row in rows for ours, cell in zip(head[1:], row[1:], strict=True)}


@pytest.mark.parametrize(
    ("matrix", "beginning"),
    [
        (FRAGMENTS, "The result for a fragment that both have in common:\n"),
        (COLUMNS, "The result for a column that both have in common:\n"),
    ],
    ids=["fragments", "columns"],
)
def test_the_documentation_shows_the_matrix(matrix, beginning):
    cells = {(theirs.value, ours.value): cell.outcome for (theirs, ours), cell in matrix.items()}
    assert printed(beginning) == cells
    assert all(bool(cell.reason) == (cell.outcome not in ("ours", "theirs", "both")) for cell in matrix.values())


def test_the_cells_here_are_all_cells_of_the_matrix():
    assert [(theirs, ours) for theirs, ours, _ in CELLS] == [(theirs.value, ours.value) for theirs, ours in FRAGMENTS]
    assert Decision("conflict").is_conflict
    assert not Decision("both, if other rows", "the same").is_conflict


NEW = Field(2, -1, "w", "int64", True, ())
NEWER = Field(2, -1, "z", "int64", True, ())
BOTH_WAYS = fragment(1, data_file("a.lance", 0, -2), data_file("both.lance", 1), deleted=deletion(2, 5))
ALIKE = [
    # theirs, ours, fields of theirs, fields of ours, what is taken
    ("the same rows deleted", deleted(1), deleted(1), (), (), None),
    ("the same column written", written("b.lance"), written("b.lance"), (), (), None),
    ("the same column, and rows", BOTH_WAYS, written("both.lance"), (), (), ROWS),
    ("the same rows, and a column", BOTH_WAYS, deleted(5), (), (), VALUES),
    ("a new column each", written("w.lance", 2), written("z.lance", 2), (NEW,), (NEWER,), VALUES),
    ("the same new column", written("w.lance", 2), written("w.lance", 2), (NEW,), (NEW,), None),
    ("a new column of one name", written("w.lance", 2), written("z.lance", 2), (NEW,), (NEW,), SAME_COLUMN),
    (
        "the same new column, and another one",
        fragment(1, "a.lance", data_file("w.lance", 2), data_file("x.lance", 3)),
        written("w.lance", 2),
        (NEW, Field(3, -1, "x", "int64", True, ())),
        (NEW,),
        VALUES,
    ),
    ("a file that nobody uses", fragment(1, "a.lance", data_file("dead.lance", 9)), SECOND, (), (), None),
]


@pytest.mark.parametrize(
    ("theirs", "ours", "their_new", "our_new", "result"), [case[1:] for case in ALIKE], ids=[case[0] for case in ALIKE]
)
def test_what_both_did_alike_counts_for_neither(theirs, ours, their_new, our_new, result):
    more = {"their": {"fields": (*FIELDS, *their_new)}, "our": {"fields": (*FIELDS, *our_new)}}
    change = compared([FIRST, theirs], [FIRST, ours], ["Merge"], ["Merge"], **more)
    assert taken(replace(change, conflicts=tuple(each for each in change.conflicts if each.fragments))) == result


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_without_all_its_versions_a_side_may_have_updated_the_rows_it_deleted(side):
    made = {"ours": (written("b.lance"), deleted(1)), "theirs": (deleted(1), written("b.lance"))}[side]
    their_steps, our_steps = ("Merge", "Delete") if side == "ours" else ("Delete", "Merge")
    known = sides(
        BASE,
        version([FIRST, made[1]], 2),
        version([FIRST, made[0]], 2, "exp"),
        steps(None, our_steps),
        steps("exp", their_steps),
    )
    assert not compare(known).conflicts
    name = "our_steps" if side == "ours" else "their_steps"
    forgotten = replace(known, **{name: replace(getattr(known, name), complete=False)})
    (conflict,) = compare(forgotten).conflicts
    assert conflict.reason.startswith(f"{side} updated rows in which")


def test_a_conflict_about_several_fragments_is_one():
    base = version([FIRST, SECOND, fragment(2)])
    change = compared([FIRST], [FIRST, deleted(1), fragment(2, deleted=deletion(1))], ["Delete"], ["Delete"], base)
    assert [(clash.reason, clash.fragments) for clash in change.conflicts] == [(THEIRS_GONE, (1, 2))]
    assert str(change.conflicts[0]) == f"{THEIRS_GONE} (fragment 1, 2): main@2 (Delete) against exp@2 (Delete)"


ADDED = fragment(2, "new.lance")
OTHER = fragment(2, "other.lance")


@pytest.mark.parametrize(
    ("theirs", "ours", "added", "clashing"),
    [
        (ADDED, OTHER, [ADDED], ()),
        (ADDED, fragment(7, "new.lance"), [], ()),
        (fragment(2, "new.lance", deleted=deletion(1)), fragment(7, "new.lance"), [], (7,)),
        (ADDED, fragment(7, data_file("new.lance", 0, -2), data_file("b.lance", 1)), [], (7,)),
    ],
    ids=["others", "the same", "changed by theirs", "changed by ours"],
)
def test_new_rows_are_taken_unless_ours_has_them(theirs, ours, added, clashing):
    change = compared([FIRST, SECOND, theirs], [FIRST, SECOND, ours])
    assert list(change.added) == added
    assert [clash.fragments for clash in change.conflicts] == ([clashing] if clashing else [])


def test_fragments_of_a_base_in_another_chain_are_known_by_their_files():
    """After a merge the base of theirs is known in ours under other ids, and from another place."""
    base_theirs = version([fragment(5, "f0.lance"), fragment(6, "a.lance")], 3, "exp", bases={1: HERE})
    theirs = version([fragment(6, "a.lance", deleted=deletion(1)), fragment(9, "new.lance")], 4, "exp", bases={1: HERE})
    ours = version([FIRST, SECOND, fragment(2, "mine.lance")], 2, bases={4: Root("s3://b/else")})
    seen = replace(sides(BASE, ours, theirs, steps(None, "Append"), steps("exp", "Delete")), base_theirs=base_theirs)
    change = compare(seen)
    assert change.conflicts == ()
    assert [(before.id, here.id) for before, here in change.removed] == [(5, 0)]
    assert [(each.base.id, each.ours.id, each.theirs.id) for each in change.replaced] == [(1, 1, 6)]
    assert [new.id for new in change.added] == [9]
    lost = replace(seen, base_ours=version([FIRST], 1))
    assert [(clash.reason, clash.fragments) for clash in compare(lost).conflicts] == [(OURS_GONE, (6,))]


def test_nothing_is_taken_of_a_branch_that_is_the_base():
    ours = version([FIRST], 2)
    assert compare(sides(BASE, ours, BASE, steps(None, "Delete"), steps(None))) == MergeChange()


def test_nothing_stands_against_a_fast_forward():
    theirs = version([fragment(7, "x.lance")], 5, "exp", fields=(ID, VALUE._replace(id=9, type="string")))
    forward = sides(BASE, BASE, theirs, steps(None), steps("exp", "Overwrite"))
    assert forward.is_fast_forward
    change = compare(forward)
    assert (change.conflicts, change.columns_of_theirs, len(change.removed), len(change.added)) == ((), True, 2, 1)


REPLACED = "replaced the whole table"
LOST = "no longer has any of its files"
PICK = Step(2, "Update", brings=True)
PICKED = "rows that were picked"
WHOLE = [
    # theirs and its steps, ours and its steps, whether versions of theirs are missing, the beginning of the conflict
    ([ADDED], ["Overwrite"], [FIRST, SECOND, OTHER], ["Append"], True, f"'exp' {REPLACED}"),
    ([FIRST, SECOND, ADDED], ["Append"], [OTHER], ["Overwrite"], True, f"'main' {REPLACED}"),
    ([ADDED], [Step(2, "Update", replaced=True)], [FIRST, SECOND, OTHER], ["Append"], True, f"'exp' {REPLACED}"),
    ([ADDED], [Step(2, "Overwrite", replaced=False)], [FIRST, SECOND, OTHER], ["Append"], True, None),
    ([ADDED], ["Overwrite"], [FIRST, SECOND], ["CreateIndex"], True, None),
    ([ADDED], ["Rewrite"], [FIRST, SECOND, OTHER], ["Append"], True, None),
    ([ADDED], ["Rewrite"], [FIRST, SECOND, OTHER], ["Append"], False, f"'exp' {LOST}"),
    ([FIRST, ADDED], ["Rewrite"], [FIRST, SECOND, OTHER], ["Append"], False, None),
    ([FIRST, SECOND, ADDED], ["Append"], [FIRST, SECOND, OTHER], [PICK], True, None),
    ([FIRST, SECOND, ADDED], ["Append"], [FIRST, SECOND, OTHER], [PICK, "Rewrite"], True, PICKED),
    ([FIRST, SECOND, ADDED], ["Delete"], [FIRST, SECOND, OTHER], [PICK], True, PICKED),
    ([FIRST, SECOND, ADDED], ["Append"], [FIRST, SECOND, OTHER], [PICK], False, PICKED),
    ([FIRST, SECOND], ["Delete"], [FIRST, SECOND, OTHER], [PICK, "Rewrite"], True, None),
    ([FIRST, SECOND, ADDED], [PICK, Step(3, "Update", adds_only=True)], [FIRST, SECOND, OTHER], ["Append"], True, None),
]


@pytest.mark.parametrize(("theirs", "their_steps", "ours", "our_steps", "complete", "conflict"), WHOLE)
def test_what_goes_for_the_table_as_a_whole(theirs, their_steps, ours, our_steps, complete, conflict):
    change = compare(
        sides(
            BASE,
            version(ours, 3),
            version(theirs, 3, "exp"),
            steps(None, *our_steps),
            steps("exp", *their_steps, complete=complete),
        )
    )
    assert bool(change.conflicts) == bool(conflict)
    assert not conflict or any(clash.reason.startswith(conflict) for clash in change.conflicts)


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_replaced_table_goes_with_no_change_of_columns(side):
    wider = {"fields": (*FIELDS, NEWER)}
    if side == "ours":
        change = compared([FIRST, SECOND], [ADDED], ["Project"], ["Overwrite"], their=wider)
    else:
        change = compared([ADDED], [FIRST, SECOND], ["Overwrite"], ["Project"], our=wider)
    name = {"ours": "main", "theirs": "exp"}[side]
    assert f"'{name}' {REPLACED}" in [conflict.reason for conflict in change.conflicts]


def test_rows_that_a_pick_in_one_dataset_took_from_a_version_and_changed_since_are_not_taken_again():
    own = version([FIRST, SECOND, ADDED], 2)
    base = version([FIRST, SECOND], 1)
    ours = version([FIRST, SECOND, OTHER], 4)
    for later, conflicts in (("Append", 0), ("Update", 1)):
        change = compare(sides(base, ours, own, steps(None, "Append", "Append", later), steps(None, "Append")))
        assert len(change.conflicts) == conflicts


DELETED, RESTORED = steps("exp", "Delete"), Step(2, "Restore", brings=True)
LACKS = {"has_base": False}
KINSHIPS = [
    # name; theirs; which version theirs is (the base is 5); its step; steps of ours; kinship; whether it is a conflict
    ("nothing in common", [FIRST, SECOND, ADDED], 6, "Append", "Update", {}, False),
    ("taken in", [FIRST, SECOND, ADDED], 6, "Append", "Append", {"shares": True}, True),
    ("taken in, no new rows", [FIRST], 6, "Delete", "Append", {"shares": True}, False),
    ("restored where it was deleted", [FIRST, SECOND, ADDED], 6, RESTORED, "Append", {"earlier": DELETED}, False),
    ("restored where it is", [FIRST, SECOND, ADDED], 6, RESTORED, "Append", {**LACKS, "earlier": DELETED}, True),
    ("restored, nothing was deleted", [FIRST, SECOND, ADDED], 6, RESTORED, "Append", LACKS, False),
    (
        "rows restored in a fragment",
        [FIRST, SECOND._replace(deletion=None)],
        6,
        RESTORED,
        "Append",
        {**LACKS, "earlier": DELETED},
        True,
    ),
    ("reverted", [FIRST, SECOND, ADDED], 4, "Delete", "Append", {**LACKS, "earlier": DELETED}, False),
    ("reverted, and changed here", [FIRST, SECOND, ADDED], 4, "Delete", "Update", {**LACKS, "earlier": DELETED}, True),
    (
        "reverted, and updated there",
        [FIRST, SECOND, ADDED],
        4,
        "Delete",
        "Append",
        {**LACKS, "earlier": steps("exp", "Update")},
        True,
    ),
    (
        "reverted, and compacted there",
        [FIRST, SECOND, ADDED],
        4,
        "Delete",
        "Append",
        {**LACKS, "earlier": steps("exp", "Rewrite")},
        True,
    ),
    (
        "reverted, and not known",
        [FIRST, SECOND, ADDED],
        4,
        "Delete",
        "Append",
        {**LACKS, "earlier": steps("exp", complete=False)},
        True,
    ),
    (
        "not reverted",
        [FIRST, SECOND, ADDED],
        6,
        "Append",
        "Update",
        {**LACKS, "earlier": steps("exp", "Update")},
        False,
    ),
]


@pytest.mark.parametrize(
    ("theirs", "number", "their_step", "our_step", "kinship", "conflict"),
    [case[1:] for case in KINSHIPS],
    ids=[case[0] for case in KINSHIPS],
)
def test_a_single_version_does_not_bring_rows_that_ours_has(theirs, number, their_step, our_step, kinship, conflict):
    base = version([FIRST, SECOND._replace(deletion=deletion(2))], 5, "exp")
    ours = version([FIRST, SECOND._replace(deletion=deletion(2)), OTHER], 9)
    picked = sides(base, ours, version(theirs, number, "exp"), steps(None, our_step), steps("exp", their_step))
    change = compare(replace(picked, kinship=Kinship(**kinship)))
    assert [clash.reason for clash in change.conflicts] == [TAKEN_BEFORE] * conflict


STRICT = NEW._replace(nullable=False)
MOVED = (ID, NEW._replace(id=1), VALUE._replace(id=2))
CAST = (ID, VALUE._replace(id=2, type="int32"))
COLUMN_CASES = [
    # name; columns of theirs, of ours; whether theirs and ours have new rows; conflict; changes or columns of theirs
    ("theirs adds", (*FIELDS, NEW), FIELDS, False, True, None, True),
    ("theirs adds, ours another", (*FIELDS, NEW), (*FIELDS, NEWER), False, False, None, ColumnChanges(add=("w",))),
    ("ours adds", FIELDS, (*FIELDS, NEW), True, False, None, False),
    ("both add the same", (*FIELDS, NEW), (*FIELDS, NEW), True, True, None, False),
    ("both add one without nulls", (*FIELDS, STRICT), (*FIELDS, STRICT), True, True, None, False),
    ("theirs casts", CAST, FIELDS, False, True, "column 'v' was cast on one side", True),
    ("theirs casts, ours has no rows", CAST, FIELDS, False, False, None, True),
    ("ours casts", FIELDS, CAST, True, False, "column 'v' was cast on one side", False),
    ("an id means another column", FIELDS, MOVED, False, False, "column 'v' was given another id", False),
]


@pytest.mark.parametrize(
    ("theirs", "ours", "their_rows", "our_rows", "conflict", "changes"),
    [case[1:] for case in COLUMN_CASES],
    ids=[case[0] for case in COLUMN_CASES],
)
def test_columns_and_the_rows_that_have_no_values_in_them(theirs, ours, their_rows, our_rows, conflict, changes):
    change = compared(
        [FIRST, SECOND, *([ADDED] if their_rows else [])],
        [FIRST, SECOND, *([OTHER] if our_rows else [])],
        our={"fields": ours},
        their={"fields": theirs},
    )
    assert [clash.reason.startswith(conflict or "") for clash in change.conflicts] == ([True] if conflict else [])
    if isinstance(changes, bool):
        assert (change.columns_of_theirs, change.columns) == (changes, ColumnChanges())
    else:
        assert (change.columns_of_theirs, change.columns) == (False, changes)


def test_a_column_with_the_id_of_one_that_was_dropped_does_not_get_its_values():
    """pylance gives the id away again. The rows of theirs have values under it."""
    ours = version([FIRST, SECOND], 2, fields=(ID, VALUE._replace(name="other", type="string")))
    theirs = version([FIRST, SECOND, ADDED], 2, "exp")
    change = compare(sides(BASE, ours, theirs, steps(None, "Project", "Merge"), steps("exp", "Append")))
    assert [clash.reason.partition(",")[0] for clash in change.conflicts] == ["column 'v' was dropped on one side"]


def test_new_ids_that_files_of_ours_use_already_are_given_again():
    """A column of ours was dropped, but its values are still in a file under the id of their new one."""
    ours = [FIRST, fragment(1, data_file("a.lance", 0, 1), data_file("dropped.lance", 2))]
    change = compared(
        [FIRST, written("w.lance", 2)], ours, ["Merge"], ["Merge", "Project"], their={"fields": (*FIELDS, NEW)}
    )
    assert (change.columns_of_theirs, change.columns.add) == (False, ("w",))


def commented(entry, text):
    return entry._replace(metadata=(("comment", text.encode()),))


def test_comments_of_both_sides_are_in_the_result_beside_other_changes():
    change = compared(
        [FIRST, SECOND],
        [FIRST, SECOND],
        their={"fields": (ID, commented(VALUE, "theirs"))},
        our={"fields": (commented(ID, "ours"), VALUE)},
    )
    assert (change.conflicts, change.columns) == ((), ColumnChanges(comment=(("v", (("comment", b"theirs"),)),)))


@pytest.mark.parametrize(
    ("theirs", "ours", "notes"),
    [
        ({}, {}, []),
        ({"config": {"a": "1"}}, {}, []),
        ({"fields": (ID, VALUE._replace(name="value"))}, {}, []),
        ({"fields": (*FIELDS, NEW)}, {}, ["rows that 'main' added have no values in new columns"]),
        ({}, {"fields": (*FIELDS, NEW)}, ["rows of 'exp' have no values in columns that were added since"]),
    ],
)
def test_what_a_user_should_know_is_a_note(theirs, ours, notes):
    change = compared([FIRST, SECOND, ADDED], [FIRST, SECOND, OTHER], their=theirs, our=ours)
    assert (list(change.notes), change.conflicts) == (notes, ())


def test_examples_of_fragments_end_after_five():
    conflict = compared([FIRST], [FIRST, deleted(1)], ["Delete"], ["Delete"]).conflicts[0]
    many = replace(conflict, fragments=tuple(range(9)))
    assert re.search(r"\(fragment 0, 1, 2, 3, 4\)", str(many))
