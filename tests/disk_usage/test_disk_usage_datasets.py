"""What a ref costs is what goes with it: each ref is deleted, a cleanup without limits follows, bytes are counted."""

import json
import shutil
from pathlib import Path

import lance
import pytest
from support import shaped_datasets
from support.cleanup_datasets import append, busy, bytes_of, clean, overwrite, place, put
from support.local_datasets import numbers
from support.merge_datasets import add, forked
from support.merge_datasets import run as merge_run
from support.referring import made_objects, mixed, refer

from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.clones.clone import shallow_clone
from lance_spark.core.layout import BROUGHT
from lance_spark.core.refs import RefSpec
from lance_spark.disk_usage.disk_usage import storage
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import NotFound
from lance_spark.refs.refs import delete_branch
from lance_spark.storage.datasets import locate
from lance_spark.storage.resolving import resolve


def report(uri, **policy):
    return storage(locate(uri), CleanupPolicy(**policy), LocalRunner(2))


def clean_all(uri):
    return clean(uri, retain_versions=1, delete_unverified=True, error_if_tagged_old_versions=False)


def tagged_branch(uri):
    """A tag on an old version of a branch, one on its newest, and one on main's old versions."""
    busy(uri)
    overwrite(uri, 300, branch="dev")
    lance.dataset(uri).tags.create("on-dev", ("dev", 4))
    lance.dataset(uri).tags.create("twin", 2)


def twins(uri):
    """Two branches from an old version: what only they share goes with neither alone."""
    lance.write_dataset(numbers(50), uri)
    for name in ("one", "two"):
        lance.dataset(uri).create_branch(name)
        append(uri, 100, branch=name)
    overwrite(uri, 500)


def compacted_main(uri):
    """Main was compacted after the fork, the branch keeps the small files."""
    lance.write_dataset(numbers(10), uri, max_rows_per_file=2)
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance.dataset(uri).create_branch("exp")
    lance.dataset(place(uri, "exp")).delete("id = 3")
    lance.dataset(uri).optimize.compact_files()


def merged(uri):
    """A branch that was merged, whose note keeps versions for the next merge."""
    forked(uri)
    add(uri, 100, 110, "exp")
    merge_run(uri)
    lance.dataset(uri).delete("true")


def cloned(uri):
    busy(uri)
    location = locate(uri)
    shallow_clone(location, resolve(location, RefSpec("dev")), locate(f"{uri}-clone"))
    shallow_clone(location, resolve(location, RefSpec(None, version=4)), locate(f"{uri}-old-clone"))
    overwrite(uri, 700)


def left_overs(uri):
    """Files that no version names: in main, in a branch, of unknown kinds, and a directory without a ref."""
    busy(uri)
    put(uri, "data/orphan.lance")
    put(uri, "tree/dev/data/orphan.lance", content=b"x" * 77)
    put(uri, "tree/dev/data/readme.txt", content=b"x" * 7)
    put(uri, "tree/dev/notes.txt", content=b"x" * 5)
    put(uri, "notes.txt")


def blobs(uri):
    shaped_datasets.blobs(uri, "2.2")
    lance.dataset(uri).create_branch("exp")
    lance.dataset(place(uri, "exp")).delete("id = 1")


DATASETS = {
    "busy": busy,
    "tags on a branch": tagged_branch,
    "two branches from one version": twins,
    "main compacted": compacted_main,
    "merged": merged,
    "clones": cloned,
    "left overs": left_overs,
    "blobs": blobs,
    "stable row ids": lambda uri: (shaped_datasets.stable_ids(uri), lance.dataset(uri).create_branch("exp")),
    "branch of a branch": shaped_datasets.branch_of_branch,
}


def kept_for_merges(directory, below="."):
    """Bytes of what cleanups recorded of the versions that they removed."""
    return sum(path.stat().st_size for path in Path(directory, below).rglob("*.columns.json"))


@pytest.mark.parametrize("make", DATASETS.values(), ids=DATASETS)
def test_what_deleting_a_ref_frees_is_what_goes_with_it(tmp_path, make):
    work, backup = tmp_path / "work", tmp_path / "backup"
    work.mkdir()
    uri = str(work / "t.lance")
    make(uri)
    before, told = bytes_of(uri), report(uri)
    assert told.bytes == before
    clean_all(uri)
    assert before - bytes_of(uri) == told.unneeded
    before, told = bytes_of(uri), report(uri)
    assert (told.bytes, told.unneeded) == (before + kept_for_merges(uri), 0)
    shutil.copytree(work, backup)
    tried = [each for each in told.refs if each.freed is not None and each.ref and not each.obstacle]
    for record in tried:
        goes_along = kept_for_merges(place(uri, record.ref), BROUGHT)
        remove(uri, record)
        clean_all(uri)
        assert before - bytes_of(uri) == record.freed - goes_along, record
        shutil.rmtree(work)
        shutil.copytree(backup, work)
    assert tried


