"""A new dataset takes the columns of what people have, and a call that was interrupted can be made again."""

import gzip
from unittest.mock import Mock

import lance
import pyarrow as pa
import pytest
from pyarrow import csv, feather, ipc, parquet
from support.command_line import call, config

from lance_spark.core.workspace import RemoteEntry, Workspace
from lance_spark.workspace.workspace_files import create_workspace

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
        "dataset_created": True,
        "workspace_created": True,
        "dry_run": True,
    }
    assert not list(tmp_path.iterdir())


WRONG = [
    (("old.lance", "--from", "twice.csv"), 11, "already, and it has its own columns"),
    (("plain.lance", "--from", "note.txt"), 11, "already, and it has its own columns"),
    (("plain.lance", "old.lance"), 11, "already has a workspace"),
    (("new.lance", "old.lance"), 11, "already has a workspace"),
    (("plain.lance/data",), 3, "is inside the dataset"),
    (("plain.lance/tree/exp",), 3, "is inside the dataset"),
    (("plain.lance/new.lance", "new"), 3, "is inside the dataset"),
    (("torn.lance",), 22, "is empty"),
    (("new.lance", "--from", "nowhere.parquet"), 10, "There is no file"),
    (("new.lance", "--from", "empty"), 2, "contains no table"),
    (("new.lance", "--from", "note.txt"), 2, "is not a readable table"),
    (("new.lance", "--from", "broken.parquet"), 2, "cannot be read"),
    (("new.lance", "--from", "twice.csv"), 5, "has two columns 'a'"),
    (("s3://key:hush-hush@bucket/t",), 2, "The URI has credentials in it"),
    (("s3://bucket/a?b",), 2, "cannot be the URI of a dataset"),
    ((), 2, "Missing argument 'URI'."),
]


@pytest.mark.parametrize(("arguments", "code", "words"), WRONG, ids=[" ".join(wrong[0]) for wrong in WRONG])
def test_a_refused_init_leaves_nothing(tmp_path, arguments, code, words):
    assert call(tmp_path, "init", "old.lance").code == 0
    lance.write_dataset(TABLE, str(tmp_path / "plain.lance")).create_branch("exp")
    lance.write_dataset(TABLE, str(tmp_path / "torn.lance"))
    (manifest,) = (tmp_path / "torn.lance" / "_versions").glob("*.manifest")
    manifest.write_bytes(bytes(manifest.stat().st_size))
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
    from lance_spark.errors import StorageFailure
    from lance_spark.workspace import init

    monkeypatch.setattr(init, "create_dataset", Mock(side_effect=StorageFailure("The disk is full.")))
    assert call(tmp_path, "init", "new.lance").code == 20
    assert not list(tmp_path.iterdir())


def test_an_interrupted_init_is_finished_by_the_same_call(tmp_path):
    call(tmp_path, "init", "new.lance")
    for path in ("_versions", "_transactions"):
        for file in (tmp_path / "new.lance" / path).iterdir():
            file.unlink()
    assert call(tmp_path, "init", "new.lance").code == 0
    assert lance.dataset(str(tmp_path / "new.lance")).version == 1


@pytest.fixture
def plain(tmp_path):
    """A dataset that somebody wrote with pylance, with a branch and a tag."""
    dataset = lance.write_dataset(TABLE, str(tmp_path / "flights.lance"))
    dataset.create_branch("exp")
    dataset.tags.create("v1", 1)
    return tmp_path / "flights.lance"


def _content(directory):
    """All files of a dataset with their bytes and times, but for the workspace."""
    return {
        path: (path.stat().st_mtime_ns, path.read_bytes())
        for path in directory.rglob("*")
        if path.is_file() and ".lance-git" not in path.parts
    }


def test_an_existing_dataset_gets_a_workspace_and_stays_as_it_is(plain):
    before = _content(plain)
    trial = call(plain, "init", ".", "--dry-run")
    said = f"Dataset {plain} already exists and stays as it is; workspace"
    assert trial.out == f"{said} would be created in {plain}.\n"
    assert not (plain / ".lance-git").exists()

    assert call(plain, "init", ".").out == f"{said} created in {plain}.\n"
    assert 'dataset = "."' in config(plain)
    assert _content(plain) == before
    assert call(plain, "switch", "exp").out == "Switched to branch 'exp'.\n"


