"""What keeps a moment of the lake has every publish in all of its tables or in none, whatever dies or comes between."""

import os
import shutil
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from unittest.mock import patch

import lance
import pytest
from support.branched_lakes import ids, make_lake, state, write
from support.killed import killed_at

from lance_spark import LanceCatalog
from lance_spark.catalog import journal as journals
from lance_spark.catalog import lake as lake_actions
from lance_spark.catalog import lake_v1
from lance_spark.catalog.lake_rules import BRANCH, TAG
from lance_spark.core.location import DatasetLocation
from lance_spark.errors import Conflict, Refused
from lance_spark.lake import publish as publishing
from lance_spark.storage.versions import newest_manifest

TABLES = ("a", "b", "c")
OLD = [0, 1, 2]
NOW = datetime.now(timezone.utc)
BEFORE = dict.fromkeys(TABLES, OLD)
AFTER = {"a": [*OLD, 10], "b": OLD, "c": [*OLD, 11], "new": [9]}


def etl(lake):
    lake.branches.create("etl")
    there = lake.checkout(branch="etl")
    write(there, "a", 10)
    write(there, "c", 11)
    write(there, "new", 9)


@contextmanager
def dying_at_second(step):
    """The publisher dies once the first table is through a step."""
    with patch.object(publishing, "_THREADS", 1), killed_at(publishing, step, 2):
        yield


def die_between_tables(lake, then=lambda: None):
    with dying_at_second("publish_table"):
        lake.branches.merge("etl")
    then()
    assert sorted(ids(lake, name) for name in ("a", "c")) in ([OLD, [*OLD, 10]], [OLD, [*OLD, 11]])


def tagged(lake):
    lake.tags.create("v1")
    return state(lake.checkout(tag="v1"))


def branched(lake):
    lake.branches.create("exp")
    return state(lake.checkout(branch="exp"))


def cloned(lake):
    return state(lake.clone(f"{lake.catalog.uri}-clone"))


def opened(lake):
    with lake.transaction("run") as run:
        return state(run)


def branched_in_part(lake):
    """Tables outside of the branch join it with their first change."""
    lake.create_namespace("other", exist_ok=True)
    lake.branches.create("part", tables=["other"])
    part = lake.checkout(branch="part")
    for name in ("a", "c"):
        write(part, name, 90)
    found = {name: [row for row in ids(part, name) if row != 90] for name in ("a", "c")}
    return {**{name: rows for name, rows in state(part).items() if name not in ("a", "c")}, **found}


def cloned_in_part(lake):
    lake.create_namespace("other", exist_ok=True)
    lake.branches.create("part", tables=["other"])
    return state(lake.clone(f"{lake.catalog.uri}-clone", branch="part"))


WAYS = (tagged, branched, cloned, opened, branched_in_part, cloned_in_part)


