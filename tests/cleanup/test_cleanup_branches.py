"""Branches, marked together: lineages of five, every spelling of the URI, refs of old writers, directories without
refs and refs without directories, fork versions that were removed.

``s3://`` beside ``s3a://`` is in test_cleanup_s3.py.
"""

import json
import os
import shutil
from datetime import timedelta
from pathlib import Path

import lance
import pytest
from support.cleanup_datasets import (
    NOW,
    age_all,
    append,
    assert_kept,
    busy,
    candidates,
    clean,
    files,
    manifest,
    orphans,
    overwrite,
    overwritten,
    place,
    plan,
    reads,
    versions,
)
from support.local_datasets import make_dataset, numbers

from lance_spark.cleanup.retention_rules import VersionRule
from lance_spark.errors import CorruptData, Refused
from lance_spark.refs.refs import delete_branch
from lance_spark.storage.datasets import locate

LINEAGE = {"b1": None, "dev/b2": "b1", "feature/nathan/b3": "dev/b2", "b4": None}
ALL = (None, *LINEAGE)


@pytest.fixture
def lineage(uri):
    """Each branch has rows of its own and those it began with; every parent overwrote its own since."""
    overwritten(uri, 2)
    for number, (name, parent) in enumerate(LINEAGE.items()):
        append(uri, 1000 * number, branch=parent)
        lance.dataset(place(uri, parent)).create_branch(name)
        append(uri, 1000 * number + 100, branch=name)
        lance.dataset(place(uri, name)).delete(f"id = {1000 * number + 101}")
    for number, name in enumerate(ALL):
        overwrite(uri, 100_000 * (number + 1), branch=name) if name in (None, "b1") else None
    return uri


def test_one_pass_cleans_a_lineage_of_branches_and_leaves_no_orphan(lineage):
    before = reads(lineage)
    clean(lineage)
    assert_kept(lineage, before)
    assert not orphans(lineage)
    assert not candidates(plan(lineage))
    assert [len(versions(lineage, name)) for name in ("feature/nathan/b3", "b4")] == [1, 1]


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("turn", range(5))
@pytest.mark.parametrize("backwards", [False, True], ids=["from the root", "from the leaves"])
def test_branches_cleaned_one_by_one_in_any_order_lose_nothing_readable(lineage, turn, backwards):
    before = reads(lineage)
    order = ALL[turn:] + ALL[:turn]
    for name in reversed(order) if backwards else order:
        only = {name or "main": VersionRule(older_than=NOW), "*": VersionRule(older_than=timedelta(days=999))}
        report = clean(lineage, branches=only)
        assert set(report.versions) == {"main", *LINEAGE}
        assert_kept(lineage, before)
        assert not orphans(lineage)
    assert not candidates(plan(lineage))


def test_space_of_a_parent_is_free_as_soon_as_no_branch_needs_it(lineage):
    clean(lineage)
    shared = {path for path in files(lineage) if path.startswith("data/")}
    for name in LINEAGE:
        overwrite(lineage, 1, branch=name)
    clean(lineage, older_than=NOW, keep_fork_versions=False)
    left = {path for path in files(lineage) if path.startswith("data/")}
    assert left < shared
    assert len(left) == 1
    assert not orphans(lineage)


def test_a_deleted_branch_frees_what_only_it_needed(uri):
    overwritten(uri, 2)
    lance.dataset(uri).create_branch("dev", 1)
    append(uri, 50, branch="dev")
    clean(uri)
    assert versions(uri) == [1, 2]
    delete_branch(locate(uri), "dev")
    clean(uri)
    assert versions(uri) == [2]
    assert not orphans(uri)