def test_a_second_init_says_so_and_changes_nothing(plain):
    call(plain, "init", ".")
    call(plain, "switch", "exp")
    before, workspace = _content(plain), config(plain)
    for uri, directory in ((".", plain), ("flights.lance", plain.parent), ("../flights.lance/", plain)):
        for trial in ((), ("--dry-run",)):
            done = call(directory, "init", uri, *trial)
            assert (done.code, done.out) == (0, f"Dataset {plain} and its workspace in {plain} already exist.\n")
    assert (_content(plain), config(plain)) == (before, workspace)


@pytest.mark.parametrize("trial", [(), ("--dry-run",)], ids=["", "trial"])
def test_what_was_made_is_in_the_json(tmp_path, plain, trial):
    told = {"action": "init", "dataset": str(plain), "columns": TABLE.schema.names, "workspace": str(plain)}
    there = {"dataset_created": False, "workspace_created": True, "dry_run": bool(trial)}
    assert call(plain, "init", ".", "--json", *trial).json == {**told, **there}
    call(plain, "init", ".")
    assert call(plain, "init", ".", "--json", *trial).json == {**told, **there, "workspace_created": False}
    elsewhere = call(plain, "init", ".", "../work", "--json", *trial).json
    assert elsewhere == {**told, **there, "workspace": f"{tmp_path}/work"}


def test_the_workspace_of_an_existing_dataset_can_be_elsewhere(tmp_path, plain):
    before = _content(plain)
    assert call(tmp_path, "init", "flights.lance", "work").code == 0
    assert call(tmp_path / "work", "checkout", "exp").code == 0
    assert not (plain / ".lance-git").exists()
    assert _content(plain) == before


def test_in_a_workspace_for_the_dataset_init_makes_no_second_one(tmp_path, plain):
    call(tmp_path, "init", "flights.lance", "work")
    (tmp_path / "work" / "deep").mkdir()
    for place, uri in (("work", "../flights.lance"), ("work/deep", plain)):
        done = call(tmp_path / place, "init", uri)
        assert done.out == f"Dataset {plain} and its workspace in {tmp_path}/work already exist.\n"
    assert call(tmp_path / "work", "init", "../other.lance").out.endswith(f"workspace in {tmp_path}/other.lance.\n")
    assert call(tmp_path / "work", "init", plain, plain).out.endswith(f"workspace created in {plain}.\n")


def test_whoever_may_not_write_there_learns_where_the_workspace_can_be(tmp_path, plain, monkeypatch):
    from lance_spark.errors import PermissionDenied
    from lance_spark.workspace import workspace_files

    monkeypatch.setattr(workspace_files, "create_workspace", Mock(side_effect=PermissionDenied("Permission denied.")))
    done = call(plain, "init", ".")
    assert done.code == 21
    assert f"hint: Put the workspace into a directory of your own: lance-git init {plain} DIR." in done.error


def test_in_a_datasets_own_directories_init_names_the_dataset(plain):
    before = _content(plain)
    for below in ("data", "_versions", "tree", "tree/exp", "tree/exp/_versions"):
        done = call(plain / below, "init", ".")
        assert done.code == 3
        assert f"is inside the dataset {plain}." in done.error
        assert f"lance-git init {plain}." in done.error
    assert _content(plain) == before
    assert not list(plain.parent.rglob(".lance-git"))


def test_a_dataset_inside_another_ones_directory_can_have_a_workspace(plain):
    lance.write_dataset(TABLE, str(plain / "copies" / "copy.lance"))
    done = call(plain, "init", "copies/copy.lance", "--json").json
    assert (done["dataset"], done["dataset_created"]) == (f"{plain}/copies/copy.lance", False)


def test_a_dataset_that_came_in_between_is_not_touched(plain, tmp_path, monkeypatch):
    from lance_spark.workspace import init

    monkeypatch.setattr(init, "find_latest", lambda *_: None)
    before = _content(plain)
    done = call(tmp_path, "init", "flights.lance")
    assert done.code == 11
    assert _content(plain) == before
    assert not (plain / ".lance-git").exists()


def test_a_clone_that_is_not_finished_gets_no_dataset(plain, tmp_path):
    """An empty dataset in its place could never be made what the clone was to be."""
    place = tmp_path / "clone"
    create_workspace(str(place), Workspace(".", "main", {"origin": RemoteEntry("origin", str(plain))}, "main@1"))
    done = call(tmp_path, "init", "clone")
    assert done.code == 3
    assert f"Finish it: lance-git clone {plain} {place}" in done.error
    assert [path.name for path in place.iterdir()] == [".lance-git"]
