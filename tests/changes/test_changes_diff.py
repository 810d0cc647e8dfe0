"""``diff``: schema, rows and fragments of two versions that pylance wrote."""

import json
import math

import lance
import pyarrow as pa
import pytest
from lance import blob_array, blob_field
from support.local_datasets import make_dataset, numbers

from lance_spark.changes.diff import diff
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import CorruptData, NotFound
from lance_spark.format.operations import ColumnChange
from lance_spark.storage import files
from lance_spark.storage.datasets import locate

KEY = {"lance-schema:unenforced-primary-key": "true"}


def at(version, branch=None):
    return PinnedVersion(branch, version)


def named(count, start=0, key=False):
    schema = pa.schema([pa.field("id", pa.int64(), not key, KEY if key else None), ("name", pa.string())])
    ids = range(start, start + count)
    return pa.table({"id": ids, "name": [f"n{number}" for number in ids]}, schema=schema)


def counts(found):
    return (found.rows.added, found.rows.deleted, found.rows.changed)


def between(uri, before, after, **arguments):
    return diff(locate(uri), before, after, **arguments)


def both_ways(uri, before, after, **arguments):
    """The diff; the other way round it must say the opposite."""
    there, back = between(uri, before, after, **arguments), between(uri, after, before, **arguments)
    assert counts(back) == (there.rows.deleted, there.rows.added, there.rows.changed)
    assert (back.rows.before, back.rows.after) == (there.rows.after, there.rows.before)
    return there


def test_a_version_does_not_differ_from_itself(uri):
    make_dataset(uri, numbers(3), numbers(3, 3))
    found = between(uri, at(2), at(2), rows=True)
    assert found.is_empty
    assert (found.fragments.same, counts(found)) == (2, (0, 0, 0))


def test_appended_and_deleted_rows_are_counted_without_reading_them(uri):
    make_dataset(uri, numbers(10), numbers(5, 10), numbers(4, 20))
    lance.dataset(uri).delete("id IN (1, 2, 11)")
    lance.dataset(uri).delete("id >= 20")
    found = both_ways(uri, at(1), at(5))
    assert counts(found) == (4, 2, None)
    assert (found.rows.before, found.rows.after) == (10, 12)
    assert counts(both_ways(uri, at(3), at(4))) == (0, 3, 0)
    assert counts(both_ways(uri, at(4), at(5))) == (0, 4, 0)


def test_only_rows_deleted_on_one_side_count(uri):
    make_dataset(uri, numbers(10))
    lance.dataset(uri).delete("id IN (1, 2)")
    lance.dataset(uri, version=1).create_branch("exp", 1)
    lance.dataset(f"{uri}/tree/exp").delete("id IN (2, 3, 4)")
    found = both_ways(uri, at(2), at(2, "exp"))
    assert counts(found)[:2] == (1, 2)
    rows = both_ways(uri, at(2), at(2, "exp"), rows=True)
    assert [(each.kind, each.before, each.after) for each in rows.examples] == [
        ("deleted", {"id": 3}, None),
        ("deleted", {"id": 4}, None),
        ("added", None, {"id": 1}),
    ]


@pytest.mark.parametrize("rows", [3, 60_000])
def test_deletion_files_of_both_types_are_read(uri, rows):
    make_dataset(uri, numbers(rows))
    lance.dataset(uri).delete("id % 2 = 0")
    lance.dataset(uri).delete("id % 3 = 0")
    evens, left = len(range(0, rows, 2)), sum(1 for number in range(rows) if number % 2 and number % 3)
    assert counts(both_ways(uri, at(1), at(2))) == (0, evens, 0)
    assert counts(both_ways(uri, at(2), at(3))) == (0, rows - evens - left, 0)


def test_a_branch_shares_the_files_it_inherited(uri):
    make_dataset(uri, numbers(10), numbers(10, 10))
    lance.dataset(uri).create_branch("a")
    lance.write_dataset(numbers(2, 50), f"{uri}/tree/a", mode="append")
    lance.dataset(f"{uri}/tree/a").create_branch("a/b")
    lance.dataset(f"{uri}/tree/a/b").delete("id < 5")
    found = both_ways(uri, at(2), at(4, "a/b"))
    assert counts(found)[:2] == (2, 5)
    assert (found.fragments.same, found.fragments.changed, found.fragments.added) == (1, 1, 1)
    assert (found.stat.files_added, found.stat.files_removed) == (1, 0)
    assert between(uri, at(2), at(2, "a")).is_empty


