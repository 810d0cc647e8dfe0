"""The maintenance of a lake: a publish that died is ended, remains of audits go, branches of the lake expire."""

import json
import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import lance
import pytest
from support.cleanup_datasets import RUNNER
from support.local_datasets import numbers

from lance_spark import LanceCatalog
from lance_spark.catalog import journal as journals
from lance_spark.catalog.lake import complete, list_refs, table_branch
from lance_spark.catalog.lake_rules import BRANCH, LakeBranch, audit_name
from lance_spark.catalog.name_rules import identify_table
from lance_spark.engine.local import LocalRunner
from lance_spark.lake import publish as publishing
from lance_spark.maintenance.maintain import Selection, UpkeepOptions, maintain_catalog
from lance_spark.maintenance.policy_rules import maintenance_policy
from lance_spark.refs.refs import create_branch_at
from lance_spark.storage.datasets import find_latest, pin_latest

DAY = 86_400_000_000_000
AT_ONCE = {"expiry": {"warn": "0s"}}


@pytest.fixture
def lake(tmp_path):
    """Two tables, and a branch of the lake with a change of one of them."""
    lake = LanceCatalog(f"{tmp_path}/lake")
    for name in ("a", "b"):
        lance.write_dataset(numbers(3), lake.declare_table(name).location.uri)
    lake.branches.create("etl", expire_after="2d", owner="me")
    there = lake.checkout(branch="etl")
    own = table_branch(there.catalog, identify_table("a"), "change it")
    lance.write_dataset(numbers(1, 10), f"{lake.table('a').location.uri}/tree/{own}", mode="append")
    return lake


def run(lake, days=0.0, execute=True, policy=None, **options):
    """A maintenance as if it began so many days from now."""
    options = UpkeepOptions(maintenance_policy(policy or {}), execute, side_by_side=1, **options)
    return maintain_catalog(lake.catalog, options, RUNNER, time.time_ns() + int(days * DAY))


def told(report, kind="lake branch"):
    return [(each.name, each.state, each.what) for each in report.catalog if each.kind == kind]


def ids(lake, name):
    return sorted(lance.dataset(lake.table(name).location.uri).to_table()["id"].to_pylist())


def test_a_publish_that_died_is_ended_first(lake):
    plan = publishing.plan_publish(lake.catalog, publishing.branch_in_lake(lake.catalog, "etl"), LocalRunner())
    journals.write_journal(lake.catalog.manifest, replace(plan.journal, sequence=1))
    rehearsed = run(lake, execute=False)
    assert told(rehearsed, "publish") == [("etl", "would", "unfinished; to be ended")]
    assert ids(lake, "a") == [0, 1, 2]
    report = run(lake)
    assert told(report, "publish") == [("etl", "done", "its process died; published now")]
    assert json.loads(report.to_json())["catalog"][0]["kind"] == "publish"
    assert "its process died; published now" in str(report)
    assert ids(lake, "a") == [0, 1, 2, 10]
    assert lake.recover() is None
    assert told(run(lake), "publish") == []


def test_a_damaged_journal_is_a_problem_and_the_tables_are_maintained(lake):
    journals._create(lake.catalog.manifest, journals.journal_name(1), b"{")
    report = run(lake)
    assert report.exit_code != 0
    assert any("cannot be read" in problem for _, problem in report.problems)
    assert {record.name: record.error for record in report.tables} == {"a": "", "b": ""}


def test_what_a_killed_audit_left_goes_after_a_day(lake):
    manifest = lake.catalog.manifest
    for name, age in (("0badcafe", 2), ("1badcafe", 0)):
        made = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(days=age)
        ref = LakeBranch(audit_name(name), name, made, temporary=True)
        create_branch_at(manifest, ref.branch, pin_latest(manifest, None))
        complete(lake.catalog, ref, 0)
    assert told(run(lake, execute=False), "audit") == [("publish-0badcafe", "would", "its process died")]
    assert told(run(lake), "audit") == [("publish-0badcafe", "done", "its process died")]
    assert [ref.name for ref in list_refs(lake.catalog, BRANCH, temporary=True)] == ["publish-1badcafe"]


def test_a_branch_expires_once_main_has_its_changes(lake):
    assert told(run(lake, 1, policy=AT_ONCE)) == []
    report = run(lake, 3, policy=AT_ONCE)
    assert told(report) == []
    assert "branch etl of the lake expired but stays: 1 of its changes are not in main" in report.notes
    assert "etl" in lake.branches
    lake.branches.merge("etl")
    assert told(run(lake, 3, policy=AT_ONCE, execute=False)) == [("etl", "would", "expired")]
    assert told(run(lake, 3, policy=AT_ONCE, selection=Selection(tables=("a",)))) == []
    assert told(run(lake, 3, policy=AT_ONCE, selection=Selection(skip=frozenset({"expiry"})))) == []
    assert told(run(lake, 3, policy=AT_ONCE)) == [("etl", "done", "expired, deleted")]
    assert list(lake.branches) == []
    table = lake.table("a")
    assert table.branches.list(all=True) == []
    assert [tag.name for tag in table.tags.list(all=True) if tag.name.startswith("lake-")] == []
    assert ids(lake, "a") == [0, 1, 2, 10]


def test_its_last_change_of_any_table_counts(lake, monkeypatch):
    lake.branches.merge("etl")
    own = table_branch(lake.checkout(branch="etl").catalog, identify_table("b"), "change it")

    def find(location, branch):
        """The branch of table b was written two days from now."""
        found = find_latest(location, branch)
        return replace(found, stamp=found.stamp + 2 * DAY) if branch == own and "/b" in location.uri else found

    with monkeypatch.context() as patch:
        patch.setattr("lance_spark.maintenance.lake.find_latest", find)
        assert told(run(lake, 3, policy=AT_ONCE)) == []
    assert told(run(lake, 3, policy=AT_ONCE)) == [("etl", "done", "expired, deleted")]


def test_it_is_warned_of_first_and_a_warning_that_stood_counts(lake):
    lake.branches.merge("etl")
    assert told(run(lake, 3)) == [("etl", "done", "warned of")]
    assert told(run(lake, 9)) == []
    assert told(run(lake, 11)) == [("etl", "done", "expired, deleted")]


def test_a_protected_branch_and_one_without_an_end_stay(lake):
    lake.branches.merge("etl")
    lake.branches.create("kept")
    lake.branches.alter("etl", protected=True)
    report = run(lake, 900, policy=AT_ONCE)
    assert told(report) == []
    assert "branch etl of the lake expired but stays: remove the protection first" in report.notes
    assert [ref.name for ref in lake.branches] == ["etl", "kept"]


def test_force_deletes_changes_that_main_lacks(lake):
    assert told(run(lake, 3, policy={"expiry": {"warn": "0s", "force": True}})) == [("etl", "done", "expired, deleted")]
    assert ids(lake, "a") == [0, 1, 2]


def test_a_catalog_of_directories_has_none_of_this(tmp_path):
    lake = LanceCatalog(f"{tmp_path}/lake", mode="v1")
    lance.write_dataset(numbers(3), f"{tmp_path}/lake/a.lance")
    assert run(lake).catalog == ()
