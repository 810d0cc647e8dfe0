"""Rows that both sides updated, beside blobs and structs whose fields changed: compared, though never written."""

import lance
import pyarrow as pa
import pytest
from support.merge_datasets import clean_all, error_of, head, run

from lance_spark import LanceTable
from lance_spark.columns.columns import alter_columns
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict
from lance_spark.format.evolution import AddColumn
from lance_spark.storage.datasets import locate

BYTES = [b"one", None, b"", b"four" * 20_000]
KEY = {b"lance-schema:unenforced-primary-key": b"true"}
BOTH = pytest.mark.parametrize("stable", [False, True], ids=["key", "stable ids"])


def forked(path, stable, *columns):
    """A table of ids 0 to 3, numbers v and w, and more columns; with the branch exp."""
    uri = str(path / "t.lance")
    known = [(pa.field("id", pa.int64(), stable, None if stable else KEY), range(4))]
    known += [(pa.field(name, pa.int64()), range(4)) for name in "vw"]
    known += columns
    arrays = [values if isinstance(values, pa.Array) else pa.array(values, field.type) for field, values in known]
    rows = pa.table(arrays, schema=pa.schema([field for field, _ in known]))
    version = "2.2" if any(isinstance(field.type, pa.ExtensionType) for field, _ in columns) else "2.1"
    lance.write_dataset(rows, uri, enable_stable_row_ids=stable, data_storage_version=version)
    head(uri).create_branch("exp")
    return uri


def blobs(way):
    if way == "extension":
        return lance.blob_field("b"), lance.blob_array(BYTES)
    return pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}), BYTES


def held(dataset):
    """The bytes of each row, by id."""
    rows = dataset.scanner(columns=["id", "b"], blob_handling="all_binary").to_table()
    return dict(zip(rows["id"].to_pylist(), rows["b"].to_pylist(), strict=True))


def numbers(dataset):
    rows = dataset.to_table(columns=["id", "v", "w"]).to_pylist()
    return {row["id"]: (row["v"], row["w"]) for row in rows}


def with_bytes(uri, branch, key, content):
    """Another blob in a row, under the same id where ids are stable."""
    dataset = head(uri, branch)
    rows = dataset.to_table(columns=["id", "v", "w"], filter=f"id = {key}")
    field = dataset.schema.field("b")
    values = (
        lance.blob_array([content]) if isinstance(field.type, pa.ExtensionType) else pa.array([content], field.type)
    )
    dataset.merge_insert("id").when_matched_update_all().execute(rows.append_column(field, values).combine_chunks())


@BOTH
@pytest.mark.parametrize("way", ["marked", "extension"])
def test_rows_keep_their_blobs_when_both_sides_update_them(tmp_path, stable, way):
    uri = forked(tmp_path, stable, blobs(way))
    head(uri).update({"v": "70"}, where="id < 4")
    head(uri, "exp").update({"w": "80"}, where="id < 4")
    assert not run(uri, dry_run=True).conflicts
    run(uri)
    assert numbers(head(uri)) == dict.fromkeys(range(4), (70, 80))
    assert held(head(uri)) == dict(enumerate(BYTES))
    assert LanceTable.for_path(uri).fsck(deep=True).sound
    run(uri, None, "exp")
    assert held(head(uri, "exp")) == dict(enumerate(BYTES))


@BOTH
@pytest.mark.parametrize("way", ["marked", "extension"])
@pytest.mark.parametrize("key", [0, 1])
def test_a_blob_that_one_side_replaced_is_kept_or_a_conflict(tmp_path, stable, way, key):
    uri = forked(tmp_path, stable, blobs(way))
    with_bytes(uri, None, key, b"two")
    head(uri, "exp").update({"w": "80"}, where=f"id = {key}")
    planned = run(uri, None, "exp", dry_run=True).conflicts
    assert "whose blobs" in str(planned[0])
    assert isinstance(error_of(uri, None, "exp"), Conflict)
    run(uri)
    assert held(head(uri))[key] == b"two"
    assert numbers(head(uri))[key] == (key, 80)


def test_two_new_blobs_in_one_row_are_a_conflict_that_tells_their_sizes(tmp_path):
    uri = forked(tmp_path, True, blobs("marked"))
    with_bytes(uri, None, 0, b"main's")
    with_bytes(uri, "exp", 0, b"exp's own")
    (row,) = run(uri, dry_run=True).conflicts[0].contested
    assert (row.ours["b"][:7], row.theirs["b"][:7]) == ("6 bytes", "9 bytes")
    assert isinstance(error_of(uri, prefer="theirs"), Conflict)
    run(uri, prefer="ours")
    assert held(head(uri))[0] == b"main's"


STRUCTS = pa.field("s", pa.struct([("a", pa.int64()), ("b", pa.struct([("x", pa.int64()), ("y", pa.int64())]))]))
NESTED = [{"a": 1, "b": {"x": 5, "y": 6}}, {"a": None, "b": None}, None, {"a": 4, "b": {"x": None, "y": 7}}]
CHANGES = {
    "add": lambda uri, branch: add_fields(uri, branch, "z"),
    "add deep": lambda uri, branch: add_fields(uri, branch, "b.z"),
    "drop": lambda uri, branch: head(uri, branch).drop_columns(["s.b.x"]),
    "rename": lambda uri, branch: head(uri, branch).alter_columns({"path": "s.b.y", "name": "other"}),
}


def add_fields(uri, branch, path):
    return alter_columns(locate(uri), branch, [AddColumn(("s", *path.split(".")), pa.int64())], LocalRunner(1))


def changed(row, change):
    """A struct after a change of its fields."""
    if row is None:
        return None
    inner = None if row["b"] is None else dict(row["b"])
    if change == "add":
        return {**row, "z": None}
    if inner is not None and change == "add deep":
        inner["z"] = None
    elif inner is not None and change == "drop":
        inner.pop("x")
    elif inner is not None and change == "rename":
        inner["other"] = inner.pop("y")
    return {**row, "b": inner}


@pytest.mark.when(day=0.1)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("side", [None, "exp"], ids=["ours", "theirs"])
def test_rows_that_both_sides_updated_keep_a_struct_whose_fields_one_side_changed(tmp_path, change, side):
    uri = forked(tmp_path, False, (STRUCTS, NESTED))
    CHANGES[change](uri, side)
    head(uri).update({"v": "70"}, where="id < 4")
    head(uri, "exp").update({"w": "80"}, where="id < 4")
    planned = run(uri, dry_run=True)
    assert not planned.conflicts
    assert run(uri).summary == planned.summary
    assert numbers(head(uri)) == dict.fromkeys(range(4), (70, 80))
    found = {row["id"]: row["s"] for row in head(uri).to_table().to_pylist()}
    assert found == {at: changed(row, change) for at, row in enumerate(NESTED)}
    assert LanceTable.for_path(uri).fsck(deep=True).sound


def test_a_value_in_a_struct_whose_fields_changed_is_kept_or_a_conflict(tmp_path):
    uri = forked(tmp_path, True, (STRUCTS, NESTED))
    add_fields(uri, None, "z")
    head(uri).update({"v": "70"}, where="id = 0")
    value = "named_struct('a', cast(9 as bigint), 'b', s.b)"
    head(uri, "exp").update({"s": value}, where="id = 0")
    assert "changed structs" in str(error_of(uri))
    clean_all(uri)
    assert run(uri, None, "exp", dry_run=True).conflicts == ()
