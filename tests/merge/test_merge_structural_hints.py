"""What the hint of a conflict about columns says is done, on the side that it names: the same merge goes through."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import LanceTable
from lance_spark.errors import Conflict
from lance_spark.merge import change_rules, hint_rules
from lance_spark.merge.assembly_rules import BOTH_SET, NO_COLUMN
from lance_spark.merge.cell_rules import STALE
from lance_spark.merge.conflict_rules import (
    BROKEN,
    KEY_CHANGED,
    NO_NULLS,
    NOT_CHECKED,
    OPAQUE,
    SAME_KEY,
    TAKEN_BEFORE,
    TWICE,
    WRITTEN,
)
from lance_spark.merge.conflict_rules import CAST as CAST_HERE
from lance_spark.merge.following_rules import COLUMNS_COMPACTED, UNCERTAIN

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "x": pa.array([1, 2, 3], pa.int32())})


def alter(**change):
    return lambda dataset: dataset.alter_columns({"path": "x", **change})


def comment(text):
    return lambda dataset: dataset.update_field_metadata({"x": {"comment": text}}, replace=True)


def new(value):
    return lambda dataset: dataset.add_columns({"n": value})


def write(dataset):
    dataset.update({"x": "5"}, "id = 1")


def empty(dataset):
    dataset.update({"x": "null"}, "id = 1")


CHECK = "lance_spark.constraints.small"
SAME, CAST, GIVE = "Make the same change on both sides", "Cast the column in the same way", "Give these rows a value"
CASES = {
    "the same name on both sides": (
        alter(name="y"),
        alter(name="z"),
        SAME,
        "exp",
        lambda d: d.alter_columns({"path": "z", "name": "y"}),
        {},
    ),
    "one name taken back": (
        alter(name="y"),
        alter(name="z"),
        SAME,
        "exp",
        lambda d: d.alter_columns({"path": "z", "name": "x"}),
        {},
    ),
    "the same comment": (comment("a"), comment("b"), SAME, "exp", comment("a"), {}),
    "the same type": (
        alter(data_type=pa.int64()),
        write,
        CAST,
        "exp",
        alter(data_type=pa.int64()),
        {"prefer": "theirs"},
    ),
    "one new column dropped": (
        new("id + 1"),
        new("'t'"),
        "Drop or rename it on one side",
        "exp",
        lambda d: d.drop_columns(["n"]),
        {},
    ),
    "one new column renamed": (
        new("id + 1"),
        new("'t'"),
        "Drop or rename it on one side",
        "exp",
        lambda d: d.alter_columns({"path": "n", "name": "m"}),
        {},
    ),
    "the column restored": (
        lambda d: d.drop_columns(["x"]),
        write,
        "restore, on the side that dropped it",
        "restore",
        None,
        {},
    ),
    "the compaction reverted": (
        write,
        lambda d: (d.add_columns({"n": "nullif(id, 0)"}), lance.dataset(d.uri).optimize.compact_files()),
        "revert the compaction",
        "revert",
        None,
        {},
    ),
    "a value given": (alter(nullable=False), empty, GIVE, "exp", lambda d: d.update({"x": "0"}, "id = 1"), {}),
    "the row changed": (
        lambda d: d.update_config({CHECK: "x < 5"}),
        write,
        "Change or delete these rows",
        "exp",
        lambda d: d.update({"x": "1"}, "id = 1"),
        {},
    ),
    "the constraint dropped": (
        lambda d: d.update_config({CHECK: "x < 5"}),
        alter(name="y"),
        "Drop the constraint",
        "main",
        lambda d: d.delete_config_keys([CHECK]),
        {},
    ),
    "nullable again": (alter(nullable=False), empty, "let the column be null again", "main", alter(nullable=True), {}),
}
"""What both sides did, words of the hint, the side on which they are followed, how, and what the merge takes then."""


@pytest.mark.when(day=0.2)
@pytest.mark.parametrize("case", CASES)
def test_the_hint_of_a_conflict_about_columns_leads_out(uri, case):
    ours, theirs, words, side, way, then = CASES[case]
    lance.write_dataset(ROWS, uri, enable_stable_row_ids=True, max_rows_per_file=2)
    t = LanceTable.for_path(uri)
    t.branches.create("exp")
    places = {"main": uri, "exp": t.location.branch_uri("exp")}
    ours(lance.dataset(places["main"]))
    theirs(lance.dataset(places["exp"]))
    with pytest.raises(Conflict) as refused:
        t.branches.merge("exp")
    assert words in refused.value.hint
    if side == "restore":
        t.restore(1)
    elif side == "revert":
        t.checkout(branch="exp").revert(t.checkout(branch="exp").version)
    else:
        way(lance.dataset(places[side]))
    t.branches.merge("exp", **then)
    assert lance.dataset(uri).count_rows() == 3
    assert t.branches.merge("exp").up_to_date


KEYED = ROWS.cast(
    pa.schema(
        [pa.field("id", pa.int64(), False, {b"lance-schema:unenforced-primary-key": b"true"}), ROWS.schema.field("x")]
    )
)


def computed_again(t):
    """The column goes, the other side's values come, and it is computed on top of them."""
    exp = t.location.branch_uri("exp")
    lance.dataset(exp).drop_columns(["n"])
    t.branches.merge("main", into="exp")
    lance.dataset(exp).add_columns({"n": "id + 1"})