def test_a_tag_on_a_branchs_version_keeps_the_parents_files_it_needs(uri):
    overwritten(uri, 2)
    lance.dataset(uri).create_branch("dev", 1)
    append(uri, 50, branch="dev")
    lance.dataset(uri).tags.create("kept", ("dev", 2))
    overwrite(uri, 60, branch="dev")
    before = reads(uri)
    clean(uri, older_than=NOW, error_if_tagged_old_versions=False, keep_fork_versions=False)
    assert (versions(uri), versions(uri, "dev")) == ([2], [2, 3])
    assert_kept(uri, before)
    assert lance.dataset(uri).checkout_version("kept").to_table()["id"].to_pylist() == [0, 1, 2, 50, 51, 52]


def test_an_index_and_deletions_that_a_branch_inherited_stay_for_it(uri):
    make_dataset(uri, numbers(20))
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance.dataset(uri).delete("id = 3")
    lance.dataset(uri).create_branch("dev")
    overwrite(uri, 500)
    before = reads(uri)
    clean(uri, older_than=NOW, keep_fork_versions=False)
    assert versions(uri) == [4]
    assert_kept(uri, before)
    branch = lance.dataset(place(uri, "dev"))
    assert branch.to_table(filter="id IN (3, 7)")["id"].to_pylist() == [7]
    assert "ScalarIndexQuery" in branch.scanner(filter="id = 7").explain_plan()
    assert not orphans(uri)


def test_rules_by_pattern_clean_some_branches_and_leave_the_others(uri):
    overwritten(uri, 2)
    for name in ("exp/a", "exp/b", "prod"):
        lance.dataset(uri).create_branch(name)
        for start in (100, 200):
            overwrite(uri, start, branch=name)
    clean(uri, older_than=timedelta(days=9), branches={"exp/*": VersionRule(retain_versions=1)})
    assert {name: len(versions(uri, name)) for name in (None, "exp/a", "exp/b", "prod")} == {
        None: 2,
        "exp/a": 1,
        "exp/b": 1,
        "prod": 3,
    }


SPELLINGS = {
    "plain": lambda path: path,
    "slash": lambda path: f"{path}/",
    "file": lambda path: f"file://{path}",
    "file with one slash": lambda path: f"file:{path}",
    "relative": os.path.relpath,
    "dots": lambda path: f"{path}/../{os.path.basename(path)}",
    "symlink": lambda path: f"{os.path.dirname(path)}/link",
    "encoded": lambda path: f"file://{path.replace('table', '%74able')}",
}


def write_as(uri, spelling):
    """A branch made by pylance through one spelling, whose files main has overwritten; None where pylance cannot."""
    os.symlink(uri, f"{os.path.dirname(uri)}/link")
    overwritten(uri, 1)
    lance.dataset(SPELLINGS[spelling](uri)).create_branch("dev")
    overwrite(uri, 50)
    return reads(uri)


@pytest.mark.when(day=0.2)
@pytest.mark.parametrize("cleaned", SPELLINGS)
@pytest.mark.parametrize("made", [name for name in SPELLINGS if name != "file with one slash"])
def test_a_branch_made_through_one_spelling_survives_a_cleanup_through_another(uri, monkeypatch, made, cleaned):
    monkeypatch.chdir(os.path.dirname(uri))
    before = write_as(uri, made)
    spelled = SPELLINGS[cleaned](uri)
    report = clean(spelled, older_than=NOW, keep_fork_versions=False, delete_unverified=True)
    assert versions(uri) == [2]
    assert report.dataset == os.path.realpath(uri)
    assert_kept(uri, before)


def test_a_branch_made_through_a_relative_path_survives_a_cleanup_from_another_directory(uri, tmp_path, monkeypatch):
    monkeypatch.chdir(os.path.dirname(uri))
    before = write_as(uri, "relative")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    clean(uri, older_than=NOW, keep_fork_versions=False, delete_unverified=True)
    monkeypatch.chdir(os.path.dirname(uri))
    assert_kept(uri, before)


@pytest.mark.parametrize("keep", [True, False], ids=["forks kept", "forks go"])
def test_a_branch_whose_ref_has_no_identifier_keeps_its_parents_files(uri, keep):
    busy(uri)
    for name in ("dev", "dev%2Fdeep"):
        ref = Path(uri, "_refs/branches", f"{name}.json")
        entry = json.loads(ref.read_text())
        assert entry.pop("identifier")
        ref.write_text(json.dumps(entry))
    before = reads(uri)
    clean(uri, older_than=NOW, error_if_tagged_old_versions=False, keep_fork_versions=keep)
    assert_kept(uri, before)
    assert (3 in versions(uri)) == keep


