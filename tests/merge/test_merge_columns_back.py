"""Columns that were dropped, and are back by a revert or a restore: with their values, or not at all."""

import lance
import pyarrow as pa
import pytest
from support.merge_datasets import add, assert_sound, head, run, table
from support.merge_datasets import rows as by_id

from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, NotCommittable, Refused
from lance_spark.merge.merge import cherry_pick, merge, revert
from lance_spark.merge.option_rules import MergeOptions
from lance_spark.merge.restore import restore
from lance_spark.refs.refs import create_branch_at
from lance_spark.storage.datasets import locate

VALUES = [(number, 10 * number) for number in range(6)]


@pytest.fixture(params=[False, True], ids=["", "stable"])
def dataset(uri, request):
    """Six rows in two fragments; version 2 drops the column v. Branch a is from before that."""
    lance.write_dataset(table(0, 6), uri, max_rows_per_file=3, enable_stable_row_ids=request.param)
    create_branch_at(locate(uri), "a", PinnedVersion(None, 1))
    head(uri).drop_columns(["v"])
    return uri


def undo(uri, version, branch=None, into=None):
    return revert(locate(uri), PinnedVersion(branch, version), into, LocalRunner())


def values(uri, branch=None):
    assert_sound(head(uri, branch))
    return [(row["id"], row["v"]) for row in by_id(head(uri, branch))]


def add_ids(uri, *ids):
    lance.write_dataset(table(0, 30).select(["id"]).take(ids), uri, mode="append")


def test_a_reverted_drop_brings_the_values_back(dataset):
    assert not undo(dataset, 2).up_to_date
    assert values(dataset) == VALUES


def test_rows_that_came_since_the_drop_have_none(dataset):
    add_ids(dataset, 20)
    head(dataset).delete("id = 1")
    undo(dataset, 2)
    assert values(dataset) == [*(pair for pair in VALUES if pair[0] != 1), (20, None)]


def test_what_was_added_since_the_drop_stays(dataset):
    head(dataset).add_columns({"w": "id + 1"})
    undo(dataset, 2)
    assert values(dataset) == VALUES
    assert head(dataset).to_table()["w"].to_pylist() == [*range(1, 7)]


@pytest.mark.parametrize("change", ["update", "compact"])
def test_values_of_rows_that_were_written_anew_since_the_drop_are_not_lost(dataset, change):
    head(dataset).add_columns({"w": "id + 1"})
    if change == "update":
        head(dataset).update({"w": "7"}, where="id = 1")
    else:
        head(dataset).optimize.compact_files()
    before = by_id(head(dataset))
    with pytest.raises(Conflict):
        undo(dataset, 2)
    assert by_id(head(dataset)) == before


def test_a_drop_that_was_merged_with_deletions_is_reverted_whole(dataset):
    head(dataset, "a").add_columns({"w": "id + 1"})
    head(dataset, "a").drop_columns(["v"])
    head(dataset, "a").delete("id = 0")
    create_branch_at(locate(dataset), "b", PinnedVersion(None, 1))
    run(dataset, "a", "b")
    undo(dataset, 2, "b", "b")
    assert head(dataset, "b").schema.names == ["id", "v"]
    assert values(dataset, "b") == VALUES


def test_a_column_that_came_back_is_dropped_again_and_back_again(dataset):
    for version in (2, 3, 4):
        undo(dataset, version)
    assert values(dataset) == VALUES


def test_a_column_that_is_back_is_picked_with_its_values(dataset):
    create_branch_at(locate(dataset), "b", PinnedVersion(None, 2))
    add(dataset, 8, 9, "a")
    undo(dataset, 2)
    cherry_pick(locate(dataset), PinnedVersion(None, 3), "b", LocalRunner())
    assert values(dataset, "b") == VALUES


def test_a_column_that_is_back_by_a_restore_is_merged_with_its_values(dataset):
    create_branch_at(locate(dataset), "b", PinnedVersion(None, 2))
    restore(locate(dataset), PinnedVersion(None, 1), LocalRunner())
    run(dataset, None, "b")
    assert values(dataset, "b") == VALUES


def test_a_column_that_is_back_has_no_values_where_rows_were_written_without_it(dataset):
    """Without stable ids it is a conflict: a copy of the row that was made without the column would have null."""
    head(dataset).add_columns({"w": "id + 1"})
    create_branch_at(locate(dataset), "b", PinnedVersion(None, 3))
    head(dataset, "b").update({"w": "7"}, where="id = 1")
    undo(dataset, 2)
    if head(dataset).has_stable_row_ids:
        run(dataset, None, "b")
        assert values(dataset, "b") == VALUES
        assert head(dataset, "b").to_table(filter="w = 7")["id"].to_pylist() == [1]
        return
    for source, into in ((None, "b"), ("b", None)):
        with pytest.raises((Conflict, Refused)):
            run(dataset, source, into)
    assert values(dataset) == VALUES


def test_new_rows_that_both_have_get_the_column_back_or_not_at_all(dataset):
    """Both took the rows in before. To theirs, which dropped the column and has it back, they are new as to ours."""
    create_branch_at(locate(dataset), "b", PinnedVersion(None, 1))
    add(dataset, 10, 12, "a")
    for into in ("b", None):
        cherry_pick(locate(dataset), PinnedVersion("a", 2), into, LocalRunner())
    head(dataset, "b").drop_columns(["v"])
    undo(dataset, 3, "b", "b")
    with pytest.raises(Conflict):
        run(dataset, "b", None)


