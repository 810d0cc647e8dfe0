"""Deleting on local disks and other stores: honest about every file, and never outside of the dataset's root."""

import os
from pathlib import Path
from unittest.mock import Mock

import fsspec
import pytest

from lance_spark.core.location import DatasetLocation
from lance_spark.errors import StorageFailure
from lance_spark.storage.datasets import locate
from lance_spark.storage.deleting import BATCH, Deleted, delete_batch, remove_empty_directories


@pytest.fixture
def location(uri):
    for path in ("data/a", "data/b c", "data/é", "data/[1]*", "_indices/u/x", "tree/exp/data/1"):
        file = Path(uri, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1")
    return locate(uri)


@pytest.fixture
def memory():
    filesystem = fsspec.filesystem("memory")
    for path in ("data/a", "data/b c", "data/[1]*"):
        filesystem.pipe_file(f"/bucket/t.lance/{path}", b"1")
    yield DatasetLocation.at("memory://bucket/t.lance")
    filesystem.rm("/bucket", recursive=True)


def left(location):
    root = Path(location.uri)
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir() or path.is_symlink()}


def test_files_are_deleted_and_what_was_not_there_is_gone(location):
    before = left(location)
    done = delete_batch(location, ["data/[1]*", "data/none", "data/b c", "none/x", "data/a/x", "data/é"])
    assert done == Deleted(("data/[1]*", "data/b c", "data/é"), ("data/none", "none/x", "data/a/x"), ())
    assert left(location) == before - set(done.deleted)
    assert delete_batch(location, done.deleted) == Deleted((), done.deleted, ())


def test_a_file_that_cannot_be_deleted_fails_and_the_others_do_not(location, monkeypatch):
    real = os.unlink

    def unlink(path):
        if path.endswith("/data/a"):
            raise PermissionError(13, "Permission denied", path)
        real(path)

    monkeypatch.setattr(os, "unlink", unlink)
    done = delete_batch(location, ["data/b c", "data/a", "_indices/u", "data/é"])
    assert (done.deleted, done.gone) == (("data/b c", "data/é"), ())
    reasons = dict(done.failed)
    assert set(reasons) == {"data/a", "_indices/u"}
    assert "Permission denied" in reasons["data/a"]
    assert {"data/a", "_indices/u/x"} <= left(location)


@pytest.mark.parametrize(
    "path", ["", "/", "/etc/x", "..", "../x", "data/../../x", "data/..", ".", "./data/a", "data/", "data/a\0"]
)
def test_what_is_no_path_of_a_file_below_the_root_is_refused_before_anything_is_deleted(location, path):
    before = left(location)
    with pytest.raises(ValueError, match="not the path of a file below"):
        delete_batch(location, ["data/a", path])
    with pytest.raises(ValueError, match="not the path of a file below"):
        remove_empty_directories(location, [path])
    assert left(location) == before


def test_more_than_a_batch_is_refused(location):
    with pytest.raises(ValueError, match="1001 files exceed the 1000"):
        delete_batch(location, ["data/a"] * (BATCH + 1))
    assert "data/a" in left(location)


@pytest.mark.parametrize("inside", [False, True])
def test_nothing_is_deleted_through_a_link(location, tmp_path, inside):
    target = Path(location.uri, "tree") if inside else tmp_path / "outside"
    Path(target, "deep").mkdir(parents=True)
    Path(target, "deep", "precious").write_text("1")
    os.symlink(target, Path(location.uri, "linked"))
    done = delete_batch(location, ["linked/deep/precious", "data/a"])
    assert done.deleted == ("data/a",)
    ((path, reason),) = done.failed
    assert path == "linked/deep/precious"
    assert "symbolic link" in reason
    assert Path(target, "deep", "precious").exists()


def test_a_link_is_deleted_itself_and_not_what_it_leads_to(location, tmp_path):
    (tmp_path / "precious").write_text("1")
    os.symlink(tmp_path / "precious", Path(location.uri, "data", "link"))
    assert delete_batch(location, ["data/link"]).deleted == ("data/link",)
    assert (tmp_path / "precious").exists()


def test_a_root_that_is_reached_through_a_link_is_a_root(location, tmp_path):
    os.symlink(location.uri, tmp_path / "alias")
    assert delete_batch(DatasetLocation.at(str(tmp_path / "alias")), ["data/a"]).deleted == ("data/a",)


def test_empty_directories_are_removed_deepest_first_and_others_stay(location, tmp_path):
    root = Path(location.uri)
    (root / "tree/old/data/deep").mkdir(parents=True)
    (tmp_path / "outside" / "empty").mkdir(parents=True)
    os.symlink(tmp_path / "outside", root / "linked")
    before = left(location)
    remove_empty_directories(
        location,
        ["tree", "tree/old", "tree/old/data", "tree/old/data/deep", "data", "gone", "data/a", "linked", "linked/empty"],
    )
    assert not (root / "tree/old").exists()
    assert (tmp_path / "outside" / "empty").exists()
    assert left(location) == before


def test_an_empty_directory_that_cannot_be_removed_is_an_error(location, monkeypatch):
    monkeypatch.setattr(os, "rmdir", Mock(side_effect=OSError(30, "Read-only file system")))
    with pytest.raises(StorageFailure, match="Read-only"):
        remove_empty_directories(location, ["data"])


def test_another_store_deletes_file_by_file(memory, monkeypatch):
    filesystem, real = fsspec.filesystem("memory"), fsspec.filesystem("memory").rm_file

    def rm_file(path):
        if path.endswith("/data/a"):
            raise RuntimeError("the token hush-hush is not accepted")
        real(path)

    monkeypatch.setattr("lance_spark.storage.files.open_filesystem", lambda _: filesystem)
    monkeypatch.setattr(filesystem, "rm_file", rm_file)
    location = DatasetLocation.at(memory.uri, {"token": "hush-hush"})
    done = delete_batch(location, ["data/a", "data/none", "data/[1]*"])
    assert (done.deleted, done.gone) == (("data/[1]*",), ("data/none",))
    ((path, reason),) = done.failed
    assert path == "data/a"
    assert "is not accepted" in reason
    assert "hush-hush" not in reason
    assert set(filesystem.find("/bucket")) == {"/bucket/t.lance/data/a", "/bucket/t.lance/data/b c"}
