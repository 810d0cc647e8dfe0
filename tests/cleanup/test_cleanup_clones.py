"""Clones elsewhere, inside the root and of clones; base paths elsewhere; datasets that were moved or copied.

Clones that this package makes are recorded, and have tests of their own.
"""

import shutil
from pathlib import Path

import lance
import pytest
from lance import DatasetBasePath
from support.cleanup_datasets import (
    NOW,
    age_all,
    append,
    assert_kept,
    clean,
    files,
    manifest,
    orphans,
    overwrite,
    overwritten,
    place,
    plan,
    put,
    reads,
    versions,
)
from support.local_datasets import numbers

from lance_spark.errors import CorruptData, NotFound, Refused


@pytest.fixture
def source(uri):
    """Three versions that share nothing, and a branch made from the second."""
    overwritten(uri, 3)
    lance.dataset(uri).create_branch("dev", 2)
    overwrite(uri, 500, branch="dev")
    overwrite(uri, 600, branch="dev")
    return uri


def clone(source, target, reference):
    lance.dataset(source).shallow_clone(str(target), reference)
    return str(target)


def test_what_a_declared_clone_needs_stays_and_its_version_goes_from_the_list(source, tmp_path):
    copy = clone(source, tmp_path / "copy.lance", 1)
    append(copy, 70)
    before, cloned = reads(source), reads(copy)
    clean(source, older_than=NOW, clones=(copy,))
    assert versions(source) == [2, 3]  # the branch was made from 2
    assert_kept(source, before)
    assert reads(copy) == cloned
    assert len([path for path in files(source) if path.startswith("data/")]) == 3


@pytest.mark.parametrize("spelling", ["{}", "{}/", "file://{}"])
def test_a_clone_is_found_however_it_is_spelled_and_however_it_spelled_its_source(source, tmp_path, spelling):
    copy = clone(f"file://{source}/", tmp_path / "copy.lance", 1)
    cloned = reads(copy)
    clean(source, older_than=NOW, clones=(spelling.format(copy),), delete_unverified=True)
    assert reads(copy) == cloned


def test_every_dataset_below_a_directory_is_taken_for_a_clone(source, tmp_path):
    copies = [clone(source, tmp_path / "clones" / name, 1) for name in ("a.lance", "deep/er/b.lance")]
    overwritten(str(tmp_path / "clones" / "stranger.lance"), 2)
    cloned = [reads(copy) for copy in copies]
    clean(source, older_than=NOW, clones_from=(str(tmp_path / "clones"),))
    assert [reads(copy) for copy in copies] == cloned
    assert versions(str(tmp_path / "clones" / "stranger.lance")) == [1, 2]


def test_a_clone_inside_the_sources_own_directory_is_protected_and_its_files_are_not_the_sources(source):
    copy = clone(source, Path(source, "copies/one.lance"), 1)
    append(copy, 70)
    cloned, there = reads(copy), files(copy)
    age_all(source, 100)
    clean(source, older_than=NOW, clones=(copy,), delete_unverified=True)
    assert reads(copy) == cloned
    assert files(copy) == there


def test_a_clone_of_a_clone_protects_the_files_of_the_first_source(source, tmp_path):
    middle = clone(source, tmp_path / "middle.lance", 1)
    last = clone(middle, tmp_path / "last.lance", 1)
    overwrite(middle, 80)
    cloned = reads(last)
    clean(middle, older_than=NOW, clones=(last,))
    clean(source, older_than=NOW, clones=(middle, last))
    assert reads(last) == cloned
    assert versions(middle) == [2]


def test_a_clone_of_a_branch_and_a_branch_of_a_clone_are_protected(source, tmp_path):
    of_branch = clone(source, tmp_path / "of-branch.lance", ("dev", 3))
    with_branch = clone(source, tmp_path / "with-branch.lance", 1)
    lance.dataset(with_branch).create_branch("side")
    overwrite(with_branch, 90)
    cloned, sided = reads(of_branch), reads(with_branch)
    clean(with_branch, older_than=NOW, keep_fork_versions=False)
    clean(source, older_than=NOW, clones=(of_branch, with_branch))
    assert versions(source, "dev") == [4]
    assert reads(of_branch) == cloned
    assert {which: rows for which, rows in sided.items() if which != (None, 1)} == reads(with_branch)


def test_a_tag_on_the_cloned_version_protects_a_clone_that_nobody_declares(source, tmp_path):
    copy = clone(source, tmp_path / "copy.lance", 1)
    lance.dataset(source).tags.create("cloned", 1)
    cloned = reads(copy)
    clean(source, older_than=NOW, error_if_tagged_old_versions=False)
    assert reads(copy) == cloned


def test_a_clone_that_nobody_declares_leaves_no_trace_in_its_source_and_loses_its_files(source, tmp_path):
    """As with pylance, and the reason why clones made here are recorded."""
    copy = clone(source, tmp_path / "copy.lance", 1)
    clean(source)
    with pytest.raises((ValueError, OSError), match=r"[Nn]ot found"):
        lance.dataset(copy).to_table()


def test_cleaning_a_clone_deletes_nothing_of_its_source(source, tmp_path):
    copy = clone(source, tmp_path / "copy.lance", 1)
    overwrite(copy, 70)
    there = files(source)
    clean(copy, older_than=NOW, delete_unverified=True)
    assert versions(copy) == [2]
    assert files(source) == there
    assert not orphans(copy)


