"""The last look before a commit: at what the store has now, never at what this process saw or keeps open."""

import shutil
import subprocess
import sys
from pathlib import Path

import lance
import pytest
from support.local_datasets import ids, make_dataset, numbers

from lance_spark.core.layout import manifest_names
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.table_options import WriteOptions
from lance_spark.errors import Conflict, NotFound
from lance_spark.storage import files
from lance_spark.storage.commits import check_nothing_missing, commit_on, find_noted, open_newest
from lance_spark.storage.datasets import locate, open_for_refs, open_pinned, pin_latest
from lance_spark.storage.refs import BranchReader, create_tag
from lance_spark.storage.versions import version_numbers, version_paths
from lance_spark.write.data_files import commit_checked
from lance_spark.write.plan_rules import WriteJob, WritePlan


def append(uri, first):
    """The operation, with its file written."""
    return lance.LanceOperation.Append([lance.fragment.LanceFragment.create(uri, numbers(1, first))])


@pytest.fixture
def location(uri):
    make_dataset(uri, numbers(2), numbers(3, start=2))
    lance.dataset(uri).create_branch("exp")
    return locate(uri)


def test_a_commit_goes_on_top_of_what_others_committed(location, uri):
    read = pin_latest(location, None)
    lance.write_dataset(numbers(1, 50), uri, mode="append")
    assert commit_on(location, read, append(uri, 60)) == PinnedVersion(None, 4)
    assert ids(uri)[-2:] == [50, 60]


def test_unless_it_must_be_alone(location, uri):
    read = pin_latest(location, None)
    assert open_newest(location, read, alone=True).version == 2
    lance.write_dataset(numbers(1, 50), uri, mode="append")
    with pytest.raises(Conflict, match="no longer the newest"):
        open_newest(location, read, alone=True)


@pytest.mark.parametrize("versions", [1, 2, 3])
def test_nothing_is_committed_to_a_dataset_made_again_at_the_same_place(location, uri, versions):
    """However many versions that has: the kept handle, and the files that the commit names, are of the old one."""
    read = pin_latest(location, None)
    operation = append(uri, 60)
    shutil.rmtree(uri)
    make_dataset(uri, *(numbers(1, 100 + number) for number in range(versions)))
    with pytest.raises(Conflict, match="no longer exists"):
        commit_on(location, read, operation)
    assert ids(uri) == [100 + number for number in range(versions)]


def test_nothing_is_committed_to_a_branch_that_is_gone(location, uri):
    read = pin_latest(location, "exp")
    operation = append(f"{uri}/tree/exp", 60)
    lance.dataset(uri).branches.delete("exp")
    with pytest.raises(Conflict, match="no longer exists"):
        commit_on(location, read, operation)
    with pytest.raises(NotFound):
        commit_on(location, PinnedVersion("exp", read.version), operation)
    assert not list(Path(uri, "tree").rglob("*.manifest"))


def test_what_a_commit_made_is_open_already(location, uri):
    made = commit_on(location, pin_latest(location, None), append(uri, 60))
    newest = pin_latest(location, None)
    assert (newest.branch, newest.version) == (made.branch, made.version)
    assert open_pinned(location, newest).count_rows() == 6


def test_a_handle_for_refs_is_a_copy_and_changes_the_store_as_it_is_now(location, uri):
    pin_latest(location, None)
    one, other = open_for_refs(location), open_for_refs(location)
    assert one is not other
    lance.write_dataset(numbers(1, 50), uri, mode="append")
    create_tag(location, "new", PinnedVersion(None, 3))
    assert lance.dataset(uri, version="new").count_rows() == 6
    with pytest.raises(NotFound):
        create_tag(location, "never", PinnedVersion(None, 9))


