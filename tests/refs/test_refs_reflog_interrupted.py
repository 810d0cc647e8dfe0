"""Deleted branches that can be restored: killed processes, races, and refs that other tools make of them."""

import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path
from unittest.mock import patch

import lance
import pytest
from support.local_datasets import ids, make_dataset, numbers, write

from lance_spark import LanceTable
from lance_spark.core.records.reflog import LOG
from lance_spark.core.refs import RefSpec
from lance_spark.errors import AlreadyExists, Refused, StorageFailure
from lance_spark.maintenance.expiry import carry_out, plan_expiry
from lance_spark.maintenance.expiry_rules import DELETED_BRANCH, NEEDED
from lance_spark.refs import reflog, refs


@pytest.fixture
def table(uri):
    make_dataset(uri, numbers(3))
    table = LanceTable.for_path(uri)
    table.branches.create("exp")
    write(uri, numbers(1, 100), branch="exp")
    return table


def later(days):
    return datetime.now(timezone.utc) + timedelta(days=days)


def expire(table, days=8):
    return carry_out(table.location, plan_expiry(table.location, later(days)), later(days))


def fail_to_restore(table):
    table.branches.delete("exp")
    with patch.object(reflog, "put_ref_file", side_effect=StorageFailure("503")), pytest.raises(StorageFailure):
        table.branches.restore("exp")


def test_a_restore_that_failed_can_be_done_again(table, uri):
    fail_to_restore(table)
    table.branches.restore("exp")
    assert ids(uri, branch="exp") == [0, 1, 2, 100]


def test_the_files_of_a_branch_whose_restore_failed_expire(table):
    fail_to_restore(table)
    assert [outcome.outcome for outcome in expire(table).outcomes] == ["deleted"]


def test_a_branch_that_was_made_while_one_of_its_name_is_restored_stays(table, uri, monkeypatch):
    table.branches.delete("exp")
    look = reflog._check_files

    def make_another(location, pin):
        look(location, pin)
        refs.create_branch(location, "exp", RefSpec(version=1))
        write(uri, numbers(1, 200), branch="exp")

    monkeypatch.setattr(reflog, "_check_files", make_another)
    with pytest.raises((AlreadyExists, Refused)):
        table.branches.restore("exp")
    assert ids(uri, branch="exp") == [0, 1, 2, 200]
    assert [branch.name for branch in table.branches.list()] == ["exp"]


def test_the_files_of_a_deleted_branch_stay_while_a_tag_of_another_tool_is_on_them(table, uri):
    table.branches.delete("exp")
    lance.dataset(uri).tags.create("theirs", ("exp", 2))
    deleted = next(e for e in plan_expiry(table.location, later(8)).entries if e.record.kind == DELETED_BRANCH)
    assert (deleted.state, deleted.why) == (NEEDED, "tag 'theirs' is on it")
    assert expire(table).complete


def test_a_deletion_that_was_refused_leaves_nothing_that_expires(table):
    with patch.object(refs, "check_unneeded", side_effect=Refused("a tag came")), pytest.raises(Refused):
        table.branches.delete("exp")
    assert not [e for e in plan_expiry(table.location, later(8)).entries if e.record.kind == DELETED_BRANCH]


def test_a_deleted_branch_whose_files_somebody_removed_is_done_with(table, uri):
    table.branches.delete("exp")
    shutil.rmtree(Path(uri) / "tree/exp")
    assert expire(table).complete
    assert not [e for e in plan_expiry(table.location, later(8)).entries if e.record.kind == DELETED_BRANCH]


def test_old_records_go_even_if_no_ref_expires(table, uri):
    table.tags.create("v1")
    table.tags.delete("v1")
    expire(table)
    assert not list((Path(uri) / LOG).glob("*.json"))