def test_a_branch_directory_without_a_ref_keeps_every_version_and_is_named_in_a_warning(uri):
    busy(uri)
    Path(uri, "_refs/branches/dev%2Fdeep.json").unlink()
    age_all(uri, 100)
    before = reads(uri)
    deep = versions(uri, "dev/deep")
    report = clean(uri, older_than=NOW, error_if_tagged_old_versions=False, delete_unverified=True)
    assert versions(uri, "dev/deep") == deep
    assert_kept(uri, before)
    assert any("tree/dev/deep has versions but no ref" in text for text in report.warnings)


def test_a_branch_in_the_making_is_protected_before_its_ref_is_there(uri):
    overwritten(uri, 2)
    lance.dataset(uri).create_branch("dev", 1)
    ref = Path(uri, "_refs/branches/dev.json")
    content = ref.read_bytes()
    ref.unlink()
    clean(uri)
    ref.write_bytes(content)
    assert lance.dataset(uri).checkout_version(("dev", None)).to_table()["id"].to_pylist() == [0, 1, 2]


@pytest.mark.parametrize("lost", ["tree/dev", "tree/dev/_versions"])
def test_a_ref_without_versions_stops_the_run(uri, lost):
    overwritten(uri, 2)
    lance.dataset(uri).create_branch("dev", 1)
    shutil.rmtree(Path(uri, lost))
    there = files(uri)
    with pytest.raises(CorruptData, match=r"Branch 'dev' .*has a ref but its directory shows no versions"):
        plan(uri)
    assert files(uri) == there


def test_a_branch_keeps_its_files_though_the_version_it_was_made_from_is_gone(uri):
    overwritten(uri, 3)
    lance.dataset(uri).create_branch("dev", 2)
    manifest(uri, 2).unlink()
    before = reads(uri)
    age_all(uri, 100)
    clean(uri, older_than=NOW, delete_unverified=True)
    assert versions(uri) == [3]
    assert_kept(uri, before)


@pytest.fixture
def partly_needed(uri):
    """Version 2 of main has two data files, of which the branch made from it needs only one."""
    make_dataset(uri, numbers(3), numbers(3, 10))
    lance.dataset(uri).create_branch("dev")
    lance.dataset(place(uri, "dev")).delete("id >= 10")
    overwrite(uri, 99)
    return uri


def test_the_version_a_branch_was_made_from_stays_whole_and_can_be_restored(partly_needed):
    before = reads(partly_needed)
    clean(partly_needed)
    assert versions(partly_needed) == [2, 3]
    assert_kept(partly_needed, before)
    lance.dataset(partly_needed, version=2).restore()
    assert lance.dataset(partly_needed).to_table()["id"].to_pylist() == [0, 1, 2, 10, 11, 12]


def test_the_version_a_branch_was_made_from_goes_altogether_when_forks_need_not_stay(partly_needed):
    before = reads(partly_needed)
    clean(partly_needed, older_than=NOW, keep_fork_versions=False)
    assert versions(partly_needed) == [3]
    assert_kept(partly_needed, before)
    assert len([path for path in files(partly_needed) if path.startswith("data/")]) == 2
    assert not orphans(partly_needed)
    with pytest.raises(ValueError, match=r"[Nn]ot found"):
        lance.dataset(partly_needed).tags.create("late", 2)


def test_a_tag_on_a_branchs_old_version_stops_the_run_and_no_branch_is_touched(lineage):
    lance.dataset(lineage).tags.create("old", ("dev/b2", versions(lineage, "dev/b2")[1]))
    there = files(lineage)
    with pytest.raises(Refused, match="'old'"):
        plan(lineage)
    assert files(lineage) == there
