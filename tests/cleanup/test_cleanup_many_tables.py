"""Many tables in one cleanup: clones among them are protected, and one bad table does not stop the others."""

import json
import shutil
from pathlib import Path

import lance
import pytest
from support.cleanup_datasets import NOW, RUNNER, busy, now_ns, overwrite, overwritten

from lance_spark.cleanup import many_tables
from lance_spark.cleanup.many_tables import FleetOptions, FleetTable, clean_fleet
from lance_spark.cleanup.report import clones_among
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.engine.local import Work
from lance_spark.errors import PermissionDenied
from lance_spark.storage import versions
from lance_spark.storage.datasets import locate

EVERYTHING = CleanupPolicy(
    older_than=NOW, commit_window=NOW, delete_unverified=True, error_if_tagged_old_versions=False
)


@pytest.fixture
def lake(tmp_path):
    """Two tables, and a shallow clone that nobody recorded of the first one's second version."""
    busy(f"{tmp_path}/a.lance")
    overwritten(f"{tmp_path}/b.lance")
    lance.dataset(f"{tmp_path}/b.lance").shallow_clone(f"{tmp_path}/clone.lance", ("main", 2))
    return [FleetTable(name, locate(f"{tmp_path}/{name}.lance")) for name in ("a", "b", "clone")]


def clean(lake, execute=True, **options):
    return clean_fleet(lake, FleetOptions(EVERYTHING, execute, **options), RUNNER, now_ns())


class Asked:
    """Threads, and what they were asked for."""

    def __init__(self):
        self.work = []

    def for_work(self, operation, work):
        self.work.append((operation, work))
        return RUNNER


def test_the_engine_is_told_how_many_tables_there_are_and_then_how_large(lake):
    engine = Asked()
    report = clean_fleet(lake, FleetOptions(EVERYTHING), engine, now_ns())
    looked, cleaned = (work for operation, work in engine.work if operation == "cleanup")
    versions = sum(len(lance.dataset(table.location.uri).versions()) for table in lake)
    assert looked == Work(tables=3)
    assert (cleaned.tables, cleaned.manifests >= versions) == (3, True)
    assert cleaned.files > 2 * cleaned.manifests
    assert cleaned.is_little
    assert report.ran_on == "local"
    assert {json.loads(row["report"])["ran_on"] for row in report.rows} == {"local"}
    assert json.loads(report.to_json())["ran_on"] == "local"


def rows(report):
    return {row["table"]: row for row in report.rows}


def test_a_clone_among_the_tables_keeps_its_files(lake):
    before = lance.dataset(lake[2].location.uri).to_table()
    report = clean(lake)
    assert report.complete
    assert rows(report)["b"]["versions"] == 3
    assert lance.dataset(lake[2].location.uri).to_table() == before
    assert len(lance.dataset(lake[1].location.uri).versions()) == 1


@pytest.mark.parametrize("times", [1, 100], ids=["once", "again and again"])
def test_a_clone_that_moves_on_while_it_is_looked_at_keeps_its_files(lake, monkeypatch, times):
    """Its only version was listed; before it is read, there is a newer one and a cleanup has taken the old one."""
    clone = lake[2].location.uri
    names, left = versions.version_numbers, [clone] * times

    def listing(location, branch):
        there = names(location, branch)
        if location.uri == clone and left:
            lance.dataset(left.pop()).update_config({"left": str(len(left))})
            lance.dataset(clone).cleanup_old_versions(retain_versions=1)
        return there

    with monkeypatch.context() as patch:
        patch.setattr(versions, "version_numbers", listing)
        report = clean(lake)
    assert report.complete == (times == 1)
    assert lance.dataset(clone).to_table().num_rows == 3


def test_without_the_clone_its_files_would_have_gone(lake):
    clean(lake[:2])
    with pytest.raises((OSError, ValueError)):
        lance.dataset(lake[2].location.uri).to_table()


def test_a_dry_run_says_what_goes_and_deletes_nothing(lake):
    report = clean(lake, execute=False)
    by_name = rows(report)
    assert by_name["a"]["state"] == "would"
    assert by_name["a"]["files"] > 0
    assert len(lance.dataset(lake[1].location.uri).versions()) == 4
    assert "would be deleted" in str(report)


def test_one_bad_table_does_not_stop_the_others(lake):
    tag = Path(lake[0].location.uri, "_refs/tags/broken.json")
    tag.write_text("{")
    report = clean(lake)
    assert [row["table"] for row in report.problems] == ["a"]
    assert "broken" in rows(report)["a"]["error"]
    assert rows(report)["b"]["state"] == "done"
    assert not report.complete


def test_a_table_whose_newest_manifest_is_broken_is_still_known_for_a_clone(lake):
    clone = lake[2].location.uri
    overwrite(clone, 70)
    newest = min(Path(clone, "_versions").glob("*.manifest"))
    newest.write_bytes(b"\0" * 40)
    report = clean(lake)
    assert rows(report)["clone"]["state"] == "failed"
    assert lance.dataset(clone, version=2).to_table().num_rows == 3


def test_while_a_table_cannot_be_reached_nothing_is_deleted(lake, monkeypatch):
    real = many_tables.branch_directories

    def denied(location):
        if location.uri == lake[2].location.uri:
            raise PermissionDenied("The store says no.")
        return real(location)

    monkeypatch.setattr(many_tables, "branch_directories", denied)
    report = clean(lake)
    assert {(row["state"], row["exit_code"]) for row in report.rows} == {("failed", PermissionDenied.exit_code)}
    assert "may be a clone" in rows(report)["b"]["error"]
    assert len(lance.dataset(lake[1].location.uri).versions()) == 4


def test_a_policy_of_its_own(lake):
    report = clean(lake, policies={"b": CleanupPolicy(retain_versions=2, commit_window=NOW)})
    assert (rows(report)["b"]["versions"], rows(report)["clone"]["versions"]) == (2, 0)


def test_a_table_that_is_declared_and_not_written_is_no_problem(lake, tmp_path):
    report = clean([*lake, FleetTable("new", locate(f"{tmp_path}/new.lance"))])
    assert report.complete
    assert rows(report)["new"]["state"] == "empty"


def test_a_table_that_is_dropped_while_it_is_cleaned_is_no_problem(lake, monkeypatch):
    real = many_tables.plan_cleanup

    def dropped(location, *given):
        if location.uri == lake[0].location.uri:
            shutil.rmtree(location.uri)
        return real(location, *given)

    monkeypatch.setattr(many_tables, "plan_cleanup", dropped)
    report = clean(lake)
    assert report.complete
    assert {name: row["state"] for name, row in rows(report).items()} == {"a": "empty", "b": "done", "clone": "done"}


def test_the_longest_place_owns_a_base():
    clones = clones_among(
        [
            {"table": "c", "base": "/l/a/tree/x", "error": ""},
            {"table": "c", "base": "/l/ab", "error": ""},
            {"table": "b", "base": "/elsewhere", "error": ""},
            {"table": "b", "base": "", "error": "unknown"},
        ],
        {"a": "/l/a", "ab": "/l/ab", "b": "/l/b", "c": "/l/c"},
    )
    assert clones == {"a": ("/l/c",), "ab": ("/l/c",), "b": (), "c": ()}
