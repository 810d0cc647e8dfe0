"""Fragments of theirs as ours has to commit them: files, columns, deletion files, row ids."""

from dataclasses import replace

import pytest
from support.merge_values import FIELDS, HERE, THERE, VALUE, data_file, deletion, fragment, sides, steps, version

from lance_spark.errors import NotCommittable
from lance_spark.format.operations import Step, Steps
from lance_spark.format.row_ids import read_row_ids, write_row_ids
from lance_spark.merge.assembly_rules import Assembly, Placed, RowIds, row_ids
from lance_spark.merge.change_rules import ColumnChanges, MergeChange, Replacement

pytestmark = pytest.mark.pure

THEIRS = version([], 2, "exp", bases={1: HERE}, fields=[*FIELDS, VALUE._replace(id=9, name="back")])
LINEAGE = dict.fromkeys(("row_id_meta", "created_at_version_meta", "last_updated_at_version_meta"))


def as_json(entry, **more):
    """A fragment as pylance gives it out."""
    files = [{"path": file.path, "fields": list(file.fields), "base_id": file.base_id} for file in entry.files]
    gone = None if entry.deletion is None else {"id": entry.deletion.id, "base_id": entry.deletion.base_id}
    return {"id": entry.id, "files": files, "deletion_file": gone, **LINEAGE, **more}


def placed(ids=None, **more):
    return Placed({THERE: None, HERE: None}, ids=ids or {9: 0}, **more)


NEW = fragment(9, "new.lance", data_file("w.lance", 7), deleted=deletion(2))


def test_a_new_fragment_gets_the_id_names_bases_and_columns_of_ours():
    where = placed({9: 5}, names={(THERE, "new.lance"): "x-new.lance"}, present={(THERE, "w.lance"): 3})
    metadata = as_json(NEW, row_id_meta={"Inline": [1]}, created_at_version_meta="v", physical_rows=10)
    assembled = Assembly(THEIRS, where, {7: 2}).added(NEW, metadata)
    assert assembled == {
        "id": 5,
        "files": [
            {"path": "x-new.lance", "fields": [0, 1], "base_id": None},
            {"path": "w.lance", "fields": [2], "base_id": 3},
        ],
        "deletion_file": {"id": 1, "base_id": None},
        "physical_rows": 10,
        **LINEAGE,
    }
    assert metadata["id"] == 9


@pytest.mark.parametrize(("new_id", "base"), [(9, 4), (5, None)], ids=["in place", "copied under another id"])
def test_a_deletion_file_is_read_in_place_only_under_its_own_id(new_id, base):
    where = Placed({THERE: 4}, ids={9: new_id})
    assert Assembly(THEIRS, where, {}).added(NEW, as_json(NEW))["deletion_file"] == {"id": 1, "base_id": base}


A, V = data_file("a.lance", 0, 1), data_file("v.lance", 1)
BASE = fragment(1, A)
MINE = fragment(1, data_file("a.lance", 0, -2), data_file("mine.lance", 1), deleted=deletion(1, 7))
COLUMN = (True, False, False)
DROPPED = fragment(1, data_file("a.lance", 0, 9))
WRITTEN = fragment(1, data_file("a.lance", 0, -2), data_file("v.lance", 1))
REPLACED = [
    # name; ours; theirs; what of theirs (columns, rows, rows by both); files; number of the deletion file
    (
        "columns",
        BASE,
        fragment(1, data_file("a.lance", 0, -2), V),
        (True, False, False),
        ["a.lance:0,-2", "v.lance:1"],
        None,
    ),
    ("rows", BASE, fragment(1, A, deleted=deletion(3)), (False, True, False), ["a.lance:0,1"], 1),
    (
        "both",
        BASE,
        fragment(1, A, data_file("w.lance", 2), deleted=deletion(3)),
        (True, True, False),
        ["a.lance:0,1", "w.lance:2"],
        1,
    ),
    (
        "rows of both",
        MINE,
        fragment(1, A, deleted=deletion(3)),
        (False, True, True),
        ["a.lance:0,-2", "mine.lance:1"],
        7,
    ),
    (
        "a column each",
        MINE,
        fragment(1, A, data_file("w.lance", 2)),
        (True, False, False),
        ["a.lance:0,-2", "mine.lance:1", "w.lance:2"],
        7,
    ),
    (
        "a column of ours",
        fragment(1, A, data_file("mine.lance", 2)),
        fragment(1, data_file("a.lance", 0, -2), V),
        (True, False, False),
        ["a.lance:0,-2", "mine.lance:2", "v.lance:1"],
        None,
    ),
]


@pytest.mark.parametrize(
    ("ours", "theirs", "what", "files", "number"), [case[1:] for case in REPLACED], ids=[case[0] for case in REPLACED]
)
def test_a_fragment_of_ours_gets_the_columns_and_deleted_rows_of_theirs(ours, theirs, what, files, number):
    assert_replaced((BASE, ours, theirs), what, files, number)


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "files"),
    [
        (DROPPED, DROPPED, DROPPED, ["a.lance:0,3"]),
        (DROPPED, fragment(1, data_file("a.lance", 0, 9), V), DROPPED, ["a.lance:0,3", "v.lance:1"]),
        (
            WRITTEN,
            fragment(1, *WRITTEN.files, data_file("w.lance", 2)),
            BASE,
            ["a.lance:0,1", "v.lance:-2", "w.lance:2"],
        ),
    ],
    ids=["alone", "beside a new column", "values before a rewrite"],
)
def test_a_column_that_is_back_in_a_file_is_back_in_ours(base, ours, theirs, files):
    """Theirs has column 9 back, which the base had dropped: 3 in ours. Or it has column 1 back in its old file."""
    assert_replaced((base, ours, theirs), COLUMN, files, None)