def test_columns_by_id(uri):
    schema = pa.schema(
        [("id", pa.int64()), ("old", pa.string()), ("gone", pa.int32()), ("in", pa.struct([("x", "int32")]))]
    )
    make_dataset(uri, pa.table({"id": [1], "old": ["a"], "gone": [1], "in": [{"x": 1}]}, schema=schema))
    dataset = lance.dataset(uri)
    dataset.alter_columns({"path": "old", "name": "new"}, {"path": "id", "data_type": pa.int32()})
    dataset.alter_columns({"path": "in.x", "name": "y"})
    dataset.drop_columns(["gone"])
    dataset.add_columns({"twice": "id * 2"})
    found = between(uri, at(1), at(lance.dataset(uri).version))
    assert set(found.columns) == {
        ColumnChange("type changed", "id", "int64", "int32"),
        ColumnChange("renamed", "new", "old", "new"),
        ColumnChange("renamed", "in.y", "in.x", "in.y"),
        ColumnChange("added", "twice", None, "int32"),
        ColumnChange("dropped", "gone", "int32", None),
    }
    assert counts(found) == (0, 0, 0)
    assert found.values == ()
    compared = between(uri, at(1), at(lance.dataset(uri).version), rows=True)
    assert counts(compared) == (0, 0, 0)


def test_rows_of_a_renamed_column_are_compared(uri):
    make_dataset(uri, named(3))
    lance.dataset(uri).alter_columns({"path": "name", "name": "label"})
    lance.dataset(uri).update({"label": "'x'"}, where="id = 1")
    found = both_ways(uri, at(1), at(3), rows=True)
    assert counts(found) == (1, 1, None)
    assert [dict(each.before or each.after) for each in found.examples] == [
        {"id": 1, "name": "n1"},
        {"id": 1, "label": "x"},
    ]


def test_nullability(uri):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    make_dataset(uri, pa.table({"id": [1]}, schema=schema))
    lance.dataset(uri).alter_columns({"path": "id", "nullable": True})
    assert between(uri, at(1), at(2)).columns == (ColumnChange("nullability changed", "id", "not null", "null"),)


def test_a_compaction_changes_no_row(uri):
    make_dataset(uri, *(numbers(5, start) for start in range(0, 20, 5)))
    lance.dataset(uri).delete("id = 7")
    lance.dataset(uri).optimize.compact_files()
    newest = lance.dataset(uri).version
    found = between(uri, at(5), at(newest))
    assert counts(found) == (19, 19, None)
    assert "compaction" in found.notes[0]
    compared = both_ways(uri, at(5), at(newest), rows=True)
    assert counts(compared) == (0, 0, 0)
    assert compared.is_empty


def test_without_a_key_an_update_is_a_deletion_and_an_addition(uri):
    make_dataset(uri, named(10))
    lance.dataset(uri).update({"name": "'x'"}, where="id < 3")
    for rows in (False, True):
        assert counts(both_ways(uri, at(1), at(2), rows=rows)) == (3, 3, None)


def test_a_key_tells_changed_rows(uri):
    make_dataset(uri, named(10, key=True))
    lance.dataset(uri).update({"name": "'x'"}, where="id < 3")
    lance.dataset(uri).delete("id = 9")
    lance.write_dataset(named(2, 20, key=True), uri, mode="append")
    found = both_ways(uri, at(1), at(4), rows=True, limit=1)
    assert counts(found) == (2, 1, 3)
    assert [(each.kind, each.before, each.after) for each in found.examples] == [
        ("deleted", {"id": 9, "name": "n9"}, None),
        ("added", None, {"id": 20, "name": "n20"}),
        ("changed", {"id": 0, "name": "n0"}, {"id": 0, "name": "x"}),
    ]


@pytest.mark.parametrize("rows", [False, True])
def test_stable_row_ids_tell_changed_rows(uri, rows):
    make_dataset(uri, named(10), enable_stable_row_ids=True)
    lance.dataset(uri).update({"name": "'x'"}, where="id < 3")
    lance.dataset(uri).delete("id = 9")
    lance.write_dataset(named(2, 20), uri, mode="append")
    lance.dataset(uri).optimize.compact_files()
    newest = lance.dataset(uri).version
    assert counts(both_ways(uri, at(1), at(newest), rows=rows)) == (2, 1, 3)
    assert counts(both_ways(uri, at(4), at(newest), rows=rows)) == (0, 0, 0)


@pytest.mark.parametrize("rows", [False, True])
def test_row_ids_that_two_branches_gave_to_different_rows_are_not_the_same_row(uri, rows):
    make_dataset(uri, named(10), enable_stable_row_ids=True)
    lance.dataset(uri).create_branch("exp")
    lance.write_dataset(named(3, 100), f"{uri}/tree/exp", mode="append")
    lance.write_dataset(named(2, 200), uri, mode="append")
    lance.dataset(f"{uri}/tree/exp").update({"name": "'e'"}, where="id = 1")
    lance.dataset(uri).update({"name": "'m'"}, where="id = 1")
    assert counts(both_ways(uri, at(3), at(3, "exp"), rows=rows)) == (3, 2, 1)


def test_an_overwrite_with_stable_row_ids_replaces_all_rows(uri):
    make_dataset(uri, numbers(5), enable_stable_row_ids=True)
    lance.write_dataset(numbers(5, 100), uri, mode="overwrite")
    assert counts(both_ways(uri, at(1), at(2), rows=True)) == (5, 5, 0)
    assert counts(both_ways(uri, at(1), at(2))) == (5, 5, 0)


