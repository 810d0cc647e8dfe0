"""Processes that sleep between two requests, and go on when others have gone further; tables that go meanwhile."""

import lance
import pytest
from support.branched_lakes import ids, later, make_lake, state, write

from lance_spark.catalog import journal as journals
from lance_spark.catalog import lake as lake_actions
from lance_spark.catalog import manifest_commits
from lance_spark.catalog.removing import collect_orphans, plan_orphans
from lance_spark.errors import Conflict
from lance_spark.lake.deleted import forget_old
from lance_spark.storage import refs

OLD = [0, 1, 2]


@pytest.fixture
def lake(tmp_path):
    return make_lake(f"{tmp_path}/lake", ("ns.a", "ns.b"), "v2")


@pytest.fixture
def etl(lake):
    lake.branches.create("etl")
    return lake.checkout(branch="etl")


def test_a_helper_that_sleeps_at_its_last_step_makes_no_later_publish_happen_twice(lake, etl, monkeypatch):
    """It set the version from which changes count back behind the later publish."""
    write(etl, "ns.a", 10)
    real, asleep = refs.move_tag, []

    def move_tag(location, tag, target):
        if not asleep:  # another process ends this publish, and then comes the next one
            asleep.append(target)
            lake.recover()
            etl.create_namespace("stage")
            etl.rename_table("ns.b", "ns.x")
            lake.branches.merge("etl")
        real(location, tag, target)

    with monkeypatch.context() as patch:
        patch.setattr(refs, "move_tag", move_tag)
        lake.branches.merge("etl")
    assert asleep
    assert state(lake) == {"ns.a": [*OLD, 10], "ns.x": OLD}
    lake.rename_table("ns.x", "ns.b")
    lake.drop_namespace("stage")
    assert lake.branches.diff("etl").is_empty
    assert lake.branches.merge("etl").state == "up to date"
    assert (set(state(lake)), lake.list_namespaces()) == ({"ns.a", "ns.b"}, ["ns"])
    journal = journals.read_journal(lake.catalog.manifest, 2)
    assert lake_actions.base_of(lake.catalog, etl.catalog.ref).version == journal.branch_version


def test_rows_of_a_publish_whose_record_a_late_helper_replaced_are_not_added_twice(lake, etl):
    """The record of the merge is gone; main compacted the rows."""
    write(etl, "ns.a", 10)
    lake.branches.merge("etl")
    location = lake.describe_table("ns.a").location
    branch = etl.table("ns.a").ref.branch
    before = refs.read_branch(location, branch).metadata
    write(etl, "ns.a", 11)
    lake.branches.merge("etl")
    refs.replace_metadata(location, branch, before)
    lance.dataset(location.uri).optimize.compact_files()
    write(etl, "ns.a", 12)
    try:
        lake.branches.merge("etl")
    except Conflict:
        assert ids(lake, "ns.a") == [*OLD, 10, 11]
    else:
        assert ids(lake, "ns.a") == [*OLD, 10, 11, 12]


@pytest.mark.parametrize("kind", ["branches", "tags"])
def test_a_table_that_is_dropped_while_a_ref_is_created_is_not_pinned_without_its_files(lake, monkeypatch, kind):
    real, done = lake_actions._with_pins, []

    def drop_first(*arguments):
        if not done:
            done.append(lake.drop_table("ns.b"))
        return real(*arguments)

    monkeypatch.setattr(lake_actions, "_with_pins", drop_first)
    with pytest.raises(Conflict, match=r"ns\.b"):
        getattr(lake, kind).create("etl")
    assert done
    assert list(getattr(lake, kind)) == []
    getattr(lake, kind).create("etl")
    there = lake.checkout(branch="etl") if kind == "branches" else lake.checkout(tag="etl")
    assert state(there) == {"ns.a": OLD}


@pytest.mark.parametrize("mode", ["v2", "compatibility"])
def test_a_table_that_a_ref_pins_while_it_is_dropped_keeps_its_files(tmp_path, monkeypatch, mode):
    lake = make_lake(f"{tmp_path}/lake", ("ns.a", "b"), mode)
    real, done = manifest_commits.apply, []

    def create_first(manifest, change, *arguments):
        if not done and change.doing.startswith("drop"):
            done.append(lake.tags.create("v1"))
        return real(manifest, change, *arguments)

    monkeypatch.setattr(manifest_commits, "apply", create_first)
    lake.drop_table("b")
    assert done
    for _ in range(2):
        assert state(lake) == {"ns.a": OLD}
        assert state(lake.checkout(tag="v1")) == {"ns.a": OLD, "b": OLD}
        collect_orphans(plan_orphans(lake.catalog, later()))
    lake.tags.delete("v1")
    assert collect_orphans(plan_orphans(lake.catalog, later())).deleted == (), "it can be restored for a week"
    assert forget_old(lake.catalog, later(), execute=True)
    assert len(collect_orphans(plan_orphans(lake.catalog, later())).deleted) == 1
