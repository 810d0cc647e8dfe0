"""A deleted branch or tag of the lake comes back as it was, or not at all; and what happened to them is listed."""

import shutil
from datetime import datetime, timedelta, timezone

import pytest
from support.branched_lakes import Mortal, clean_up, later, left_over, make_lake, state, write
from support.killed import Killed

from lance_spark import LanceCatalog
from lance_spark.catalog.removing import collect_orphans, plan_orphans
from lance_spark.errors import AlreadyExists, NotFound, Refused
from lance_spark.lake import deleted
from lance_spark.maintenance.lake import remove_leftovers

OLD = [0, 1, 2]
MAIN = {"a": OLD, "ns.b": OLD, "ns.c": OLD}


@pytest.fixture
def lake(tmp_path):
    lake = make_lake(f"{tmp_path}/lake", (*MAIN,))
    lake.branches.create("etl")
    return lake


@pytest.fixture
def changed(lake):
    """The branch, on which everything was changed; main moves on."""
    etl = lake.checkout(branch="etl")
    write(etl, "a", 10)
    write(etl, "ns.new", 9)
    etl.drop_table("ns.b")
    etl.rename_table("ns.c", "ns.d")
    write(lake, "ns.c", 20)
    return state(etl)


def test_a_deleted_branch_comes_back_with_its_changes(lake, changed):
    before = lake.branches["etl"]
    lake.branches.delete("etl")
    with pytest.raises(NotFound):
        lake.checkout(branch="etl")
    assert lake.branches.restore("etl") == before
    etl = lake.checkout(branch="etl")
    assert state(etl) == changed
    clean_up(lake)
    assert state(etl) == changed
    write(etl, "a", 11)
    lake.branches.merge("etl")
    assert state(lake) == {**changed, "a": [*OLD, 10, 11], "ns.d": [*OLD, 20]}
    lake.branches.delete("etl", purge=True)
    assert left_over(lake) == set()


def test_a_merged_branch_comes_back_at_its_last_merge(lake, changed):
    lake.branches.merge("etl")
    write(lake.checkout(branch="etl"), "a", 11)
    lake.branches.delete("etl")
    write(lake, "ns.new", 30)
    lake.branches.restore("etl")
    assert [(each.name, each.rows_added) for each in lake.branches.diff("etl").changes] == [("a", 1)]
    lake.branches.merge("etl")
    assert state(lake) == {**changed, "a": [*OLD, 10, 11], "ns.d": [*OLD, 20], "ns.new": [9, 30]}


def test_a_deleted_tag_comes_back(lake):
    tag = lake.tags.create("v1")
    write(lake, "a", 10)
    lake.tags.delete("v1")
    assert lake.tags.restore("v1") == tag
    assert state(lake.checkout(tag="v1")) == MAIN
    clean_up(lake)
    assert state(lake.checkout(tag="v1")) == MAIN


def test_what_cleanups_removed_is_named_and_nothing_is_changed(lake, changed):
    lake.branches.delete("etl")
    clean_up(lake)
    before = left_over(lake)
    with pytest.raises(Refused, match=r"something is gone\. ns\.d: .*no version 1"):
        lake.branches.restore("etl")
    assert (left_over(lake), [*lake.branches]) == (before, [])


def test_a_new_table_waits_a_week_for_the_job_for_orphans(lake, changed, monkeypatch):
    lake.branches.delete("etl")
    assert collect_orphans(plan_orphans(lake.catalog, later())).deleted == ()
    lake.branches.restore("etl")
    lake.branches.delete("etl")
    remove_leftovers(lake.catalog, later(), execute=True)
    assert len(collect_orphans(plan_orphans(lake.catalog, later())).deleted) == 1
    with pytest.raises(NotFound, match="no deletion of it that can be undone is recorded"):
        lake.branches.restore("etl")
    assert [change.action for change in lake.reflog().changes] == []