def test_a_declared_clone_that_is_not_there_stops_the_run(source, tmp_path):
    with pytest.raises(NotFound, match=r"gone.lance, which was declared as a clone"):
        plan(source, older_than=NOW, clones=(str(tmp_path / "gone.lance"),))


def test_a_clone_with_a_manifest_that_cannot_be_read_stops_the_run(source, tmp_path):
    copy = clone(source, tmp_path / "copy.lance", 1)
    manifest(copy, 1).write_bytes(b"")
    with pytest.raises(CorruptData, match=r"manifest"):
        plan(source, older_than=NOW, clones=(copy,))


@pytest.fixture
def many_bases(uri, tmp_path):
    """Each version has its files in another base; a stranger's files lie in the same bases."""
    inside = Path(uri, "more")
    flat, rooted = tmp_path / "flat", tmp_path / "rooted"
    for directory in (inside, flat, rooted):
        directory.mkdir(parents=True)
    bases = [
        DatasetBasePath(str(flat), name="flat"),
        DatasetBasePath(str(rooted), name="rooted", is_dataset_root=True),
        DatasetBasePath(str(inside), name="inside"),
    ]
    lance.write_dataset(numbers(3), uri, initial_bases=bases, target_bases=["flat"])
    for start, name in ((10, "rooted"), (20, "inside"), (30, "flat")):
        lance.write_dataset(numbers(3, start), uri, mode="overwrite", target_bases=[name])
    for directory in (inside, flat, rooted):
        put(str(directory), "data/stranger.lance", 100)
        put(str(directory), "stranger.lance", 100)
    return uri


def test_nothing_in_another_base_is_deleted_and_what_is_in_the_root_is(many_bases, tmp_path):
    overwrite(many_bases, 40)
    overwrite(many_bases, 50)
    elsewhere = [files(str(tmp_path / name)) for name in ("flat", "rooted")]
    more = {path for path in files(many_bases) if path.startswith("more/")}
    before = reads(many_bases)
    age_all(many_bases, 100)
    clean(many_bases, older_than=NOW, delete_unverified=True)
    assert versions(many_bases) == [6]
    assert_kept(many_bases, before)
    assert [files(str(tmp_path / name)) for name in ("flat", "rooted")] == elsewhere
    assert {path for path in files(many_bases) if path.startswith("more/")} == more
    assert len([path for path in files(many_bases) if path.startswith("data/")]) == 1


def test_a_base_that_leads_nowhere_stops_the_run_unless_it_is_named_as_known(many_bases, tmp_path):
    flat, away = tmp_path / "flat", tmp_path / "away"
    before = {(None, 4): lance.dataset(many_bases).to_table().to_pylist()}
    flat.rename(away)
    there = files(many_bases)
    with pytest.raises(Refused, match=r"files in the base path '.*flat'"):
        plan(many_bases)
    assert files(many_bases) == there
    clean(many_bases, older_than=NOW, known_bases=(str(flat),))
    away.rename(flat)
    assert reads(many_bases) == before


def test_a_base_that_only_removed_versions_read_from_may_lead_nowhere(many_bases, tmp_path):
    before = {(None, 4): lance.dataset(many_bases).to_table().to_pylist()}
    shutil.rmtree(tmp_path / "rooted")
    with pytest.raises(Refused, match=r"files in the base path '.*rooted'"):
        clean(many_bases, retain_versions=3)
    clean(many_bases, older_than=NOW)
    assert reads(many_bases) == before


@pytest.fixture
def branched(uri):
    """A branch that needs files of main which main itself has given up, as long as the fork version need not stay."""
    overwritten(uri, 1)
    lance.dataset(uri).create_branch("dev")
    append(uri, 50, branch="dev")
    overwrite(uri, 60)
    return uri


def test_a_copy_keeps_what_its_branches_name_at_the_old_place_and_the_old_place_is_left_alone(branched, tmp_path):
    copy = str(tmp_path / "copy.lance")
    shutil.copytree(branched, copy, copy_function=shutil.copy)
    there, before = files(branched), reads(branched)
    kept = {path for path in files(copy) if path.startswith(("data/", "tree/dev/data/"))}
    clean(copy, older_than=NOW, keep_fork_versions=False, delete_unverified=True)
    assert versions(copy) == [2]
    assert {path for path in files(copy) if path.startswith(("data/", "tree/dev/data/"))} == kept
    assert (files(branched), reads(branched)) == (there, before)


def test_a_moved_dataset_stops_the_run_and_is_cleaned_after_it_was_moved_back(branched, tmp_path):
    moved = str(tmp_path / "moved.lance")
    before = reads(branched)
    shutil.move(branched, moved)
    there = files(moved)
    with pytest.raises(Refused, match=r"If the dataset was moved, this is its former place"):
        plan(moved)
    assert files(moved) == there
    shutil.move(moved, branched)
    clean(branched)
    assert_kept(branched, before)


def test_a_moved_dataset_loses_nothing_when_its_old_place_is_named_as_known(branched, tmp_path):
    moved = str(tmp_path / "moved.lance")
    before = reads(branched)
    shutil.move(branched, moved)
    age_all(moved, 100)
    clean(moved, older_than=NOW, keep_fork_versions=False, delete_unverified=True, known_bases=(branched,))
    assert versions(moved) == [2]
    shutil.move(moved, branched)
    assert_kept(branched, before)
    assert lance.dataset(place(branched, "dev")).count_rows() == 6
