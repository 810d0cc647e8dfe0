"""Columns of two sides and their base: what can be had together, and what is told."""

import pytest

from lance_spark.format.contents import Field
from lance_spark.format.operations import Step, Steps
from lance_spark.merge.change_rules import (
    ColumnChanges,
    ColumnMerge,
    InnerChange,
    cast_columns,
    match_fields,
    merge_columns,
    of_whole_columns,
    renumbered,
    strange_fields,
    trees,
)

pytestmark = pytest.mark.pure

ID, VALUE = Field(0, -1, "id", "int64", False, ()), Field(1, -1, "v", "int64", True, ())
BASE = (ID, VALUE)
NEW = Field(2, -1, "w", "int64", True, ())
STRUCT = (Field(5, -1, "s", "struct", True, ()), Field(6, 5, "a", "int64", True, ()))


def test_sides_that_agree_need_nothing():
    assert not merge_columns(BASE, BASE, BASE).changes
    both = merge_columns(BASE, (*BASE, NEW), (*BASE, NEW))
    assert (bool(both.changes), both.conflicts) == (False, ())
    assert not merge_columns(BASE, (ID,), (ID,)).changes
    assert not merge_columns(BASE, (ID, NEW), BASE).changes


@pytest.mark.parametrize(
    ("theirs", "changes"),
    [
        ((ID,), ColumnChanges(drop=("v",))),
        ((*BASE, NEW), ColumnChanges(add=("w",))),
        ((ID, VALUE._replace(name="value")), ColumnChanges(rename=(("v", "value"),))),
        ((ID._replace(nullable=True), VALUE), ColumnChanges(nullable=(("id", True),))),
        ((ID, VALUE._replace(nullable=False)), ColumnChanges(nullable=(("v", False),))),
        ((ID, VALUE._replace(id=9, type="int32")), ColumnChanges(drop=("v",), add=("v",))),
        ((*BASE, *STRUCT), ColumnChanges(add=("s",))),
    ],
    ids=["drop", "add", "rename", "relax", "not null", "cast", "struct"],
)
def test_changes_of_one_side_are_taken(theirs, changes):
    other = Field(8, -1, "z", "int64", True, ())
    assert merge_columns(BASE, BASE, theirs).changes == changes
    merged = merge_columns(BASE, (*BASE, other), theirs)
    assert (merged.changes, merged.conflicts) == (changes, ())


def noted(entry, text):
    return entry._replace(metadata=(("comment", text),))


NOTED, NOTED_OTHERWISE = noted(VALUE, b"one"), noted(VALUE, b"two")
RENAMED, RENAMED_OTHERWISE = VALUE._replace(name="a"), VALUE._replace(name="b")
ALTERED = "column 'v' was altered on one side and altered or dropped on the other"
TWO_COMMENTS = "the comment of column 'v' was changed on both sides"
COMMENT = ColumnChanges(comment=(("v", NOTED.metadata),))


@pytest.mark.parametrize(
    ("theirs", "ours", "result"),
    [
        (VALUE, VALUE, ColumnChanges()),
        (VALUE, NOTED, ColumnChanges()),
        (VALUE, RENAMED, ColumnChanges()),
        (VALUE, None, ColumnChanges()),
        (NOTED, VALUE, COMMENT),
        (NOTED, NOTED, ColumnChanges()),
        (NOTED, NOTED_OTHERWISE, TWO_COMMENTS),
        (NOTED, RENAMED, ColumnChanges(comment=(("a", NOTED.metadata),))),
        (NOTED, noted(RENAMED, b"one"), ColumnChanges()),
        (NOTED, noted(RENAMED, b"two"), TWO_COMMENTS),
        (NOTED, None, ALTERED),
        (RENAMED, VALUE, ColumnChanges(rename=(("v", "a"),))),
        (RENAMED, NOTED, ColumnChanges(rename=(("v", "a"),))),
        (noted(RENAMED, b"one"), NOTED, ColumnChanges(rename=(("v", "a"),))),
        (noted(RENAMED, b"one"), VALUE, ColumnChanges(rename=(("v", "a"),), comment=(("a", NOTED.metadata),))),
        (noted(RENAMED, b"one"), RENAMED, ColumnChanges(comment=(("a", NOTED.metadata),))),
        (RENAMED, RENAMED, ColumnChanges()),
        (RENAMED, RENAMED_OTHERWISE, ALTERED),
        (RENAMED, None, ALTERED),
        (None, VALUE, ColumnChanges(drop=("v",))),
        (None, NOTED, ALTERED),
        (None, RENAMED, ALTERED),
        (None, None, ColumnChanges()),
    ],
)
def test_what_becomes_of_a_column(theirs, ours, result):
    columns = ((ID, side) if side is not None else (ID,) for side in (VALUE, ours, theirs))
    merged = merge_columns(*columns)
    assert merged == (ColumnMerge(conflicts=(result,)) if isinstance(result, str) else ColumnMerge(result))