def test_a_table_that_was_created_again_is_not_the_one_that_a_tag_had(lake, monkeypatch):
    lake.tags.create("v1")
    lake.tags.delete("v1")
    lake.branches.delete("etl", purge=True)
    lake.drop_table("a")
    write(lake, "a", 7)
    monkeypatch.setattr(deleted, "_SKEW", timedelta(0))
    with pytest.raises(Refused, match="a: another table is in its directory now"):
        lake.tags.restore("v1")


@pytest.mark.parametrize(
    ("prepare", "error", "said"),
    [
        (lambda _: None, AlreadyExists, "there is one of that name"),
        (lambda lake: lake.branches.delete("etl", purge=True), NotFound, "no deletion of it that can be undone"),
        (lambda lake: (lake.branches.delete("etl"), lake.branches.create("etl")), AlreadyExists, "one of that name"),
        (
            lambda lake: (lake.branches.delete("etl"), lake.branches.create("etl"), lake.branches.delete("etl", True)),
            NotFound,
            "no deletion of it",
        ),
    ],
)
def test_what_cannot_be_restored_says_why(lake, prepare, error, said):
    prepare(lake)
    with pytest.raises(error, match=said):
        lake.branches.restore("etl")


def test_a_catalog_of_directories_restores_refs_of_its_tables(tmp_path):
    make_lake(f"{tmp_path}/lake", ("a",))
    shutil.rmtree(f"{tmp_path}/lake/__manifest")
    lake = LanceCatalog(f"{tmp_path}/lake", mode="v1")
    lake.branches.create("etl")
    lake.branches.delete("etl")
    with pytest.raises(Refused, match=r"it is a branch of each table"):
        lake.branches.restore("etl")
    assert lake.table("a").branches.restore("etl").name == "etl"


def died(lake, act, at):
    mortal = Mortal(lake.catalog.uri, at)
    with mortal.living():
        try:
            act("etl")
        except Killed:
            return True
    return False


def is_complete(lake):
    return "etl" in lake.branches and lake.branches["etl"].ready


def test_killed_at_any_change_a_deletion_and_a_restore_are_ended_by_a_restore(tmp_path):
    deaths = 0
    for at in range(1, 60):
        lake = make_lake(f"{tmp_path}/{at}", ("a", "ns.b"))
        lake.branches.create("etl")
        etl = lake.checkout(branch="etl")
        write(etl, "a", 10)
        write(etl, "ns.new", 9)
        before = state(etl)
        dead = [died(lake, lake.branches.delete, at)]
        if is_complete(lake):
            lake.branches.delete("etl")
        dead.append(died(lake, lake.branches.restore, at))
        if not is_complete(lake):
            lake.branches.restore("etl")
        assert state(lake.checkout(branch="etl")) == before
        assert state(lake) == {"a": OLD, "ns.b": OLD}
        lake.branches.delete("etl", purge=True)
        assert left_over(lake) == set()
        deaths += sum(dead)
        if not any(dead):
            break
    assert not any(dead)
    assert deaths >= 10


def test_the_reflog_tells_what_happened(lake, changed):
    lake.tags.create("v1")
    lake.branches.merge("etl")
    lake.branches.delete("etl")
    lake.branches.restore("etl")
    lake.tags.delete("v1")
    told = [(change.kind, change.name, change.action) for change in lake.reflog().changes]
    assert told[:3] == [("tag", "v1", "deleted"), ("branch", "etl", "restored"), ("branch", "etl", "deleted")]
    assert sorted(told[3:]) == [
        ("branch", "etl", "created"),
        ("branch", "etl", "merged"),
        ("tag", "v1", "created"),
    ]
    assert {change.name for change in lake.reflog("v1").changes} == {"v1"}
    assert "restored" in str(lake.reflog("etl"))
    with pytest.raises(NotFound, match="There is no branch or tag of the lake 'x'"):
        lake.reflog("x")
    assert lake.reflog().changes[0].at <= datetime.now(timezone.utc)