@pytest.mark.when(day={"way": [tagged, cloned]})
@pytest.mark.parametrize("clash", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_publisher_that_died_between_two_tables_is_ended_first(tmp_path, way, clash):
    lake = make_lake(f"{tmp_path}/lake", TABLES)
    etl(lake)
    die_between_tables(lake, lambda: lake.declare_table("new") if clash else None)
    found = way(lake)
    if clash:
        assert found == BEFORE
        assert lake.publishes()[0].state == "taken back"
    else:
        assert found == AFTER
    assert lake.recover() is None


@pytest.mark.when(day={"way": [branched, cloned_in_part]})
@pytest.mark.parametrize("way", [way for way in WAYS if way is not branched_in_part])
def test_if_it_cannot_be_ended_the_last_complete_moment_counts(tmp_path, way):
    lake = make_lake(f"{tmp_path}/lake", TABLES)
    etl(lake)
    die_between_tables(lake)

    with patch.object(publishing, "recover", side_effect=Refused("Its tables are refused.")):
        if way is opened:
            lake.branches.create("run")
            found = state(lake.checkout(branch="run"))
        else:
            found = way(lake)
    assert found == BEFORE


def test_no_table_joins_a_branch_with_rows_that_may_be_taken_back(tmp_path):
    lake = make_lake(f"{tmp_path}/lake", TABLES)
    etl(lake)
    lake.create_namespace("other")
    lake.branches.create("part", tables=["other"])
    die_between_tables(lake, lambda: lake.declare_table("new"))
    part = lake.checkout(branch="part")
    with pytest.raises(Conflict, match="has not ended yet") as told:
        [write(part, name, 90) for name in ("a", "c")]
    assert "lake.recover()" in told.value.hint
    assert lake.recover().state == "taken back"
    for name in ("a", "c"):
        write(part, name, 91)
        assert {*ids(part, name)} <= {*OLD, 90, 91}


@pytest.mark.when(day={"way": [tagged]})
@pytest.mark.parametrize("way", [tagged, branched])
def test_a_publish_that_begins_and_ends_while_tables_are_pinned_is_in_all_or_none(tmp_path, way):
    """Between the looks at two tables; the next time it is complete before."""
    lake = make_lake(f"{tmp_path}/lake", TABLES)
    etl(lake)
    looks = []

    def look(location):
        looks.append(location)
        if len(looks) == 2:
            lake.branches.merge("etl")
        return newest_manifest(location)

    with patch.object(lake_actions, "newest_manifest", look), patch.object(lake_actions, "_AT_ONCE", 1):
        found = way(lake)
    assert len(looks) == 3
    assert state(lake) == AFTER
    assert found == BEFORE
    assert state(lake.clone(f"{tmp_path}/clone", branch="exp" if way is branched else None)) in (BEFORE, AFTER)


@pytest.mark.when(day=0)
def test_a_branch_of_that_moment_merges_into_main_of_today(tmp_path):
    lake = make_lake(f"{tmp_path}/lake", TABLES)
    etl(lake)
    die_between_tables(lake)
    lake_actions.create_ref(lake.catalog, BRANCH, "exp", NOW)
    lake.recover()
    exp = lake.checkout(branch="exp")
    write(exp, "a", 30)
    write(exp, "c", 31)
    assert {name: ids(exp, name) for name in ("a", "c")} == {"a": [*OLD, 30], "c": [*OLD, 31]}
    assert lake.branches.merge("exp").state == "published"
    assert state(lake) == {"a": [*OLD, 10, 30], "b": OLD, "c": [*OLD, 11, 31], "new": [9]}


@pytest.mark.when(day={"kind": [TAG]})
@pytest.mark.parametrize("kind", [TAG, BRANCH])
def test_in_v1_as_well(tmp_path, kind):
    """A catalog of directories that others open with its table ``__manifest``, and publish."""
    lake = make_lake(f"{tmp_path}/lake", TABLES)
    for name in ("a", "c"):
        lake.table(name).branches.create("etl")
        write_branch(lake, name, 10)
    with dying_at_second("publish_table"):
        lake.publish("etl")
    v1 = LanceCatalog(lake.catalog.uri, mode="v1")
    lake_v1_ref = lake_actions.create_ref(v1.catalog, kind, "v1", NOW)
    assert lake_v1_ref.tables == 3
    assert lake_v1.find_on_tables(v1.catalog, kind, "v1") is not None
    assert state(v1.checkout(**{kind: "v1"})) == BEFORE


def write_branch(lake, name, row):
    location: DatasetLocation = lake.describe_table(name).location
    table = lance.dataset(location.uri).to_table().slice(0, 1).set_column(0, "id", [[row]])
    lance.write_dataset(table, location.branch_uri("etl"), mode="append")


def test_a_dry_run_and_a_diff_end_it_first(tmp_path):
    lake = make_lake(f"{tmp_path}/lake", TABLES)
    etl(lake)
    looks = (lambda: lake.branches.merge("etl", dry_run=True).tables, lambda: lake.branches.diff("etl").changes)
    for look in looks:
        with dying_at_second("remember_publish"):
            lake.branches.merge("etl")
        assert look() == ()
        there = lake.checkout(branch="etl")
        write(there, "a", 20)
        write(there, "c", 21)


def test_an_audit_that_saw_half_of_another_publish_is_repeated(tmp_path):
    lake = make_lake(f"{tmp_path}/lake", TABLES)
    etl(lake)
    lake.branches.create("other")
    write(lake.checkout(branch="other"), "b", 50)
    seen = []

    def audit(merged):
        if not seen:
            lake.branches.merge("etl")
        seen.append(state(merged))
        return len(seen) > 1

    assert lake.branches.merge("other", audit=audit).state == "published"
    assert len(seen) == 2
    assert seen[1] == {**AFTER, "b": [*OLD, 50]}

    def fails(_):
        raise ValueError("not good")

    write(lake.checkout(branch="other"), "b", 51)
    with pytest.raises(ValueError, match="not good"):
        lake.branches.merge("other", audit=fails)


@pytest.mark.when(day=0)
def test_if_what_could_tell_was_cleaned_up_nothing_is_made(tmp_path):
    lake = make_lake(f"{tmp_path}/lake", TABLES)
    etl(lake)
    looks = []

    def look(location):
        looks.append(location)
        if len(looks) == 3:
            lake.branches.merge("etl")
            lake.branches.delete("etl", purge=True)
            for name in ("a", "c"):
                dataset = lance.dataset(lake.describe_table(name).location.uri)
                for tag in dataset.tags.list():
                    dataset.tags.delete(tag)
                dataset.cleanup_old_versions(timedelta(0), delete_unverified=True)
        return newest_manifest(location)

    patches = patch.object(lake_actions, "newest_manifest", look), patch.object(lake_actions, "_AT_ONCE", 1)
    with patches[0], patches[1], pytest.raises(Conflict) as told:
        lake.tags.create("v1")
    assert "Run it again" in told.value.hint
    assert lake.tags.list() == []
    assert journals.sequences(lake.catalog.manifest) == [1]
    lake.tags.create("v1")
    assert state(lake.checkout(tag="v1")) == AFTER


def test_a_table_that_is_dropped_while_its_pin_is_written_is_a_conflict_and_leaves_nothing(tmp_path):
    lake = make_lake(f"{tmp_path}/lake", TABLES)
    replace, location = os.replace, lake.describe_table("c").location

    def drop_first(source, target):
        if target.startswith(location.uri):
            shutil.rmtree(location.uri)
        return replace(source, target)

    with patch.object(os, "replace", drop_first), pytest.raises(Conflict, match="was dropped while tag 'v1'"):
        lake.tags.create("v1")
    assert lake.tags.list() == []
