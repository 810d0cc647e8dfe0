"""What refs pointed at before, and taking it back: after cleanups, kills and races, read by pylance."""

import os
import shutil
import time
from datetime import datetime, timedelta, timezone
from unittest.mock import Mock

import lance
import pytest
from support.cleanup_datasets import clean
from support.local_datasets import contents, ids, make_dataset, numbers, write

from lance_spark import LanceTable
from lance_spark.cleanup.cleanup import plan_cleanup
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.core.records.reflog import BEGUN, DONE, FORGOTTEN, LOG
from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import AlreadyExists, Conflict, CorruptData, NotFound, Refused
from lance_spark.maintenance.expiry import carry_out, plan_expiry
from lance_spark.maintenance.expiry_rules import DELETED, DELETED_BRANCH, NEEDED, STAYED
from lance_spark.refs import reflog, refs
from lance_spark.refs.refs import create_branch, delete_branch
from lance_spark.storage.refs import read_changes

NOTHING_STAYS = {"older_than": timedelta(0), "commit_window": timedelta(0)}


@pytest.fixture
def table(uri):
    make_dataset(uri, numbers(3))
    for start in (10, 20, 30):
        lance.write_dataset(numbers(3, start), uri, mode="overwrite")
    table = LanceTable.for_path(uri)
    table.branches.create("exp", expire_after="30d", owner="ml")
    write(uri, numbers(1, 100), branch="exp")
    return table


def later(days):
    return datetime.now(timezone.utc) + timedelta(days=days)


def tag_of(uri, name):
    found = lance.dataset(uri).tags.list().get(name)
    return None if found is None else (found["branch"], found["version"])


def set_aside(table, name="exp"):
    table.branches.delete(name)


def versions(uri):
    return [entry["version"] for entry in lance.dataset(uri).versions()]


def test_a_moved_tag_comes_back_after_a_cleanup(table, uri):
    table.tags.create("v1", version=2, owner="qa", expire_after="90d")
    table.tags.move("v1", version=4)
    clean(uri, **NOTHING_STAYS)
    assert 2 in versions(uri)
    table.tags.restore("v1")
    assert tag_of(uri, "v1") == (None, 2)
    assert ids(uri, tag="v1") == [10, 11, 12]
    table.tags.restore("v1")  # and takes back the restore
    assert tag_of(uri, "v1") == (None, 4)


def test_a_deleted_tag_comes_back_with_what_it_said_of_itself(table, uri):
    table.tags.create("v1", branch="exp", owner="qa", expire_after="90d")
    before = refs.find_tag(table.location, "v1")
    table.tags.delete("v1")
    assert tag_of(uri, "v1") is None
    table.tags.restore("v1")
    after = refs.find_tag(table.location, "v1")
    assert (after.target, after.metadata) == (before.target, before.metadata)


def test_after_the_window_a_cleanup_takes_what_the_tag_was_on(table, uri):
    table.tags.create("v1", version=2)
    table.tags.delete("v1")
    clean(uri, undo_window=timedelta(0), **NOTHING_STAYS)
    assert 2 not in versions(uri)
    with pytest.raises(NotFound, match="no version 2"):
        table.tags.restore("v1")
    assert tag_of(uri, "v1") is None


def test_a_tag_deleted_between_plan_and_sweep_keeps_its_version(table, uri):
    policy = CleanupPolicy(**NOTHING_STAYS)
    plan = plan_cleanup(table.location, policy, LocalRunner(), time.time_ns() + 10**9)
    table.tags.create("v1", version=2)
    table.tags.delete("v1")
    plan.apply()
    assert 2 in versions(uri)
    table.tags.restore("v1")
    assert ids(uri, tag="v1") == [10, 11, 12]