def remove(uri, record):
    if record.kind == "branch":
        delete_branch(locate(uri), record.ref)
    elif record.kind == "tag":
        lance.dataset(uri).tags.delete(record.ref)
    else:
        shutil.rmtree(record.ref)
        for note in Path(uri, "_clones").iterdir():
            if json.loads(note.read_text())["uri"] == record.ref:
                lance.dataset(uri).tags.delete(note.stem)
                note.unlink()


@pytest.mark.parametrize("name", ["first", "clone"])
def test_what_a_tag_or_a_clone_frees_is_counted_with_the_cleanup_that_follows(uri, name):
    """Old versions of main name the same files: they go with that cleanup, so they keep nothing."""
    busy(uri)
    location = locate(uri)
    shallow_clone(location, resolve(location, RefSpec(None, version=5)), locate(f"{uri}-clone"))
    before, told = bytes_of(uri), report(uri)
    record = told.ref(name if name == "first" else f"{uri}-clone")
    assert record.freed > 0
    remove(uri, record)
    clean_all(uri)
    assert before - bytes_of(uri) == told.unneeded + record.freed


def test_several_refs_together_free_what_only_they_share(uri):
    twins(uri)
    clean_all(uri)
    told, before = report(uri), bytes_of(uri)
    alone = sum(told.ref(name).freed for name in ("one", "two"))
    for name in ("one", "two"):
        delete_branch(locate(uri), name)
    clean_all(uri)
    assert told.freed_by("one", "two") == before - bytes_of(uri) > alone
    assert told.freed_by("one") == told.ref("one").freed


def test_old_versions_tags_and_files_without_a_version_have_records(uri):
    left_overs(uri)
    told = report(uri)
    kinds = {(record.kind, record.ref) for record in told.refs}
    assert {("branch", "main"), ("branch", "dev"), ("tag", "first"), ("old versions", "main")} <= kinds
    assert ("named by no version", "") in kinds
    main, dev = told.ref("main"), told.ref("dev")
    assert (main.freed, main.obstacle) == (None, "")
    assert "dev/deep" in dev.obstacle
    assert sum(record.owned or 0 for record in told.refs if record.kind == "branch") == told.bytes
    assert dev.needed == sum(dev.by_kind.values())
    assert 0 < dev.shared < dev.needed
    with pytest.raises(NotFound):
        told.ref("nobody")


def test_a_branch_takes_its_old_versions_and_the_files_in_its_directory_along(uri):
    lance.write_dataset(numbers(3), uri)
    lance.dataset(uri).create_branch("exp")
    for start in (10, 20, 30):
        overwrite(uri, start, branch="exp")
    put(uri, "tree/exp/data/orphan.lance", content=b"x" * 1000)
    before, told = bytes_of(uri), report(uri).ref("exp")
    delete_branch(locate(uri), "exp")
    assert before - bytes_of(uri) == told.freed
    assert told.owned <= told.freed


def test_a_clone_that_is_named_counts_as_one_that_is_recorded(uri):
    lance.write_dataset(numbers(3), uri)
    lance.dataset(uri).shallow_clone(f"{uri}-clone", 1)
    overwrite(uri, 10)
    assert report(uri).unneeded > report(uri, clones=(f"{uri}-clone",)).unneeded
    assert report(uri, clones=(f"{uri}-clone",)).ref(f"{uri}-clone").freed > 0


def test_the_report_as_a_table_as_json_and_as_text(uri):
    busy(uri)
    told = report(uri)
    data = json.loads(told.to_json())
    assert data["bytes"] == told.bytes == sum(kind["bytes"] for kind in data["kinds"].values())
    assert told.to_df()["ref"].to_pylist() == [record.ref for record in told.refs]
    assert "freed if deleted" in str(told)
    assert str(told).count("dev/deep") >= 1


@pytest.mark.when(day=0)
def test_blobs_elsewhere_are_counted_apart(uri, tmp_path):
    objects = str(made_objects(tmp_path / "objects"))
    blobs, _ = mixed(f"file://{objects}")
    refer(uri, blobs)
    lance.dataset(uri).create_branch("exp")
    refer(place(uri, "exp"), blobs[:2], 10)
    lance.dataset(uri).delete("id = 0")
    before = report(uri)
    assert before.elsewhere == {"main": (2, 0, 9), "exp": (5, 2, 14)}
    assert json.loads(before.to_json())["elsewhere"]["main"] == {"blobs": 2, "whole": 0, "bytes": 9}
    assert "whole objects" in str(before)
    for path in Path(objects).iterdir():
        path.write_bytes(path.read_bytes() * 1000)
    assert report(uri).bytes == before.bytes
    lance.write_dataset(numbers(3), f"{uri}2")
    plain = report(f"{uri}2")
    assert plain.elsewhere == {}
    assert "whole objects" not in str(plain)
