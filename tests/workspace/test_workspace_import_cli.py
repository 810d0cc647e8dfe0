"""``lance-git import``: rows of files as one version, or none."""

import gzip

import lance
import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from support.command_line import call

SCHEMA = pa.schema([("id", pa.int32()), ("s", pa.string())])
ROWS = [{"id": 7, "s": "q"}, {"id": 8, "s": None}]


@pytest.fixture
def table(tmp_path):
    lance.write_dataset(pa.table({"id": [1], "s": ["a"]}, schema=SCHEMA), str(tmp_path / "t.lance"))
    (tmp_path / "f.csv").write_text("id,s\n7,q\n")
    (tmp_path / "f.tsv").write_text("id\ts\n7\tq\n")
    (tmp_path / "f.csv.gz").write_bytes(gzip.compress(b"id,s\n7,q\n"))
    (tmp_path / "f.json").write_text('{"id": 7, "s": "q"}\n{"id": 8, "s": null}\n')
    parquet.write_table(pa.Table.from_pylist(ROWS), tmp_path / "f.parquet")
    feather.write_feather(pa.Table.from_pylist(ROWS), str(tmp_path / "f.arrow"))
    return tmp_path / "t.lance"


def read(table):
    dataset = lance.dataset(str(table))
    return dataset.to_table().to_pylist(), len(dataset.versions())


def imported(table, *words):
    return call(table, "import", *words)


@pytest.mark.parametrize("name", ["f.csv", "f.tsv", "f.csv.gz", "f.json", "f.parquet", "f.arrow"])
def test_a_file_is_one_version_in_the_types_of_the_dataset(table, name):
    rows = ROWS if name.rpartition(".")[2] in ("json", "parquet", "arrow") else ROWS[:1]
    assert imported(table, f"../{name}", "--dry-run").out == (
        f"{len(rows)} row{'s' if len(rows) > 1 else ''} would be appended to main.\n"
    )
    assert read(table)[1] == 1
    assert imported(table, f"../{name}", "--json").json["rows"] == len(rows)
    assert read(table) == ([{"id": 1, "s": "a"}, *rows], 2)
    assert lance.dataset(str(table)).schema == SCHEMA


def test_many_files_are_one_version_or_none(table):
    assert imported(table, "../f.parquet", "../f.csv", "-m", "both").out == "3 rows appended as main@2.\n"
    (table.parent / "bad.csv").write_text("id,s\nx,q\n")
    for words in (("../f.parquet", "../bad.csv"), ("../f.parquet", "../nowhere.csv"), ("../t.lance",)):
        assert imported(table, *words).code in (2, 10)
        assert read(table)[1] == 2
    (table.parent / "other.csv").write_text("s,id\nq,3\n")
    assert imported(table, "../f.csv", "../other.csv").code == 5
    (table.parent / "more.csv").write_text("id,new\n3,4\n")
    assert imported(table, "../more.csv").code == 5
    assert imported(table, "../more.csv", "--merge-schema").code == 0
    assert read(table)[0][-1] == {"id": 3, "s": None, "new": 4}


def test_an_overwrite_asks_first(table):
    assert imported(table, "../f.csv", "--overwrite").code == 3
    assert imported(table, "../f.csv", "--overwrite", "--yes").out == "1 row written as main@2.\n"
    assert read(table)[0] == ROWS[:1]
