"""Rows of pandas and pyarrow, written by this process: in the table's types, or not at all."""

import lance
import pyarrow as pa
import pytest

from lance_spark import LanceCatalog, LanceTable
from lance_spark.errors import AlreadyExists, InvalidOption, Refused, SchemaMismatch

SCHEMA = pa.schema([("id", pa.int32()), ("s", pa.string()), ("at", pa.timestamp("us"))])


@pytest.fixture
def table(tmp_path):
    rows = pa.table({"id": [1], "s": ["a"], "at": [0]}, schema=SCHEMA)
    lance.write_dataset(rows, str(tmp_path / "t.lance"))
    return LanceTable.for_path(str(tmp_path / "t.lance"))


def read(table):
    return lance.dataset(table.location.uri).to_table().to_pylist()


def rows(**columns):
    return pa.table(columns)


def of_pandas(**columns):
    return pytest.importorskip("pandas").DataFrame(columns)


@pytest.mark.parametrize(
    "made",
    [
        lambda: rows(id=[2, None], s=["b", None]),
        lambda: rows(id=[2, None], s=["b", None]).to_batches()[0],
        lambda: rows(id=[2, None], s=["b", None]).to_batches(),
        lambda: rows(id=[2, None], s=["b", None]).to_reader(),
        lambda: rows(id=pa.array([2.0, None]), s=pa.array(["b", None]).dictionary_encode()),
        lambda: of_pandas(id=[2, None], s=["b", None]),
    ],
)
def test_rows_of_any_kind_become_rows_of_the_table(table, made):
    table.write(made(), commit_message="more")
    assert read(table)[1:] == [{"id": 2, "s": "b", "at": None}, {"id": None, "s": None, "at": None}]
    assert lance.dataset(table.location.uri).schema == SCHEMA
    assert table.log(1).entries[0].message == "more"
    assert table.head(1).to_pylist() == read(table)[:1]
    assert table.head(columns="id").column_names == ["id"]
    assert str(table.diff("main~1", rows=True)).splitlines()[0] == "main@1 .. main@2"
    assert "TableDiff" in repr(table.diff("main~1..main"))


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"id": [2**40]}, SchemaMismatch),
        ({"id": [1.5]}, SchemaMismatch),
        ({"id": ["2"]}, SchemaMismatch),
        ({"at": pa.array([1], pa.timestamp("ns"))}, SchemaMismatch),
        ({"idx": [2]}, SchemaMismatch),
    ],
)
def test_values_that_would_change_are_refused_and_nothing_is_written(table, given, error):
    before = read(table)
    with pytest.raises(error):
        table.write(pa.table(given))
    assert (read(table), len(lance.dataset(table.location.uri).versions())) == (before, 1)


def test_what_is_refused(table):
    with pytest.raises(InvalidOption, match="A dict of builtins cannot be written"):
        table.write({"id": [1]})
    with pytest.raises(InvalidOption, match="'ignore' is not a mode"):
        table.write(rows(id=[1]), mode="ignore")
    with pytest.raises(Refused, match="pinned"):
        table.checkout(version=1).write(rows(id=[1]))


def test_branches_and_overwrites(table):
    table.branches.create("exp")
    exp = table.checkout(branch="exp")
    exp.write(rows(id=[5], s=["e"]), mode="overwrite")
    assert (exp.head().to_pylist(), table.count_rows()) == ([{"id": 5, "s": "e"}], 1)


def test_a_table_of_a_catalog_is_made_and_appended_to(tmp_path):
    lake = LanceCatalog(str(tmp_path / "lake"))
    lake.write_table(rows(id=pa.array([1], pa.int16())), "t")
    with pytest.raises(AlreadyExists):
        lake.write_table(rows(id=[2]), "t")
    lake.write_table(rows(id=[2]), "t", mode="ignore")
    lake.write_table(rows(id=[3]), "t", mode="append")
    assert (read(lake.table("t")), lake.table("t").head().schema.field("id").type) == (
        [{"id": 1}, {"id": 3}],
        pa.int16(),
    )
    lake.write_table(of_pandas(id=[9]), "t", mode="overwrite")
    assert read(lake.table("t")) == [{"id": 9}]
