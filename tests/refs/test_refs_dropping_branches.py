"""Deleting branches while others come and go: the branch is gone with its files, and nothing else is."""

import os
import shutil
from pathlib import Path

import lance
import pytest
from support.cleanup_datasets import append, files
from support.local_datasets import make_dataset
from support.processes import Job, Team

from lance_spark.core.layout import read_manifest_name
from lance_spark.core.refs import RefSpec
from lance_spark.errors import PermissionDenied, Refused, StorageFailure
from lance_spark.refs.refs import create_branch, delete_branch, list_branches
from lance_spark.storage import refs
from lance_spark.storage.datasets import locate

ROUNDS = 60


@pytest.fixture
def team():
    with Team(2) as made:
        yield made


def make_and_drop(uri, worker):
    """Branches that come and go, without a pause."""
    for number in range(ROUNDS):
        name = f"exp/{worker}-{number}"
        create_branch(locate(uri), name, RefSpec())
        append(uri, 100, branch=name)
        delete_branch(locate(uri), name)


@pytest.mark.slow
def test_two_processes_that_make_and_delete_branches_at_once_hear_nothing_of_each_other(uri, team):
    before = make_dataset(uri)
    there = files(uri)
    team.run([Job(make_and_drop, (uri, worker)) for worker in range(2)])
    assert list_branches(locate(uri)) == []
    assert files(uri) == there
    assert lance.dataset(uri).to_table() == before.to_table()


def test_the_newest_manifest_goes_after_the_older_ones_and_before_any_data(uri):
    """It may say that the branch is being deleted, which the older ones deny."""
    dataset = make_dataset(uri)
    create_branch(locate(uri), "exp", RefSpec())
    for _ in range(2):
        lance.write_dataset(dataset.to_table(), dataset.checkout_version(("exp", None)), mode="append")
    names = [path.removeprefix("tree/exp/") for path in refs._own_files(locate(uri), "exp")]
    manifests = [path.removeprefix("_versions/") for path in names if path.endswith(".manifest")]
    assert [read_manifest_name(name).version for name in manifests] == [1, 2, 3]
    assert names.index(f"_versions/{manifests[-1]}") < min(names.index(name) for name in names if "data/" in name)


def test_a_branch_that_another_job_is_making_beside_it_stays(uri):
    """The last branch below ``exp/`` that has a ref goes while another one has its manifest and no ref yet."""
    make_dataset(uri)
    for name in ("exp/old", "exp/new"):
        create_branch(locate(uri), name, RefSpec())
    ref = Path(uri, "_refs/branches/exp%2Fnew.json")
    shutil.move(ref, Path(uri).parent / "ref.json")
    delete_branch(locate(uri), "exp/old")
    shutil.move(Path(uri).parent / "ref.json", ref)
    assert lance.dataset(uri).checkout_version(("exp/new", None)).to_table()["id"].to_pylist() == [0, 1, 2]
    assert not Path(uri, "tree/exp/old").exists()


def test_a_branch_of_the_same_name_that_is_made_as_soon_as_it_can_be_stays(uri, monkeypatch):
    make_dataset(uri)
    create_branch(locate(uri), "exp", RefSpec())
    append(uri, 100, branch="exp")
    old, own_files = files(uri), refs._own_files

    def listing(location, name):
        manifests = [path for path in own_files(location, name) if "/_versions/" in path]
        yield from manifests
        create_branch(locate(uri), "exp", RefSpec())
        yield from (path for path in own_files_before if path not in manifests)

    own_files_before = own_files(locate(uri), "exp")
    monkeypatch.setattr("lance_spark.storage.deleting.BATCH", 1)
    monkeypatch.setattr(refs, "_own_files", listing)
    delete_branch(locate(uri), "exp")
    assert lance.dataset(uri).checkout_version(("exp", None)).to_table()["id"].to_pylist() == [0, 1, 2]
    assert {path for path in files(uri) & old if path.startswith("tree/exp/data")} == set()


def test_files_that_cannot_be_removed_are_told_and_the_others_are_gone(uri, monkeypatch):
    make_dataset(uri)
    create_branch(locate(uri), "exp", RefSpec())
    append(uri, 100, branch="exp")
    unlink = os.unlink

    def denied(path):
        if "/tree/exp/data/" in path:
            raise PermissionError(13, "Permission denied", path)
        unlink(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", denied)
        with pytest.raises(StorageFailure, match=r"Branch 'exp' .* is deleted, but 1 file of its own .*tree/exp/data"):
            delete_branch(locate(uri), "exp")
    assert list_branches(locate(uri)) == []
    assert [path.rpartition("/")[0] for path in files(uri) if path.startswith("tree/")] == ["tree/exp/data"]


def test_a_ref_file_that_cannot_be_removed_leaves_the_branch_as_it_was(uri, monkeypatch):
    make_dataset(uri)
    create_branch(locate(uri), "exp", RefSpec())
    before = files(uri)

    def denied(path, **_):
        raise PermissionError(13, "Permission denied", path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "remove", denied)
        with pytest.raises(PermissionDenied):
            delete_branch(locate(uri), "exp")
    assert files(uri) == before


NEEDS = {
    "branch": lambda uri: create_branch(locate(uri), "child", RefSpec(branch="exp")),
    "tag": lambda uri: lance.dataset(uri).tags.create("merged-0123456789abcdef", ("exp", 2)),
}


@pytest.mark.parametrize("need", NEEDS)
def test_what_comes_to_need_a_branch_at_the_last_moment_keeps_it(uri, monkeypatch, need):
    """Between the look at what needs it and the end of its ref file: of a branch merged by reference, rows would go."""
    make_dataset(uri)
    create_branch(locate(uri), "exp", RefSpec())
    append(uri, 100, branch="exp")
    delete, left = refs.files.delete, [NEEDS[need]]

    def deleting(location, paths):
        while left:
            left.pop()(uri)
        delete(location, paths)

    monkeypatch.setattr(refs.files, "delete", deleting)
    with pytest.raises(Refused, match="Branch 'exp' cannot be deleted"):
        delete_branch(locate(uri), "exp")
    assert {"exp"} <= lance.dataset(uri).branches.list().keys() <= {"exp", "child"}
    for name in lance.dataset(uri).branches.list():
        rows = lance.dataset(uri).checkout_version((name, None)).to_table()["id"].to_pylist()
        assert rows == [0, 1, 2, 100, 101, 102]
    assert {branch.name for branch in list_branches(locate(uri))} == lance.dataset(uri).branches.list().keys()