def test_a_column_that_an_earlier_merge_gave_another_id_is_known_where_rows_lack_it(uri):
    """By their ids, the two columns would be exchanged, and pylance would refuse it in words that help nobody."""
    lance.write_dataset(table(0, 6), uri)
    create_branch_at(locate(uri), "a", PinnedVersion(None, 1))
    head(uri).add_columns({"x": "id * 2"})
    add(uri, 10, 12, "a")
    head(uri, "a").add_columns({"w": "id + 1"})
    run(uri, None, "a")
    run(uri, "a")
    found = [(row["id"], row["x"], row["w"]) for row in by_id(head(uri))]
    assert found == [(n, 2 * n, n + 1) for n in range(6)] + [(n, None, n + 1) for n in (10, 11)]


# --- Columns that take the names of others

OTHERS = {
    "renamed, and a new one": lambda it: (it.alter_columns({"path": "v", "name": "w"}), it.add_columns({"v": "-id"})),
    "dropped, and a new one": lambda it: (it.drop_columns(["v"]), it.add_columns({"v": "-id"})),
    "dropped, and its name given on": lambda it: (it.drop_columns(["v"]), it.alter_columns({"path": "o", "name": "v"})),
    "exchanged": lambda it: [
        it.alter_columns({"path": old, "name": new}) for old, new in (("v", "x"), ("o", "v"), ("x", "o"))
    ],
}
"""What a branch does to column v of a table that has another one, o."""
IN_STEPS = ("dropped, and its name given on", "exchanged")


@pytest.fixture
def two_columns(uri):
    lance.write_dataset(table(0, 6).append_column("o", table(6, 12)["v"]), uri, max_rows_per_file=3)
    create_branch_at(locate(uri), "b", PinnedVersion(None, 1))
    return uri


def merged(uri, version):
    return merge(locate(uri), PinnedVersion("b", version), None, MergeOptions(), LocalRunner())


@pytest.mark.parametrize("others", OTHERS)
def test_names_that_go_to_other_columns_are_merged_in_steps_if_need_be(two_columns, others):
    before = everything(two_columns)
    OTHERS[others](head(two_columns, "b"))
    newest = head(two_columns, "b").version
    if others in IN_STEPS:
        with pytest.raises(NotCommittable, match="gets the name"):
            merged(two_columns, newest)
        assert everything(two_columns) == before
        for version in range(2, newest):
            merged(two_columns, version)
    merged(two_columns, newest)
    assert everything(two_columns) == everything(two_columns, "b")
    restore(locate(two_columns), PinnedVersion(None, 1), LocalRunner())
    assert everything(two_columns) == before


@pytest.mark.parametrize("others", [name for name in OTHERS if name not in IN_STEPS])
def test_a_reverted_merge_of_such_names_brings_the_old_column_back_or_changes_nothing(two_columns, others):
    before = by_id(head(two_columns))
    OTHERS[others](head(two_columns, "b"))
    merged(two_columns, head(two_columns, "b").version)
    after = everything(two_columns)
    if others == "renamed, and a new one":
        with pytest.raises(NotCommittable, match="Column 'w' of main@2 gets the name 'v'"):
            undo(two_columns, 2)
        assert everything(two_columns) == after
    else:
        undo(two_columns, 2)
        assert by_id(head(two_columns)) == before
    assert_sound(head(two_columns))


def everything(uri, branch=None):
    dataset = head(uri, branch)
    return sorted(dataset.schema.names), by_id(dataset)


@pytest.mark.when(day=0.5)
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
@pytest.mark.parametrize("keyed", [False, True], ids=["no key", "key"])
def test_an_update_of_a_column_that_was_dropped_since_is_not_reverted_in_silence(uri, stable, keyed):
    """The rows that come back bring no value of a column that is gone; an update of another column may go."""
    key = {b"lance-schema:unenforced-primary-key": b"true"} if keyed else None
    schema = pa.schema([pa.field("id", pa.int64(), not keyed, key), ("v", pa.int64()), ("w", pa.int64())])
    found = [{"id": number, "v": number, "w": number} for number in range(6)]
    lance.write_dataset(pa.Table.from_pylist(found, schema), uri, max_rows_per_file=3, enable_stable_row_ids=stable)
    for column in ("v", "w"):
        head(uri).update({column: "70"}, where="id IN (1, 4)")
    head(uri).drop_columns(["v"])
    before = by_id(head(uri))
    with pytest.raises(Conflict, match="'v' was dropped on one side, and the other one wrote values") as refused:
        undo(uri, 2)
    assert "id=1" in str(refused.value)
    assert by_id(head(uri)) == before
    undo(uri, 3)
    assert [row["w"] for row in by_id(head(uri))] == [*range(6)]


def test_a_reverted_deletion_brings_rows_back_without_a_column_that_was_dropped_since(dataset):
    head(dataset).delete("id IN (1, 4)")
    deleted = head(dataset).version
    lance.dataset(dataset).add_columns({"w": "id"})
    head(dataset).drop_columns(["w"])
    undo(dataset, deleted)
    assert by_id(head(dataset)) == [{"id": number} for number in range(6)]
