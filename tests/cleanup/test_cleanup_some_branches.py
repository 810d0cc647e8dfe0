"""Cleanups of some branches alone: they read everything, and change nothing outside of these branches' directories."""

import json
from datetime import timedelta
from pathlib import Path

import lance
import pytest
from support.cleanup_datasets import (
    AT_ONCE,
    KEEPING,
    NOW,
    age_all,
    append,
    assert_kept,
    candidates,
    clean,
    files,
    manifest,
    orphans,
    overwrite,
    overwritten,
    plan,
    put,
    reads,
    refused,
    versions,
)

from lance_spark import CleanupPolicy, LanceTable
from lance_spark.cleanup import cleanup, stored_plans
from lance_spark.cleanup.retention_rules import BY_POLICY, VersionRule
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import CorruptData, NotFound, Refused
from lance_spark.sql.declaring import Context
from lance_spark.sql.procedures import PROCEDURES
from lance_spark.storage.datasets import locate

BRANCHES = ("exp", "exp/deep", "other")
POLICY = CleanupPolicy(older_than=NOW, **AT_ONCE)


@pytest.fixture
def table(uri):
    """Main and three branches, one of them in the directory of another, each with versions that may go."""
    overwritten(uri, 3)
    for number, name in enumerate(BRANCHES, start=1):
        lance.dataset(uri).create_branch(name)
        overwrite(uri, 1000 * number, branch=name)
        append(uri, 1000 * number + 100, branch=name)
        overwrite(uri, 1000 * number + 200, branch=name)
    overwrite(uri, 100)
    return uri


def outside(uri, *branches):
    """Path, content and time of every file, records of cleanups among them, that is not the branches' own."""
    roots = tuple(f"tree/{name}/" for name in branches)
    nested = () if "exp/deep" in branches else ("tree/exp/deep/",)
    there = {str(path.relative_to(uri)): path for path in Path(uri).rglob("*") if path.is_file()}
    return {
        name: (path.read_bytes(), path.stat().st_mtime_ns)
        for name, path in there.items()
        if not name.startswith(roots) or name.startswith(nested)
    }


@pytest.mark.parametrize("branches", [["exp"], ["exp/deep"], ["exp", "other"], ["exp*"]])
def test_nothing_is_changed_outside_of_the_branches_that_are_cleaned(table, branches):
    named = [name for name in BRANCHES if name in branches or (branches == ["exp*"] and name.startswith("exp"))]
    before, around = reads(table), outside(table, *named)
    report = clean(table, older_than=NOW, only_branches=branches)
    assert outside(table, *named) == around
    assert_kept(table, before)
    assert set(report.versions) == set(named)
    assert {len(versions(table, name)) for name in named} == {1}
    assert not {path for path in orphans(table) if path.startswith(tuple(f"tree/{name}/data" for name in named))}


def test_cleaning_every_branch_alone_leaves_what_one_cleanup_of_all_leaves(table):
    for name in ("other", "main", "exp", "exp/deep"):
        clean(table, older_than=NOW, only_branches=[name])
    assert candidates(plan(table, older_than=NOW)) == set()
    assert orphans(table) == set()


def test_files_that_a_tag_a_clone_or_another_branch_reads_stay(table, tmp_path):
    lance.dataset(f"{table}/tree/exp").create_branch("child", 4)
    lance.dataset(table).tags.create("kept", ("exp", 5))
    LanceTable.for_path(table).checkout(branch="other", version=4).clone(str(tmp_path / "clone.lance"), follow=False)
    overwrite(table, 5000, branch="exp")
    before, cloned = reads(table), lance.dataset(str(tmp_path / "clone.lance")).to_table()
    report = clean(table, **KEEPING, only_branches=["exp", "other"])
    assert report.count("deleted")[0] > 0
    assert versions(table, "exp") == [4, 5, 7]
    assert_kept(table, before)
    assert lance.dataset(str(tmp_path / "clone.lance")).to_table() == cloned


def test_files_that_no_version_names_go_below_the_branch_only(table):
    mine, nested, theirs = (
        put(table, f"{root}data/{name}.lance")
        for root, name in (("tree/exp/", "a"), ("tree/exp/deep/", "b"), ("", "c"))
    )
    age_all(table, 30)
    clean(table, retain_versions=9, only_branches="exp")
    assert [mine.exists(), nested.exists(), theirs.exists()] == [False, True, True]


@pytest.mark.parametrize(
    ("damaged", "error", "message"),
    [
        (lambda uri: manifest(uri, 5, "other").write_bytes(b"broken"), CorruptData, "tree/other/_versions"),
        (lambda uri: manifest(uri, 2).write_bytes(b"broken"), CorruptData, "_versions"),
        (lambda uri: put(uri, "_clones/clone-1.json", content=b"{"), CorruptData, "_clones"),
        (lambda uri: put(uri, "_refs/tags/lost.json", content=json.dumps(LOST).encode()), CorruptData, "'lost'"),
    ],
    ids=["another branch", "main", "a clone", "a tag"],
)
def test_evidence_that_is_missing_anywhere_stops_the_cleanup_of_one_branch(table, damaged, error, message):
    damaged(table)
    assert message in str(refused(table, error, only_branches=["exp"]))


