"""Frozen sets of tables whose blobs are in objects elsewhere: a changed object is noticed."""

import lance
import pyarrow as pa
import pytest
from support.referring import made_objects, mixed, refer

from lance_spark import LanceTable
from lance_spark.errors import CorruptData, NotFound
from lance_spark.training.reading import open_split

CHANGES = {
    "another size": lambda path: path.write_bytes(b"0123456789more"),
    "the same size": lambda path: path.write_bytes(b"9876543210"),
    "gone": lambda path: path.unlink(),
}


@pytest.fixture
def elsewhere(tmp_path):
    return made_objects(tmp_path / "else where")


@pytest.fixture
def table(tmp_path, elsewhere):
    uri = str(tmp_path / "t.lance")
    blobs, values = mixed(elsewhere.as_uri())
    refer(uri, blobs)
    table = LanceTable.for_path(uri)
    table.frozen.create("s", split={"train": 0.5, "val": 0.5}, seed=3)
    return table, dict(enumerate(values))


def rows(table, columns=("id", "payload")):
    return pa.Table.from_batches(table.frozen.batches("s", columns=list(columns)))


def test_objects_as_they_were_are_read(table):
    found = rows(table[0])
    assert dict(zip(found["id"].to_pylist(), found["payload"].to_pylist(), strict=True)) == table[1]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_object_is_noticed_by_whoever_reads_its_rows(table, elsewhere, change):
    handle, values = table
    CHANGES[change](elsewhere / "whole")
    error = NotFound if change == "gone" else CorruptData
    with pytest.raises(error, match="whole" if change == "gone" else r"whole(.|\n)*changed since the set was frozen"):
        rows(handle)
    assert rows(handle, ["id"]).num_rows == 8
    split = open_split(handle.location.uri, "s", columns=["id", "payload"])
    place = open_split(handle.location.uri, "s", columns=["id"]).read(range(8))["id"].to_pylist().index(0)
    with pytest.raises(error):
        split.read([place])
    others = split.read([other for other in range(8) if other != place])
    assert dict(zip(others["id"].to_pylist(), others["payload"].to_pylist(), strict=True)) == {
        row: value for row, value in values.items() if row
    }


def test_nothing_is_frozen_that_cannot_be_read(tmp_path, elsewhere):
    uri = str(tmp_path / "u.lance")
    refer(uri, mixed(elsewhere.as_uri())[0])
    (elsewhere / "part").unlink()
    with pytest.raises(NotFound, match=r"part(.|\n)*cannot be frozen"):
        LanceTable.for_path(uri).frozen.create("s")
    assert LanceTable.for_path(uri).frozen.list() == []
    assert lance.dataset(uri).tags.list() == {}


def test_row_ids_come_with_the_rows_for_files_and_ranges(table):
    handle, values = table
    found = rows(handle, ["_rowid", "id"])
    assert found.schema.names == ["_rowid", "id"]
    files = handle.blobs("payload").open(found["_rowid"].to_pylist())
    assert {row: file and file.read() for row, file in zip(found["id"].to_pylist(), files, strict=True)} == values
    assert sorted(rows(handle, ["_rowid"])["_rowid"].to_pylist()) == sorted(found["_rowid"].to_pylist())
