"""Constraints where rows come other ways than by a write: copies, imports, pushes, compactions, older versions."""

import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.remote_datasets import made_clone, pulled, pushed

from lance_spark import LanceTable
from lance_spark.errors import Conflict, SchemaMismatch
from lance_spark.storage.datasets import locate
from lance_spark.workspace.import_rows import import_files

ROWS = {"id": [1, 2], "x": [1, 2]}
WRONG = pa.table({"id": [9], "x": [-9]})


@pytest.fixture
def table(tmp_path):
    path = str(tmp_path / "t")
    lance.write_dataset(pa.table(ROWS), path)
    found = LanceTable.for_path(path)
    found.constraints.add("positive", "x > 0")
    found.alter_columns(defaults={"x": "7"})
    return found


@pytest.mark.parametrize("how", ["shallow", "deep"])
def test_a_clone_has_the_constraints_and_defaults(table, tmp_path, how):
    table.clone(str(tmp_path / "copy"), how)
    copy = LanceTable.for_path(str(tmp_path / "copy"))
    with pytest.raises(SchemaMismatch, match="CHECK positive"):
        copy.write(WRONG, mode="append")
    copy.write(pa.table({"id": [3]}), mode="append")
    assert sorted(lance.dataset(copy.location.uri).to_table()["x"].to_pylist()) == [1, 2, 7]


def test_an_older_version_comes_back_with_its_constraints(table):
    uri, version = table.location.uri, lance.dataset(table.location.uri).version
    table.constraints.drop("positive")
    table.write(WRONG, mode="append")
    table.restore(version)
    with pytest.raises(SchemaMismatch, match="CHECK positive"):
        table.write(WRONG, mode="append")
    assert lance.dataset(uri).count_rows() == 2


def test_compactions_and_sorts_leave_wrong_rows_of_others(table):
    uri = table.location.uri
    lance.write_dataset(WRONG, uri, mode="append")
    table.optimize(sort_by=["id"])
    assert sorted(lance.dataset(uri).to_table()["x"].to_pylist()) == [-9, 1, 2]
    assert [each.code for each in table.fsck(deep=True).findings] == ["constraint-broken"]


def test_an_import_obeys(table, tmp_path):
    for name, rows in (("wrong", WRONG), ("right", pa.table({"id": [3]}))):
        pq.write_table(rows, tmp_path / f"{name}.parquet")
    given = (table.location, None), {"path": table.location.uri}
    with pytest.raises(SchemaMismatch, match="CHECK positive"):
        import_files(*given[0], [locate(str(tmp_path / "wrong.parquet"))], given[1], False, False)
    import_files(*given[0], [locate(str(tmp_path / "right.parquet"))], given[1], False, False)
    assert sorted(lance.dataset(table.location.uri).to_table()["x"].to_pylist()) == [1, 2, 7]


@pytest.mark.parametrize("way", ["shallow", "deep", "planted"])
def test_a_push_and_a_pull_obey(table, tmp_path, way):
    local, source = str(tmp_path / "local"), table.location.uri
    made_clone(source, local, way)
    with pytest.raises(SchemaMismatch, match="CHECK positive"):
        LanceTable.for_path(local).write(WRONG, mode="append")
    LanceTable.for_path(local).write(pa.table({"id": [3]}), mode="append")
    pushed(local, source)
    LanceTable.for_path(local).constraints.add("low", "x < 50")
    lance.write_dataset(pa.table({"id": [8], "x": [88]}), source, mode="append")
    with pytest.raises(Conflict, match="CHECK low"):
        pulled(local, source)
    assert sorted(lance.dataset(source).to_table()["x"].to_pylist()) == [1, 2, 7, 88]