LOST = {"branch": "other", "version": 99, "manifestSize": 1, "createdAt": None, "updatedAt": None, "metadata": {}}


def test_a_file_that_the_newest_version_of_the_branch_needs_and_that_is_missing_stops_it(table):
    for fragment in lance.dataset(f"{table}/tree/exp").get_fragments():
        for file in fragment.data_files():
            Path(table, "tree/exp/data", file.path).unlink()
    assert "missing from the listing" in str(refused(table, CorruptData, only_branches=["exp"]))
    clean(table, older_than=NOW, only_branches=["exp/deep"])  # what is not looked at is no evidence against others


def test_a_branch_that_is_not_there_is_named(table):
    error = refused(table, NotFound, only_branches=["exp", "oter"])
    assert "no branch 'oter'" in str(error)
    assert "'other'" in error.hint


def test_a_tagged_version_of_another_branch_does_not_refuse_the_cleanup_of_one(table):
    lance.dataset(table).tags.create("old", ("other", 4))
    clean(table, older_than=NOW, only_branches=["exp"])
    assert "old" in str(refused(table, Refused, only_branches=["other"], error_if_tagged_old_versions=True))


class _DiedError(Exception):
    pass


@pytest.fixture
def die(monkeypatch):
    """Let a run die after its first batch of deletions, which are manifests."""
    really_delete = cleanup.delete_batch

    def deleting_once(location, paths):
        really_delete(location, paths)
        raise _DiedError

    def call(*arguments, **options):
        monkeypatch.setattr(cleanup, "delete_batch", deleting_once)
        with pytest.raises(_DiedError):
            clean(*arguments, **options)
        monkeypatch.setattr(cleanup, "delete_batch", really_delete)

    return call


@pytest.mark.parametrize("finishing", [["exp"], ["exp", "other"], ()], ids=["the same", "more branches", "all"])
def test_a_run_that_died_is_recorded_below_the_branch_and_finished_by_the_next_one(table, die, finishing):
    before, around = reads(table), outside(table, "exp")
    die(table, older_than=NOW, only_branches=["exp"])
    assert outside(table, "exp") == around
    assert list(Path(table, "tree/exp/_cleanup").iterdir())
    assert len(versions(table, "exp")) == 1
    clean(table, older_than=NOW, only_branches=finishing)
    assert_kept(table, before)
    assert not {path for path in orphans(table) if path.startswith(("tree/exp/data", "tree/exp/_cleanup"))}
    assert not list(Path(table, "tree/exp/_cleanup").iterdir())


def test_a_run_for_one_branch_leaves_the_records_of_runs_that_did_more(table, die):
    die(table, older_than=NOW)
    records = list(Path(table, "_cleanup").iterdir())
    around = outside(table, "exp")
    clean(table, older_than=NOW, only_branches=["exp"])
    assert list(Path(table, "_cleanup").iterdir()) == records
    assert outside(table, "exp") == around
    clean(table, older_than=NOW)
    assert orphans(table) == set()
    assert not list(Path(table, "_cleanup").iterdir())


def test_a_stored_plan_still_cleans_its_branches_alone(table, tmp_path):
    around = outside(table, "other")
    place = str(tmp_path / "plan")
    plan(table, older_than=NOW, only_branches=["other"]).store(place)
    opened = LanceTable.for_path(table).open_cleanup_plan(place)
    assert opened.facts.branches == ("other",)
    assert set(opened.apply().versions) == {"other"}
    assert outside(table, "other") == around
    assert stored_plans.unfinished(locate(table), [None, *BRANCHES]) == {}


def test_a_rule_of_the_policy_counts_for_the_branch_that_is_cleaned(table):
    rules = {"exp": VersionRule(retain_versions=2)}
    report = clean(table, older_than=NOW, branches=rules, only_branches=["exp"])
    assert report.versions["exp"][BY_POLICY] == 1


def test_a_table_and_sql_clean_the_named_branches_alone(table):
    around = outside(table, "exp/deep", "other")
    report = LanceTable.for_path(table).cleanup(POLICY, branches="exp/deep").apply()
    assert set(report.versions) == {"exp/deep"}
    given = {"table": table, "older_than": "0s", "retain_versions": None, "commit_window": "0s", "dry_run": False}
    rows = list(PROCEDURES["cleanup"].run(Context(LocalRunner(1)), {**given, "branches": "other, exp/deep"}))
    assert {row["branch"] for row in rows} == {"other"}
    assert {row["outcome"] for row in rows} == {"deleted"}
    assert outside(table, "exp/deep", "other") == around
    assert not files(table) & candidates(plan(table, older_than=timedelta(0), only_branches=["exp/deep", "other"]))
