"""A new dataset takes the columns of what people have, and a call that was interrupted can be made again."""

from __future__ import annotations

import gzip

import lance
import pyarrow as pa
import pytest
from pyarrow import csv, feather, ipc, parquet
from running import call, config

TABLE = pa.table({"id": pa.array([1], pa.int64()), "name": ["a"], "when": pa.array([0], pa.timestamp("us"))})


def _stream(path):
    with ipc.new_stream(path, TABLE.schema) as stream:
        stream.write_table(TABLE)


def _spark(path):
    path.mkdir()
    (path / "_SUCCESS").write_text("")
    parquet.write_table(TABLE, path / "part-00000.snappy.parquet")


def _gz(path):
    with gzip.open(path, "wb") as file:
        csv.write_csv(TABLE, file)


SOURCES = {
    "t.parquet": lambda path: parquet.write_table(TABLE, path),
    "t.feather": lambda path: feather.write_feather(TABLE, str(path)),
    "t.arrows": _stream,
    "spark.parquet": _spark,
    "t.lance": lambda path: lance.write_dataset(TABLE, str(path)),
    "t.csv.gz": _gz,
}


@pytest.mark.parametrize("name", SOURCES)
def test_columns_come_from(tmp_path, name):
    SOURCES[name](tmp_path / name)
    done = call(tmp_path, "init", "new.lance", "--from", name, "--json").json
    assert done["columns"] == TABLE.schema.names
    made = lance.dataset(str(tmp_path / "new.lance"))
    assert (made.count_rows(), made.version) == (0, 1)
    if "csv" not in name:
        assert made.schema.equals(TABLE.schema)


def test_a_csv_column_without_values_is_text(tmp_path):
    (tmp_path / "t.csv").write_text("id,note\n1,\n2,\n")
    assert call(tmp_path, "init", "new.lance", "--from", "t.csv").code == 0
    assert lance.dataset(str(tmp_path / "new.lance")).schema == pa.schema([("id", pa.int64()), ("note", pa.string())])


def test_without_columns_the_first_overwrite_brings_them(tmp_path):
    done = call(tmp_path, "init", "new.lance")
    assert "with no columns yet" in done.out
    assert call(tmp_path / "new.lance", "branch", "exp").code == 0
    lance.write_dataset(TABLE, str(tmp_path / "new.lance"), mode="overwrite")
    assert lance.dataset(str(tmp_path / "new.lance")).to_table() == TABLE


def test_the_workspace_can_be_elsewhere(tmp_path):
    assert call(tmp_path, "init", "new.lance", "work").code == 0
    assert f'dataset = "{tmp_path}/new.lance"' in config(tmp_path / "work")
    assert call(tmp_path / "work", "checkout", "-b", "exp").code == 0
    assert not (tmp_path / "new.lance" / ".lance-git").exists()


def test_a_dataset_that_is_its_workspace_can_be_moved(tmp_path):
    call(tmp_path, "init", "new.lance")
    assert 'dataset = "."' in config(tmp_path / "new.lance")
    (tmp_path / "new.lance").rename(tmp_path / "moved.lance")
    assert call(tmp_path / "moved.lance", "tag", "v1", "--json").json["at"] == {"branch": "main", "version": 1}


def test_a_trial_makes_nothing(tmp_path):
    done = call(tmp_path, "init", "new.lance", "--dry-run", "--json").json
    assert done == {
        "action": "init",
        "dataset": f"{tmp_path}/new.lance",
        "columns": [],
        "workspace": f"{tmp_path}/new.lance",
        "dry_run": True,
    }
    assert not list(tmp_path.iterdir())


WRONG = [
    (("old.lance",), 11, "There is a dataset at"),
    (("new.lance", "old.lance"), 11, "There is a workspace in"),
    (("new.lance", "--from", "nowhere.parquet"), 10, "There is no file"),
    (("new.lance", "--from", "empty"), 2, "holds no table"),
    (("new.lance", "--from", "note.txt"), 2, "is no table that can be read here"),
    (("new.lance", "--from", "broken.parquet"), 2, "cannot be read"),
    (("new.lance", "--from", "twice.csv"), 5, "has two columns 'a'"),
    (("s3://key:hush-hush@bucket/t",), 2, "The URI has credentials in it"),
    (("s3://bucket/a?b",), 2, "cannot be the URI of a dataset"),
    ((), 2, "Missing argument 'URI'."),
]


@pytest.mark.parametrize(("arguments", "code", "words"), WRONG, ids=[" ".join(wrong[0]) for wrong in WRONG])
def test_a_refused_init_leaves_nothing(tmp_path, arguments, code, words):
    assert call(tmp_path, "init", "old.lance").code == 0
    (tmp_path / "empty").mkdir()
    (tmp_path / "note.txt").write_text("hello")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and then nothing PAR1")
    (tmp_path / "twice.csv").write_text("a,a\n1,2\n")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    done = call(tmp_path, "init", *arguments)
    assert done.code == code
    assert words in done.error
    assert "hush-hush" not in done.err
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_dataset_that_cannot_be_made_leaves_no_workspace(tmp_path, monkeypatch):
    from lance_spark.actions import init
    from lance_spark.errors import StorageFailure

    def fail(*_):
        raise StorageFailure("The disk is full.")

    monkeypatch.setattr(init, "create_dataset", fail)
    assert call(tmp_path, "init", "new.lance").code == 20
    assert not list(tmp_path.iterdir())


def test_an_interrupted_init_is_finished_by_the_same_call(tmp_path):
    call(tmp_path, "init", "new.lance")
    for path in ("_versions", "_transactions"):
        for file in (tmp_path / "new.lance" / path).iterdir():
            file.unlink()
    assert call(tmp_path, "init", "new.lance").code == 0
    assert lance.dataset(str(tmp_path / "new.lance")).version == 1