def test_a_comment_that_is_gone_in_theirs_goes():
    merged = merge_columns((ID, NOTED), (ID, NOTED, NEW), (ID, VALUE))
    assert merged == ColumnMerge(ColumnChanges(comment=(("v", ()),)))


@pytest.mark.parametrize(
    ("ours", "theirs", "reason"),
    [
        ((*BASE, NEW), (*BASE, NEW._replace(type="string")), "both sides have a new column 'w'"),
        ((*BASE, NEW), (ID, VALUE._replace(name="w")), "both sides have a new column 'w'"),
        ((*BASE, NEW), (*BASE, NEW._replace(id=3, name="W")), "both sides have a new column 'W', which"),
        ((*BASE, NEW), (ID, VALUE._replace(name="W")), "both sides have a new column 'W', which ours spells 'w'"),
        ((ID, VALUE._replace(name="W")), (*BASE, NEW), "both sides have a new column 'w', which ours spells 'W'"),
        ((ID,), (ID, VALUE._replace(name="value")), "column 'v' was altered on one side"),
        ((ID, VALUE._replace(name="a")), (ID, VALUE._replace(name="b")), "column 'v' was altered"),
        ((ID,), (ID, VALUE._replace(id=9, type="int32")), "column 'v' was altered"),
        ((ID, VALUE._replace(id=9, type="int32")), (ID,), "column 'v' was altered"),
    ],
)
def test_changes_that_exclude_each_other_are_told(ours, theirs, reason):
    (conflict,) = merge_columns(BASE, ours, theirs).conflicts
    assert conflict.startswith(reason)


def test_columns_that_differ_only_in_case_are_taken_from_a_side_that_has_both():
    theirs = (*BASE, VALUE._replace(id=3, name="V"))
    merged = merge_columns(BASE, (*BASE, NEW), theirs)
    assert (merged.changes, merged.conflicts) == (ColumnChanges(add=("V",)), ())


def test_fields_inside_a_column_lose_and_get_their_nulls():
    strict = (*BASE, STRUCT[0], *(entry._replace(nullable=not entry.nullable) for entry in STRUCT[1:]))
    merged = merge_columns((*BASE, *STRUCT), (*BASE, *STRUCT, NEW), strict)
    paths = {f"s.{entry.name}": not entry.nullable for entry in STRUCT[1:]}
    assert (dict(merged.changes.nullable), merged.conflicts) == (paths, ())


GROWN = Field(7, 5, "b", "int64", True, ())
ITEMS = (Field(8, -1, "l", "list.struct", True, ()), Field(9, 8, "item", "struct", True, ()))


@pytest.mark.parametrize(
    ("inside", "change"),
    [
        ((*STRUCT, GROWN), InnerChange(5, add=("s.b",))),
        (STRUCT[:1], InnerChange(5, drop=("s.a",))),
        ((STRUCT[0], STRUCT[1]._replace(name="b")), InnerChange(5, rename=(("s.a", "b"),))),
        ((STRUCT[0], GROWN._replace(name="a")), InnerChange(5, drop=("s.a",), add=("s.a",))),
        ((STRUCT[0]._replace(name="t"), STRUCT[1], GROWN), InnerChange(5, add=("t.b",))),
    ],
    ids=["add", "drop", "rename", "cast", "add to a renamed one"],
)
def test_fields_inside_a_column_change_beside_other_columns(inside, change):
    base = (*BASE, *STRUCT)
    merged = merge_columns(base, (*base, NEW), (*BASE, *inside))
    assert (merged.changes.inner, merged.conflicts) == ((change,), ())