def test_branches_are_read_when_they_are_asked_for(location, uri, monkeypatch):
    from lance_spark.storage import refs

    for name in ("a", "b", "exp/x"):
        lance.dataset(uri).create_branch(name)
    read = []
    real = refs.read_branch
    monkeypatch.setattr(refs, "read_branch", lambda place, name: read.append(name) or real(place, name))
    branches = BranchReader(location)
    exp = branches.find("exp")
    assert (exp.name, branches.find("exp"), branches.find("none"), read) == ("exp", exp, None, ["exp", "none"])
    assert branches.of_identity(exp.identity) is exp
    assert [each.name for each in branches.some(lambda name: name.startswith("exp"))] == ["exp", "exp/x"]
    assert read == ["exp", "none", "exp/x"]
    assert branches.of_identity("unknown") is None
    assert sorted(read) == ["a", "b", "exp", "exp/x", "none"]
    assert branches.of_identity("unknown") is None
    assert sorted(branches.table().branches) == ["a", "b", "exp", "exp/x"]
    assert len(read) == 5
    known = BranchReader(location, branches.table())
    assert (known.find("a").name, known.find("later"), len(read)) == ("a", None, 5)


COMMITS = """
import os, sys
for version in range(1, 4001):
    name = f"{sys.argv[1]}/{2**64 - 1 - version:020}.manifest"
    open(f"{name}.tmp", "w").close()
    os.rename(f"{name}.tmp", name)
"""


def test_a_directory_that_changes_while_it_is_listed_hides_no_version(uri):
    """A version that is hidden behind a newer one would count as cleaned up."""
    directory = Path(uri, "_versions")
    directory.mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", COMMITS, str(directory)]) as committing:
        while committing.poll() is None:
            found = version_numbers(locate(uri), None)
            assert found == [*range(1, len(found) + 1)]
    assert committing.returncode == 0


def test_a_commit_that_a_listing_hides_is_found_and_not_repeated(location, uri, monkeypatch):
    own = {"call": "this one"}
    read = pin_latest(location, None)
    commit_on(location, read, append(uri, 60), own)
    lance.write_dataset(numbers(1, 50), uri, mode="append")
    hidden, real = manifest_names(3), files.list_names

    def torn(*given):
        monkeypatch.setattr(files, "list_names", real)
        return [name for name in real(*given) if name not in hidden]

    monkeypatch.setattr(files, "list_names", torn)
    assert find_noted(location, read, "call", "this one") == PinnedVersion(None, 3)
    monkeypatch.setattr(files, "list_names", torn)
    check_nothing_missing(location, read)


def test_versions_that_were_cleaned_up_are_not_listed(location, uri):
    for first in (50, 60, 70):
        lance.write_dataset(numbers(1, first), uri, mode="append")
    for version in (2, 4):
        Path(uri, version_paths(location, None)[version]).unlink()
    assert version_numbers(location, None) == [1, 3, 5]


@pytest.mark.parametrize(("gone", "told"), [(2, "no longer exists"), (3, "cleaned up since version 2 was read")])
@pytest.mark.parametrize("by", ["operation", "rows"])
def test_a_version_that_a_cleanup_deletes_while_pylance_commits_is_a_conflict(
    location, uri, monkeypatch, by, gone, told
):
    """pylance says "Dataset ... was not found", as if the path were wrong."""
    plan = WritePlan(location, WriteOptions(), "append", numbers(1).schema, pin_latest(location, None))
    job, read, commit = WriteJob(plan, plan.start), plan.start, lance.LanceDataset.commit
    written = append(uri, 60)
    lance.write_dataset(numbers(1, 50), uri, mode="append")
    lance.write_dataset(numbers(1, 51), uri, mode="append")
    path = version_paths(location, None)[gone]

    def late(*arguments, **named):
        Path(uri, path).unlink(missing_ok=True)
        raise OSError(f"Dataset at path {path} was not found: Not found: {path}")

    commits = {"operation": lambda: commit_on(location, read, written), "rows": lambda: commit_checked(job, [])}
    monkeypatch.setattr(lance.LanceDataset, "commit", late)
    with pytest.raises(Conflict, match=told):
        commits[by]()
    monkeypatch.setattr(lance.LanceDataset, "commit", commit)
    assert 60 not in ids(uri)