@pytest.mark.parametrize("happened", [True, False])
def test_a_killed_move_is_told_apart_from_one_that_happened(table, uri, monkeypatch, happened):
    table.tags.create("v1", version=1)
    table.tags.move("v1", version=2)
    move = reflog.refs.move_tag

    def killed(*arguments):
        if happened:
            move(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(refs.refs, "move_tag", killed)
        with pytest.raises(KeyboardInterrupt):
            table.tags.move("v1", version=3)
    assert [change.state for change in read_changes(table.location)] == [DONE, BEGUN]
    assert "not finished" in str(table.reflog("v1"))
    table.tags.restore("v1")
    assert tag_of(uri, "v1") == (None, 2 if happened else 1)


def test_no_change_without_its_record(table, uri, monkeypatch):
    table.tags.create("v1", version=1)
    monkeypatch.setattr(reflog.refs, "write_change", Mock(side_effect=OSError("no space left")))
    with pytest.raises(OSError, match="no space"):
        table.tags.delete("v1")
    with pytest.raises(OSError, match="no space"):
        set_aside(table)
    assert tag_of(uri, "v1") == (None, 1)
    assert "exp" in lance.dataset(uri).branches.list()


def test_what_something_else_did_since_is_not_overwritten(table, uri):
    table.tags.create("v1", version=1)
    table.tags.move("v1", version=2)
    lance.dataset(uri).tags.update("v1", 3)
    with pytest.raises(Refused, match="something else"):
        table.tags.restore("v1")
    table.tags.delete("v1")
    table.tags.create("v1", version=4)
    with pytest.raises(AlreadyExists, match="created again"):
        table.tags.restore("v1")
    assert tag_of(uri, "v1") == (None, 4)


def test_a_version_of_that_number_on_a_new_branch_is_not_what_the_tag_was_on(table, uri):
    table.tags.create("v1", branch="exp", version=5)
    table.tags.delete("v1")
    delete_branch(table.location, "exp")
    table.branches.create("exp")
    write(uri, numbers(1, 555), branch="exp")
    with pytest.raises(Refused, match="a different version"):
        table.tags.restore("v1")


def test_a_deleted_branch_comes_back_with_rows_versions_and_settings(table, uri):
    before = refs.find_branch(table.location, "exp")
    rows, files = ids(uri, branch="exp"), contents(f"{uri}/tree/exp")
    set_aside(table)
    assert "exp" not in lance.dataset(uri).branches.list()
    with pytest.raises(NotFound):
        table.checkout(branch="exp").count_rows()
    clean(uri, **NOTHING_STAYS)
    restored = table.branches.restore("exp")
    assert restored == before
    assert ids(uri, branch="exp") == rows
    assert contents(f"{uri}/tree/exp") == files
    write(uri, numbers(1, 101), branch="exp")
    table.branches.merge("exp")
    assert {100, 101} <= set(ids(uri))


def test_a_branch_deleted_by_accident_can_still_be_merged_after_cleanups(table, uri):
    """The version that it was made from stays, although main has gone on."""
    set_aside(table)
    lance.write_dataset(numbers(1, 77), uri, mode="append")
    clean(uri, **NOTHING_STAYS)
    assert 4 in versions(uri)
    table.branches.restore("exp")
    table.branches.merge("exp")
    assert {77, 100} <= set(ids(uri))


def test_a_new_branch_of_the_name_gives_the_old_one_up(table, uri):
    set_aside(table)
    create_branch(table.location, "exp", RefSpec(version=1))
    assert ids(uri, branch="exp") == [0, 1, 2]
    assert [change.state for change in read_changes(table.location)] == [FORGOTTEN]
    delete_branch(table.location, "exp")
    with pytest.raises(NotFound, match="No recorded deletion"):
        table.branches.restore("exp")
    assert not os.path.exists(f"{uri}/tree/exp")


def test_restoring_and_giving_up_at_the_same_time_never_leaves_half_a_branch(table, uri, monkeypatch):
    set_aside(table)
    put = reflog.put_ref_file

    def slow(location, name, content):
        (change,) = [change for change in read_changes(location) if change.action == "deleted"]
        assert reflog.forget_branch(location, change)
        put(location, name, content)

    monkeypatch.setattr(reflog, "put_ref_file", slow)
    with pytest.raises(Refused, match="discarded for good"):
        table.branches.restore("exp")
    assert "exp" not in lance.dataset(uri).branches.list()
    monkeypatch.undo()
    create_branch(table.location, "exp", RefSpec(version=1))
    assert ids(uri, branch="exp") == [0, 1, 2]


def test_giving_up_stops_when_the_branch_is_back(table, uri):
    set_aside(table)
    (change,) = read_changes(table.location)
    table.branches.restore("exp")
    assert not reflog.forget_branch(table.location, change)
    assert ids(uri, branch="exp")[-1] == 100


def test_giving_up_stops_when_another_job_makes_the_branch(table, uri):
    set_aside(table)
    (change,) = read_changes(table.location)
    shutil.rmtree(f"{uri}/tree/exp")
    lance.dataset(uri).create_branch("exp", 1)
    os.remove(f"{uri}/_refs/branches/exp.json")  # as it is for a moment while pylance creates it
    assert not reflog.forget_branch(table.location, change)
    assert os.path.exists(f"{uri}/tree/exp/_versions")


def test_a_tag_that_another_tool_put_on_a_deleted_branch_keeps_its_files(table, uri):
    set_aside(table)
    (change,) = read_changes(table.location)
    lance.dataset(f"{uri}/tree/exp").tags.create("late")
    assert tag_of(uri, "late") == ("exp", 5)
    assert not reflog.forget_branch(table.location, change)
    plan = plan_expiry(table.location, later(8))
    assert [entry.state for entry in plan.entries if entry.record.kind == DELETED_BRANCH] == [NEEDED]
    assert carry_out(table.location, plan, later(8)).complete
    table.branches.restore("exp")
    assert ids(uri, tag="late")[-1] == 100


def test_a_tag_is_not_put_back_on_a_branch_that_is_deleted(table, uri):
    table.tags.create("v1", branch="exp")
    table.tags.delete("v1")
    set_aside(table)
    with pytest.raises(NotFound, match="exp"):
        table.tags.restore("v1")
    table.branches.restore("exp")
    table.tags.restore("v1")
    assert tag_of(uri, "v1") == ("exp", 5)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_killed_deletion_of_a_branch(table, uri, monkeypatch, moment):
    drop = refs.drop_ref

    def killed(*arguments):
        if moment == "after":
            drop(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(refs, "drop_ref", killed)
        with pytest.raises(KeyboardInterrupt):
            set_aside(table)
    if moment == "before":
        with pytest.raises(AlreadyExists):
            table.branches.restore("exp")
    else:
        table.branches.restore("exp")
    assert ids(uri, branch="exp")[-1] == 100


def test_files_go_when_the_window_is_over(table, uri):
    table.branches.create("child", branch="exp")
    set_aside(table, "child")
    set_aside(table)
    location = table.location
    with pytest.raises(Refused, match="'exp', which does not exist"):
        table.branches.restore("child")
    assert carry_out(location, plan_expiry(location, later(6)), later(6)).outcomes == ()
    plan = plan_expiry(location, later(8))
    assert [entry.record.name for entry in plan.expired] == ["exp", "child"]
    report = carry_out(location, plan, later(8))
    assert {outcome.outcome for outcome in report.outcomes} == {DELETED}
    assert not os.path.exists(f"{uri}/tree/exp")
    assert not os.path.exists(f"{uri}/tree/child")
    for name in ("exp", "child"):
        with pytest.raises(NotFound):
            table.branches.restore(name)


def test_a_branch_does_not_come_back_to_another_parent(table, uri):
    table.branches.create("child", branch="exp")
    lance.write_dataset(numbers(1, 5), f"{uri}/tree/child", mode="overwrite")  # reads nothing of its parent any more
    set_aside(table, "child")
    delete_branch(table.location, "exp")
    time.sleep(1.1)  # creation times are whole seconds
    table.branches.create("exp")
    with pytest.raises(Refused, match="an earlier branch"):
        table.branches.restore("child")


def test_what_was_restored_since_the_plan_is_not_purged(table, uri):
    set_aside(table)
    plan = plan_expiry(table.location, later(8))
    table.branches.restore("exp")
    report = carry_out(table.location, plan, later(8))
    assert {outcome.outcome for outcome in report.outcomes} == {STAYED}
    assert ids(uri, branch="exp")[-1] == 100


def test_a_branch_whose_files_another_tool_took_is_not_restored(table, uri):
    set_aside(table)
    os.remove(next(os.path.join(f"{uri}/tree/exp/data", name) for name in os.listdir(f"{uri}/tree/exp/data")))
    with pytest.raises(Refused, match="which is gone"):
        table.branches.restore("exp")
    assert "exp" not in lance.dataset(uri).branches.list()


def test_what_a_branch_needs_is_checked_before_it_is_set_aside(table, uri):
    table.tags.create("v1", branch="exp")
    with pytest.raises(Refused, match="v1"):
        set_aside(table)
    with pytest.raises(NotFound):
        set_aside(table, "nothing")
    assert read_changes(table.location) == ()


def test_the_log_of_branches_and_tags(table, uri):
    table.tags.create("v1", version=2)
    table.tags.move("v1", branch="exp")
    table.tags.delete("v1")
    set_aside(table)
    table.branches.restore("exp")
    assert [(row[2], row[3], row[4]) for row in table.reflog("v1").rows] == [
        ("deleted", "", "exp@5"),
        ("moved", "exp@5", "main@2"),
    ]
    rows = table.reflog("exp").rows
    assert {row[2] for row in rows} >= {"deleted", "restored", "append"}
    assert [row[3] for row in table.reflog("main").rows] == ["main@4", "main@3", "main@2", "main@1"]
    assert len(table.reflog("main", count=2).rows) == 2
    assert len(table.reflog().rows) == 4
    with pytest.raises(NotFound, match="'nothing'"):
        table.reflog("nothing")


def test_a_damaged_record_stops_cleanups_and_is_named(table, uri):
    table.tags.create("v1", version=2)
    table.tags.delete("v1")
    (name,) = os.listdir(f"{uri}/{LOG}")
    with open(f"{uri}/{LOG}/{name}", "w") as file:
        file.write("{")
    with pytest.raises(CorruptData, match=name):
        clean(uri, **NOTHING_STAYS)
    assert 2 in versions(uri)


def test_old_records_go_and_those_of_kept_branches_stay(table):
    table.tags.create("v1", version=2)
    table.tags.delete("v1")
    set_aside(table)
    assert reflog.prune(table.location, later(6), timedelta(days=7)) == 0
    assert reflog.prune(table.location, later(8), timedelta(days=7)) == 1
    assert [change.name for change in read_changes(table.location)] == ["exp"]


def test_a_conflict_in_the_last_look_leaves_the_branch(table, uri, monkeypatch):
    monkeypatch.setattr(refs, "check_unneeded", Mock(side_effect=Conflict("someone came")))
    with pytest.raises(Conflict):
        set_aside(table)
    assert ids(uri, branch="exp")[-1] == 100