def assert_replaced(versions, what, files, number):
    base, ours, theirs = versions
    given, metadata = as_json(ours, physical_rows=10), as_json(theirs)
    assembly = Assembly(THEIRS, placed(), {9: 3}, base=frozenset({0, 1}))
    assembled = assembly.replaced(Replacement(base, ours, theirs, *what), given, metadata)
    assert [f"{file['path']}:{','.join(map(str, file['fields']))}" for file in assembled["files"]] == files
    gone = assembled["deletion_file"]
    assert (None if gone is None else gone["id"]) == number
    assert (assembled["id"], assembled["physical_rows"]) == (1, 10)
    assert given == as_json(ours, physical_rows=10)


def numbered(number, *ids, **more):
    return fragment(number, row_ids=write_row_ids(ids), rows=len(ids), **more)


@pytest.mark.parametrize(
    ("ids", "kept"),
    [((3, 4), [3, 4]), ((3, 50), [3]), ((50, 51), None), ((1, 50), [21])],
    ids=["old rows", "old rows and new ones", "new rows", "renamed"],
)
def test_rows_from_before_the_base_keep_their_stable_ids(ids, kept):
    moved = numbered(9, *ids)
    assembly = Assembly(THEIRS, placed(), {}, RowIds({1: 21}, same_below=10))
    meta = assembly.added(moved, as_json(moved))["row_id_meta"]
    assert (None if meta is None else read_row_ids(bytes(meta["Inline"]))) == kept


def test_rows_that_cannot_keep_their_stable_ids_are_refused():
    assembly = Assembly(THEIRS, placed(), {}, RowIds(same_below=10))
    with pytest.raises(NotCommittable, match="Fragment 9 of exp@2 mixes rows"):
        assembly.added(numbered(9, 50, 3), as_json(numbered(9, 50, 3)))
    moved = MergeChange(added=(numbered(9, 3),), columns=ColumnChanges(drop=("v",)))
    unknown = Steps("exp", complete=False)
    with pytest.raises(NotCommittable, match="one by one: exp@VERSION"):
        assembly.check_row_ids(moved, unknown)
    known = [(3, "Update"), (4, "CreateIndex"), (5, "Append"), (6, "Merge"), (7, "Project"), (8, "Update")]
    in_turns = Steps("exp", tuple(Step(version, operation, branch="exp") for version, operation in known))
    with pytest.raises(NotCommittable, match="first exp@5, then exp@7, then 'exp'"):
        assembly.check_row_ids(moved, in_turns)
    with pytest.raises(NotCommittable, match=r"\.restore\(\)"):
        replace(assembly, has_rows=False).check_row_ids(MergeChange(added=(numbered(9, 3),)), unknown)
    assembly.check_row_ids(MergeChange(added=(numbered(9, 50),), columns=ColumnChanges(drop=("v",))), unknown)
    assembly.check_row_ids(MergeChange(added=(numbered(9, 3),)), unknown)


def compared(base, ours, theirs):
    return sides(base, ours, theirs, steps(None), steps("exp"))


def test_without_stable_ids_nothing_is_known_of_rows():
    plain = version([])
    assert Assembly.of(compared(plain, plain, THEIRS), MergeChange(), placed(), {}).row_ids is None
    stable = version([], stable=True, next_row_id=30)
    known = Assembly.of(compared(stable, stable, THEIRS), MergeChange(), placed(), {}).row_ids
    assert known == RowIds(same_below=30)


def test_rows_are_known_by_their_ids_of_the_base_or_by_their_places():
    base = version([numbered(0, 0, 1), numbered(1, 2, 3)], stable=True, next_row_id=4)
    mine, other = numbered(1, 2, 8), numbered(1, 2, 9)
    change = MergeChange(
        removed=((numbered(0, 0, 1), numbered(0, 0, 1)),),
        replaced=(Replacement(mine, mine, other, False, True), Replacement(mine, mine, numbered(1, 5, 6), True, False)),
    )
    seen = compared(base, base, version([], 2, "exp", stable=True))
    assert row_ids(seen, change) == RowIds({2: 2, 9: 8}, same_below=4)


def test_rows_that_came_into_another_chain_are_known_by_the_version_that_took_them_in():
    base = version([numbered(0, 0, 1)], stable=True, next_row_id=2)
    took_in_base = fragment(6, "f0.lance", row_ids=write_row_ids([40, 41]), rows=2)
    took_in = version([took_in_base, numbered(7, 42)], 2, "exp", stable=True)
    change = MergeChange(removed=((fragment(6, "f0.lance"), numbered(0, 0, 1)),))
    seen = replace(compared(base, base, version([], 3, "exp", stable=True)), numbering=took_in)
    assert row_ids(seen, change) == RowIds({40: 0, 41: 1})
    assert row_ids(seen, MergeChange()) == RowIds()


def test_rows_that_no_version_took_in_are_known_by_the_base_if_both_were_forked_with_them():
    base = version([numbered(0, 0, 9)], stable=True, next_row_id=10)
    change = MergeChange(removed=((numbered(0, 0, 9), numbered(0, 50, 51)),))
    seen = replace(
        compared(base, base, version([], 3, "exp", stable=True)),
        numbering=version([], 2, "exp", stable=True),
        their_same_below=8,
    )
    assert row_ids(seen, change) == RowIds({0: 50})
    assert [RowIds({40: 0}).known(row) for row in (40, 5)] == [0, None]
