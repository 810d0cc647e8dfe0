"""What a local disk says: a full, read-only or lost one has its own words, hint and exit code."""

import errno
import os
from unittest.mock import Mock

import lance
import pytest
from support.local_datasets import make_dataset, numbers

from lance_spark import CleanupPolicy, LanceTable
from lance_spark.core.location import DatasetLocation
from lance_spark.core.workspace import Workspace
from lance_spark.errors import InvalidName, PermissionDenied, Refused, StorageFailure, StorageFull
from lance_spark.storage import small_files
from lance_spark.storage.failures import from_fsspec, from_pylance, of_local_file
from lance_spark.workspace.workspace_files import create_workspace

HERE = DatasetLocation("/data/t.lance")
IN_S3 = DatasetLocation("s3://bucket/t.lance")
BY_PYLANCE = (
    "LanceError(IO): Generic LocalFileSystem error: Unable to copy data to file: {} (os error {}), "
    "/home/x/object_writer.rs:331:58"
)


@pytest.mark.pure
@pytest.mark.parametrize(
    ("number", "kind", "code", "says", "hint"),
    [
        (errno.ENOSPC, StorageFull, 23, "The disk is full", "Free space"),
        (errno.EDQUOT, StorageFull, 23, "The disk quota is used up", "Free space"),
        (errno.EROFS, PermissionDenied, 21, "The file system is read-only", "Mount it for writing"),
        (errno.EACCES, PermissionDenied, 21, "The operating system denied access", "owner and the mode"),
        (errno.EPERM, PermissionDenied, 21, "The operating system denied access", "owner and the mode"),
        (errno.ENAMETOOLONG, InvalidName, 2, "longer than the file system allows", "shorter"),
        (errno.ESTALE, StorageFailure, 20, "lost track of a file", "mount the file system again"),
        (errno.EIO, StorageFailure, 20, "could not be read or written", "Check the disk"),
        (errno.EMFILE, StorageFailure, 20, "too many open files", "ulimit"),
    ],
)
def test_the_system_s_errors_have_their_own_words(number, kind, code, says, hint):
    told = os.strerror(number)
    for error in (
        from_pylance(OSError(BY_PYLANCE.format(told, number)), HERE, "creating tag 'v1'"),
        from_fsspec(OSError(number, told, "/data/t.lance/_cleanup/x"), HERE),
    ):
        assert (type(error), error.exit_code) == (kind, code)
        assert says in error.message
        assert hint in error.hint
        assert "endpoint" not in error.hint
    error = of_local_file(OSError(number, told), "/data/.lance-git/config.toml", "written")
    assert (type(error), error.exit_code) == (kind, code)
    assert error.message == f"/data/.lance-git/config.toml cannot be written: {told}."
    assert hint in error.hint


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_the_file_of_a_workspace_that_cannot_be_written_leaves_nothing_behind(tmp_path, monkeypatch, number):
    monkeypatch.setattr(os, "replace", Mock(side_effect=OSError(number, os.strerror(number))))
    workspace = Workspace(str(tmp_path / "t.lance"))
    with pytest.raises((StorageFull, PermissionDenied), match=r"config\.toml cannot be written"):
        create_workspace(str(tmp_path), workspace)
    assert os.listdir(tmp_path) == []


@pytest.mark.pure
def test_numbers_in_answers_of_an_object_store_mean_nothing():
    error = from_pylance(OSError("Generic S3 error: connection reset (os error 28)"), IN_S3, "reading")
    assert type(error) is StorageFailure
    assert "endpoint" in error.hint


@pytest.fixture
def history(uri):
    make_dataset(uri, numbers(3))
    for start in (10, 20):
        lance.write_dataset(numbers(3, start), uri, mode="overwrite")
    return uri


def full(monkeypatch, below):
    """The disk has no room for files in some directory."""
    write = small_files._write_durably

    def fails(path, content):
        if below in path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        write(path, content)

    monkeypatch.setattr(small_files, "_write_durably", fails)


def test_a_cleanup_frees_space_on_a_full_disk(history, monkeypatch):
    full(monkeypatch, "_cleanup")
    report = LanceTable.for_path(history).cleanup(CleanupPolicy(retain_versions=1, commit_window="0s")).apply()
    assert report.complete
    assert len(os.listdir(f"{history}/data")) == 1
    assert os.listdir(f"{history}/_cleanup") == []
    assert lance.dataset(history).to_table()["id"].to_pylist() == [20, 21, 22]
    assert LanceTable.for_path(history).fsck(deep=True).sound


def test_a_cleanup_killed_on_a_full_disk_leaves_every_listed_version_readable(history, monkeypatch):
    from lance_spark.cleanup import cleanup

    full(monkeypatch, "_cleanup")
    done, delete = [], cleanup.delete_batch

    def dies(location, paths):
        if done:
            raise KeyboardInterrupt
        done.append(paths)
        return delete(location, paths)

    monkeypatch.setattr(cleanup, "delete_batch", dies)
    with pytest.raises(KeyboardInterrupt):
        LanceTable.for_path(history).cleanup(CleanupPolicy(retain_versions=1, commit_window="0s")).apply()
    assert all(path.startswith("_versions/") for path in done[0])
    assert [each["version"] for each in lance.dataset(history).versions()] == [3]
    monkeypatch.undo()
    table = LanceTable.for_path(history)
    table.cleanup(CleanupPolicy(retain_versions=1, commit_window="0s", unverified_age="0s")).apply()
    assert len(os.listdir(f"{history}/data")) == 1


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    with pytest.raises(StorageFull):
        small_files.write_file(DatasetLocation(str(tmp_path)), "note.json", b"{}")
    assert os.listdir(tmp_path) == []


def test_cleanup_and_fsck_agree_about_a_linked_directory(history, tmp_path):
    os.rename(f"{history}/data", tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", f"{history}/data")
    table = LanceTable.for_path(history)
    (finding,) = table.fsck().findings
    assert (finding.code, finding.path) == ("directory-linked", "data")
    with pytest.raises(Refused, match=r"data of .* is a symbolic link"):
        table.cleanup(CleanupPolicy(retain_versions=1, commit_window="0s"))
    assert len(os.listdir(tmp_path / "elsewhere")) == 3