def test_values_written_in_place_are_found_by_place(uri):
    make_dataset(uri, named(6), named(6, 6))
    dataset = lance.dataset(uri)
    new = pa.table({"id": pa.array([1, 4], pa.int64()), "name": ["x", "n4"]})
    fragment, fields = dataset.get_fragment(0).update_columns(new, left_on="id", right_on="id")
    operation = lance.LanceOperation.Update(
        updated_fragments=[fragment], removed_fragment_ids=[], new_fragments=[], fields_modified=fields
    )
    lance.LanceDataset.commit(uri, operation, read_version=2)
    found = between(uri, at(2), at(3))
    assert [(each.column, each.fragments, each.rows) for each in found.values] == [("name", 1, 6)]
    assert counts(found) == (0, 0, None)
    assert not found.is_empty
    compared = both_ways(uri, at(2), at(3), rows=True)
    assert counts(compared) == (0, 0, 1)
    assert compared.examples[0].after == {"id": 1, "name": "x"}


def test_a_fragment_with_new_values_and_a_deleted_row_is_read_once(uri):
    make_dataset(uri, named(6))
    lance.dataset(uri).delete("id = 5")
    dataset = lance.dataset(uri)
    fragment, fields = dataset.get_fragment(0).update_columns(
        pa.table({"id": pa.array([1], pa.int64()), "name": ["x"]}), left_on="id", right_on="id"
    )
    operation = lance.LanceOperation.Update(
        updated_fragments=[fragment], removed_fragment_ids=[], new_fragments=[], fields_modified=fields
    )
    lance.LanceDataset.commit(uri, operation, read_version=2)
    assert counts(both_ways(uri, at(1), at(3), rows=True)) == (0, 1, 1)


def test_duplicates_nulls_and_nan_are_compared_as_values(uri):
    values = [1.0, 1.0, math.nan, math.nan, None, None, 0.0]
    make_dataset(uri, pa.table({"v": values}))
    lance.write_dataset(pa.table({"v": [1.0, math.nan, math.nan, math.nan, None, -0.0]}), uri, mode="overwrite")
    found = both_ways(uri, at(1), at(2), rows=True)
    assert counts(found) == (1, 2, None)
    assert math.isnan(found.examples[-1].after["v"])
    assert json.loads(json.dumps(found.as_record()))["examples"][-1]["after"] == {"v": "nan"}


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_blobs_that_were_moved_are_the_same(uri, version):
    for start in (0, 3):
        if version == "2.2":
            column, values = blob_field("blob"), blob_array([b"a", None, b"x" * 200_000])
        else:
            column = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
            values = pa.array([b"a", None, b"x" * 200_000], pa.large_binary())
        schema = pa.schema([pa.field("id", pa.int64()), column])
        rows = pa.table([pa.array(range(start, start + 3), pa.int64()), values], schema=schema)
        lance.write_dataset(rows, uri, mode="append" if start else "create", data_storage_version=version)
    lance.dataset(uri).optimize.compact_files()
    found = between(uri, at(2), at(lance.dataset(uri).version), rows=True)
    assert counts(found) == (0, 0, 0)
    assert found.fragments.removed == 2
    assert "Blobs" in found.notes[0]
    json.dumps(between(uri, at(1), at(2), rows=True).as_record())


def test_examples_are_limited(uri):
    make_dataset(uri, numbers(1), numbers(50, 1))
    found = between(uri, at(1), at(2), rows=True, limit=3)
    assert [dict(each.after) for each in found.examples] == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert counts(found) == (50, 0, 0)


def test_only_two_manifests_are_read(uri, monkeypatch):
    make_dataset(uri, *(numbers(1, start) for start in range(30)))
    read = []
    whole = files.read
    monkeypatch.setattr(files, "read", lambda location, path: read.append(path) or whole(location, path))
    assert counts(between(uri, at(5), at(25))) == (20, 0, 0)
    assert len(read) == 2


def test_a_missing_version_is_named(uri):
    make_dataset(uri, numbers(1))
    with pytest.raises(NotFound, match="no version 9"):
        between(uri, at(1), at(9))


def test_a_lost_or_damaged_deletion_file_is_not_taken_for_an_empty_one(uri, tmp_path):
    make_dataset(uri, numbers(9))
    lance.dataset(uri).delete("id = 1")
    (path,) = (tmp_path / "table.lance" / "_deletions").iterdir()
    path.write_bytes(b"no arrow file")
    with pytest.raises(CorruptData, match="damaged"):
        between(uri, at(1), at(2))
    path.unlink()
    with pytest.raises(NotFound, match="is gone"):
        between(uri, at(1), at(2))


def test_the_oldest_format(uri):
    make_dataset(uri, numbers(20), data_storage_version="legacy", max_rows_per_group=4)
    lance.dataset(uri).delete("id < 3")
    assert counts(both_ways(uri, at(1), at(2))) == (0, 3, 0)
    assert counts(both_ways(uri, at(1), at(2), rows=True)) == (0, 3, 0)