@pytest.mark.parametrize("ours", [(*STRUCT, GROWN._replace(name="c")), (STRUCT[0], STRUCT[1]._replace(name="c"))])
def test_fields_inside_a_column_are_not_combined(ours):
    base = (*BASE, *STRUCT)
    (conflict,) = merge_columns(base, (*BASE, *ours), (*base, GROWN)).conflicts
    assert conflict.startswith("column 's' was altered on one side")


@pytest.mark.parametrize("new", [GROWN._replace(nullable=False), Field(10, 9, "b", "int64", True, ())])
def test_fields_that_pylance_cannot_add_are_a_conflict(new):
    base = (*BASE, *STRUCT, *ITEMS)
    grown = sorted((*base, new), key=lambda entry: (entry.id in (8, 9, 10), entry.id))
    (conflict,) = merge_columns(base, (*base, NEW), grown).conflicts
    assert conflict.startswith("the fields inside column")


def test_a_cast_column_has_its_name_and_another_id():
    assert cast_columns(BASE, (ID, VALUE._replace(id=4))) == ["v"]
    assert cast_columns(BASE, (ID, VALUE._replace(name="value"), NEW)) == []
    assert cast_columns(BASE, (ID,)) == []


def test_a_column_that_one_side_dropped_and_the_other_renamed_and_cast_is_a_conflict():
    """By its id and its name, the cast one is a new column: only the versions tell where its name comes from."""
    cast, known = (ID, NEW), Steps("exp", (Step(2, "Project", renames=(("v", "w"),)), Step(3, "Merge"))).last_name
    assert merge_columns(BASE, (ID,), cast, (str, known)).conflicts
    assert merge_columns(BASE, cast, (ID,), (known, str)).conflicts
    assert merge_columns(BASE, (ID,), cast).changes == ColumnChanges(add=("w",))


def test_a_column_that_was_renamed_so_that_another_gets_its_name_is_not_cast():
    assert cast_columns(BASE, (ID, VALUE._replace(name="old"), NEW._replace(name="v"))) == []


def test_an_id_that_means_another_column_now():
    assert renumbered(BASE, (ID, NEW._replace(id=1), VALUE._replace(id=2))) == ["v"]
    assert renumbered(BASE, (ID, VALUE._replace(name="value"))) == []
    assert renumbered(BASE, (ID,)) == []


def test_fields_belong_to_their_column():
    inner = Field(9, 6, "deep", "int64", True, ())
    assert trees((ID, *STRUCT, inner)) == {0: (ID,), 5: (*STRUCT, inner)}


def test_fields_are_matched_by_their_names_from_the_top():
    moved = tuple(
        entry._replace(id=entry.id + 10, parent_id=entry.parent_id + 10 * (entry.id == 6)) for entry in STRUCT
    )
    assert match_fields((ID, *STRUCT, NEW), (ID, *moved)) == {0: 0, 5: 15, 6: 16}
    top = Field(1, -1, "a", "int64", True, ())
    assert match_fields(STRUCT, (top,)) == {}


@pytest.mark.parametrize(
    ("result", "theirs", "matched", "strange"),
    [
        ({0, 1}, {0, 1}, {}, set()),
        ({0, 1, 2}, {0, 1}, {}, {2}),
        ({0, 1, 2}, {0, 1, 2, 3}, {3: 2}, {2}),
        ({0, 1, 3}, {0, 1, 2, 3}, {3: 3}, set()),
        ({0, 1, 2, 3}, {0, 1, 2}, {2: 3}, {3}),
    ],
    ids=["the same", "a new column of ours", "an id that ours has free", "one that theirs dropped", "two new columns"],
)
def test_ids_that_are_another_column_in_files_of_theirs(result, theirs, matched, strange):
    assert strange_fields(result, theirs, matched) == strange


def test_the_fields_of_a_list_belong_together():
    deep = (*BASE, *STRUCT, Field(7, 6, "item", "int64", True, ()))
    assert of_whole_columns([7], deep) == of_whole_columns([5], deep) == {5, 6, 7}
    assert of_whole_columns([1, 9], deep) == {1, 9}