KEY_CASES = {
    "the same new key": (
        lambda d: d.update({"id": "30"}, "id = 1"),
        "the same new key on both sides",
        lambda t: lance.dataset(t.location.uri).update({"id": "30"}, "id = 1"),
    ),
    "the column computed again": (lambda d: d.add_columns({"n": "id + 1"}), "Compute the column again", computed_again),
}


@pytest.mark.when(day=0)
@pytest.mark.parametrize("case", KEY_CASES)
def test_the_hint_of_a_conflict_in_a_table_with_a_key_leads_out(uri, case):
    theirs, words, way = KEY_CASES[case]
    lance.write_dataset(KEYED, uri, enable_stable_row_ids=True, max_rows_per_file=2)
    t = LanceTable.for_path(uri)
    t.branches.create("exp")
    write(lance.dataset(uri))
    theirs(lance.dataset(t.location.branch_uri("exp")))
    with pytest.raises(Conflict) as refused:
        t.branches.merge("exp")
    assert words in refused.value.hint
    way(t)
    t.branches.merge("exp")
    merged = lance.dataset(uri).to_table().to_pylist()
    assert [row["x"] for row in sorted(merged, key=lambda row: row["x"])] == [2, 3, 5]
    assert all(row.get("n", 0) in (0, row["id"] + 1) for row in merged)


TYPED = {
    change_rules.COMPACTED_OURS.reason: "the compaction reverted",
    COLUMNS_COMPACTED: "the compaction reverted",
    UNCERTAIN: None,
    TAKEN_BEFORE: "test_what_the_hint_about_rows_under_other_names_says_leads_out",
    STALE: "the column computed again",
    change_rules.BLANK: "test_what_the_hint_says_leads_out",
    change_rules.BOTH_NEW: "one new column dropped",
    CAST_HERE: "the same type",
    NO_NULLS: "a value given",
    BROKEN.partition("{")[0]: "the row changed",
    BOTH_SET: "test_settings_alone_are_a_merge_that_the_next_one_begins_with",
    NO_COLUMN: "test_a_setting_that_names_a_dropped_column_is_a_conflict",
    NOT_CHECKED: "the constraint dropped",
    WRITTEN: "the column restored",
    KEY_CHANGED.partition("'")[0]: "the same new key",
    OPAQUE: "test_a_struct_that_lost_a_field_keeps_its_value_or_its_row_is_deleted_first",
    SAME_KEY: "one key",
    TWICE: "test_what_the_hint_about_a_key_inside_a_struct_says_leads_out",
    change_rules.OTHER_COLUMNS.reason: "one new column renamed",
}
"""Where each hint of a conflict is typed: a case here, or a test or a case of another file in this directory.

None: its conflict needs transactions that contradict each other, which only damage makes; that it is a conflict is
tested as a decision, in ``test_merge_following.py``.
"""
_CASES = {name: case[2] for name, case in CASES.items()} | {name: case[1] for name, case in KEY_CASES.items()}


@pytest.mark.pure
def test_every_hint_of_a_conflict_is_listed_with_where_it_is_typed():
    """A new hint fails here until somebody has typed what it says, or says why nobody can."""
    assert TYPED.keys() == hint_rules._HINTS.keys()
    elsewhere = "".join(
        path.read_text() for path in Path(__file__).parent.glob("*.py") if path.name != Path(__file__).name
    )
    for reason, case in TYPED.items():
        if case in _CASES:
            assert _CASES[case] in str(hint_rules._HINTS[reason])
        elif case is not None:
            assert f"def {case}(" in elsewhere or f'"{case}":' in elsewhere
