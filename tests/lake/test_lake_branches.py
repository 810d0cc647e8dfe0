"""Branches of a lake: what they see, what they change, what is left of them, whatever dies in between."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import pytest
from support.branched_lakes import (
    Mortal,
    begin_write,
    clean_up,
    delete_row,
    grow_old,
    ids,
    later,
    left_over,
    make_lake,
    state,
    write,
)
from support.catalogs import raw
from support.killed import Killed
from support.kinds import NIGHT

from lance_spark.catalog.lake_rules import KEY
from lance_spark.catalog.removing import collect_orphans, plan_orphans
from lance_spark.errors import AlreadyExists, Conflict, InvalidName, NotFound, Refused
from lance_spark.lake import audit
from lance_spark.tables.write import finish

TABLES = ("a", "ns.b", "ns.c")
STRIDE = 1 if NIGHT else 29
OLD = [0, 1, 2]
BEFORE = dict.fromkeys(TABLES, OLD)


@pytest.fixture
def lake(tmp_path):
    return make_lake(f"{tmp_path}/lake", TABLES)


@pytest.fixture
def etl(lake):
    return branched(lake)


def branched(lake, name="etl", tables=None):
    lake.branches.create(name, tables)
    return lake.checkout(branch=name)


def directories(lake):
    return {path.name for path in Path(lake.catalog.uri).iterdir()}


# --- What a branch has


@pytest.mark.parametrize(
    ("tables", "covered"),
    [
        (None, TABLES),
        ("a", ("a",)),
        (["ns"], ("ns.b", "ns.c")),
        (["ns.c", "a"], ("a", "ns.c")),
        ([], ()),
        ([""], TABLES),
    ],
)
def test_covered_tables_stay_as_they_were_and_others_follow_main(lake, tables, covered):
    etl = branched(lake, tables=tables)
    assert etl.catalog.ref.tables == len(covered)
    for name in TABLES:
        write(lake, name, 10)
    assert state(etl) == {name: OLD if name in covered else [*OLD, 10] for name in TABLES}
    assert len(left_over(lake)) == len(covered)


def test_what_follows_main_joins_with_its_first_change(lake):
    etl = branched(lake, tables=["a"])
    write(lake, "ns.b", 10)
    with pytest.raises(Refused, match=r"does not cover table 'ns\.b'"):
        etl.drop_table("ns.b")
    write(etl, "ns.b", 20)
    write(lake, "ns.b", 30)
    write(lake, "ns.c", 30)
    assert state(etl) == {"a": OLD, "ns.b": [*OLD, 10, 20], "ns.c": [*OLD, 30]}
    clean_up(lake)
    assert ids(etl, "ns.b") == [*OLD, 10, 20]
    lake.branches.merge("etl")
    assert ids(lake, "ns.b") == [*OLD, 10, 20, 30]
    lake.branches.delete("etl", purge=True)
    assert left_over(lake) == set()


@pytest.mark.parametrize(
    ("name", "tables", "error"),
    [
        ("etl", ["x"], NotFound),
        ("etl", ["ns.x"], NotFound),
        ("etl", ["a", "y"], NotFound),
        ("tags/x", None, InvalidName),
        ("publish-0badcafe", None, InvalidName),
        ("", None, InvalidName),
        ("main", None, InvalidName),
    ],
)
def test_what_cannot_be_created_leaves_nothing(lake, name, tables, error):
    with pytest.raises(error):
        lake.branches.create(name, tables)
    assert (list(lake.branches), left_over(lake), raw(lake.catalog).branches.list()) == ([], set(), {})


def test_everything_on_a_branch_stays_there_until_it_is_merged(lake, etl):
    write(etl, "a", 10)
    write(etl, "ns.b", 7, overwrite=True)
    delete_row(etl, "ns.b", 7)
    etl.create_namespace("stage", {"owner": "me"})
    write(etl, "stage.new", 9)
    etl.rename_table("ns.c", "stage.moved")
    etl.alter_table("stage.moved", {"color": "red"})
    etl.declare_table("ns.empty")
    before = state(etl)
    assert before == {"a": [*OLD, 10], "ns.b": [], "stage.moved": OLD, "stage.new": [9]}
    assert (state(lake), lake.list_namespaces()) == (BEFORE, ["ns"])
    etl.drop_table("ns.empty")
    lake.branches.merge("etl")
    assert state(lake) == state(etl) == before
    assert lake.describe_namespace("stage").properties == {"owner": "me"}
    assert lake.describe_table("stage.moved").properties == {"color": "red"}


@pytest.mark.parametrize("mode", ["v2", "compatibility"])
def test_a_table_is_dropped_on_the_branch_and_then_on_main(tmp_path, mode):
    lake = make_lake(f"{tmp_path}/lake", TABLES, mode)
    etl = branched(lake)
    etl.drop_table("ns.b")
    if mode == "v2":
        etl.rename_table("a", "d")
    else:
        for change in (lambda: etl.drop_table("a"), lambda: etl.rename_table("a", "d")):
            with pytest.raises(Refused, match=r"a\.lance is a table by its name"):
                change()
    after = {"d" if mode == "v2" else "a": OLD, "ns.c": OLD}
    assert (state(lake), state(etl)) == (BEFORE, after)
    clean_up(lake)
    lake.branches.merge("etl")
    assert state(lake) == state(etl) == after
    assert len(collect_orphans(plan_orphans(lake.catalog, later())).deleted) == 1
    assert state(lake) == state(etl) == after
    lake.branches.delete("etl", purge=True)
    assert left_over(lake) == set()


def test_pins_survive_every_cleanup(lake, etl):
    write(etl, "a", 10)
    for name in TABLES:
        write(lake, name, 50, overwrite=True)
    clean_up(lake)
    clean_up(lake)
    assert state(etl) == {**BEFORE, "a": [*OLD, 10]}
    write(etl, "ns.b", 10)
    assert ids(etl, "ns.b") == [*OLD, 10]
    lake.branches.delete("etl", purge=True)
    clean_up(lake)
    assert [len(lance.dataset(lake.describe_table(name).location.uri).versions()) for name in TABLES] == [1, 1, 1]
    assert state(lake) == {name: [50] for name in TABLES}


@pytest.mark.parametrize("tables", [None, []], ids=["covered", "joining"])
def test_writers_that_race_for_the_first_change_share_the_branch(lake, tables):
    etl = branched(lake, tables=tables)
    jobs = [begin_write(etl, "a", 10 + number) for number in range(2)]
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(finish, *job) for job in jobs]
        futures += [pool.submit(write, etl, "ns.b", 10 + number) for number in range(2)]
        _ = [future.result() for future in futures]
    assert state(etl) == {"a": [*OLD, 10, 11], "ns.b": [*OLD, 10, 11], "ns.c": OLD}
    assert len({name for name in left_over(lake) if "/tree/" in name}) == 2


def test_a_branch_of_the_same_name_is_another_one(lake, etl):
    write(etl, "a", 10)
    handle, job = etl.table("ns.b"), begin_write(etl, "a", 20)
    lake.branches.delete("etl")
    again = branched(lake)
    for use in (lambda: etl.table("a"), lambda: state(etl), lambda: etl.create_namespace("x")):
        with pytest.raises(NotFound, match="was deleted since"):
            use()
    with pytest.raises(Conflict, match="has been deleted"):
        finish(*job)
    with pytest.raises(NotFound, match="deleted, and created again"):
        lake_branch_of(handle)
    assert state(again) == BEFORE
    write(again, "a", 30)
    assert state(again) == {**BEFORE, "a": [*OLD, 30]}
    lake.branches.merge("etl")
    assert state(lake) == {**BEFORE, "a": [*OLD, 30]}


def lake_branch_of(handle):
    from lance_spark.catalog.lake import begin_table_branch

    return begin_table_branch(handle.location, handle.ref.begins)


# --- What a deleted branch leaves


def everything_changed(etl):
    write(etl, "a", 10)
    write(etl, "ns.b", 10)
    write(etl, "ns.new", 9)
    etl.drop_table("ns.b")
    etl.rename_table("ns.c", "ns.d")
    delete_row(etl, "ns.d", 0)


@pytest.mark.parametrize("published", [False, True])
def test_a_deleted_branch_leaves_nothing(lake, etl, published):
    everything_changed(etl)
    if published:
        lake.branches.merge("etl")
        write(etl, "ns.late", 9)
    before = state(lake)
    lake.branches.delete("etl", purge=True)
    assert (left_over(lake), raw(lake.catalog).branches.list(), raw(lake.catalog).tags.list()) == (set(), {}, {})
    collect_orphans(plan_orphans(lake.catalog, later()))
    assert state(lake) == before
    assert len(directories(lake)) == len(before) + 1, "each table, and __manifest"


def test_the_changes_of_a_deleted_branch_can_be_had_for_a_week(lake, etl):
    write(etl, "a", 10)
    branch = etl.table("a").ref.branch
    lake.branches.delete("etl")
    assert lake.table("a").branches.restore(branch).name == branch
    assert lake.table("a", branch=branch).ref.branch == branch


def test_a_new_table_that_was_dropped_can_be_collected_but_not_a_published_one(lake, etl):
    for name in ("ns.x", "ns.y", "ns.z"):
        write(etl, name, 9)
    etl.drop_table("ns.x")
    lake.branches.merge("etl")
    etl.drop_table("ns.y")
    assert len(collect_orphans(plan_orphans(lake.catalog, later())).deleted) == 1
    assert state(lake) == {**BEFORE, "ns.y": [9], "ns.z": [9]}
    assert state(etl) == {**BEFORE, "ns.z": [9]}
    lake.branches.merge("etl")
    assert state(lake) == state(etl)
    assert len(collect_orphans(plan_orphans(lake.catalog, later())).deleted) == 1
    assert state(lake) == state(etl) == {**BEFORE, "ns.z": [9]}


# --- Merging again and again


def test_a_table_that_the_branch_created_and_published_is_on_both_sides(lake, etl):
    write(etl, "ns.new", 1)
    lake.branches.merge("etl")
    write(etl, "ns.new", 2)
    assert (ids(lake, "ns.new"), ids(etl, "ns.new")) == ([1], [1, 2])
    write(lake, "ns.new", 3)
    assert (ids(lake, "ns.new"), ids(etl, "ns.new")) == ([1, 3], [1, 2])
    lake.branches.merge("etl")
    assert (ids(lake, "ns.new"), ids(etl, "ns.new")) == ([1, 2, 3], [1, 2])
    assert lake.branches.merge("etl").state == "up to date"
    assert lake.branches.diff("etl").is_empty


def test_what_main_undid_after_a_merge_is_not_done_again(lake, etl):
    etl.rename_table("ns.c", "ns.d")
    etl.alter_table("ns.b", {"color": "red"})
    etl.create_namespace("stage")
    write(etl, "a", 10)
    lake.branches.merge("etl")
    lake.rename_table("ns.d", "ns.c")
    lake.alter_table("ns.b", unset="color")
    lake.drop_namespace("stage")
    delete_row(lake, "a", 10)
    assert lake.branches.merge("etl").state == "up to date"
    write(etl, "a", 11)
    assert [change.name for change in lake.branches.diff("etl").changes] == ["a"]
    lake.branches.merge("etl")
    assert state(lake) == {**BEFORE, "a": [*OLD, 11]}
    assert (lake.describe_table("ns.b").properties, lake.list_namespaces()) == ({}, ["ns"])


def test_a_table_whose_changes_were_merged_can_be_dropped(lake, etl):
    write(etl, "ns.b", 10)
    write(etl, "ns.new", 1)
    lake.branches.merge("etl")
    write(etl, "ns.new", 2)
    lake.branches.merge("etl")
    for name in ("ns.b", "ns.new"):
        etl.drop_table(name)
    lake.branches.merge("etl")
    assert state(lake) == {"a": OLD, "ns.c": OLD}


def both_update(lake, etl):
    write(lake, "a", 5, overwrite=True)
    write(etl, "a", 6, overwrite=True)


CONFLICTS = {
    "rows": (both_update, "a"),
    "one new name": (lambda lake, etl: [write(each, "ns.new", 1) for each in (lake, etl)], "ns.new"),
    "dropped here, written there": (lambda lake, etl: (etl.drop_table("ns.b"), write(lake, "ns.b", 9)), "ns.b"),
    "dropped there, written here": (
        lambda lake, etl: (write(etl, "ns.b", 9), lake.drop_table("ns.b", force=True)),
        "ns.b",
    ),
    "filled there, dropped here": (lambda lake, etl: (write(lake, "ns.void", 9), etl.drop_table("ns.void")), "ns.void"),
    "two names": (
        lambda lake, etl: (lake.rename_table("ns.b", "ns.x"), etl.rename_table("ns.b", "ns.y")),
        "ns.b",
    ),
    "one property": (
        lambda lake, etl: [each.alter_table("ns.b", {"k": value}) for each, value in ((lake, "1"), (etl, "2"))],
        "ns.b",
    ),
    "namespace": (
        lambda lake, etl: (etl.drop_namespace("ns", cascade=True), write(lake, "ns.late", 1)),
        "ns",
    ),
}


@pytest.mark.parametrize("case", CONFLICTS)
def test_conflicts_are_told_by_table_and_change_nothing(lake, case):
    change, table = CONFLICTS[case]
    lake.declare_table("ns.void")
    etl = branched(lake)
    write(etl, "ns.c", 10)
    change(lake, etl)
    before = state(lake)
    assert [text.partition(":")[0] for text in lake.branches.merge("etl", dry_run=True).conflicts] == [table]
    with pytest.raises(Conflict, match=f"- {table}: "):
        lake.branches.merge("etl")
    assert (state(lake), lake.publishes()) == (before, [])
    lake.branches.delete("etl")
    assert state(lake) == before


def test_columns_and_rows_of_others_stay(lake):
    """In __manifest, on main and on the branch."""
    manifest = raw(lake.catalog)
    manifest.add_columns({"theirs": "cast(length(object_id) as int)"})
    view = {"object_id": "ns$view", "object_type": "view", "metadata": '{"sql": "SELECT 1"}', "theirs": 70}
    fields = {name: [view.get(name)] for name in manifest.schema.names}
    lance.write_dataset(manifest_table(fields, manifest.schema), manifest.uri, mode="append")
    lake.alter_table("ns.b", {"k": "v"})
    etl = branched(lake)
    etl.rename_table("ns.b", "ns.d")
    write(etl, "ns.new", 1)
    write(etl, "ns.c", 1)
    lake.branches.merge("etl")
    found = {row["object_id"]: row for row in raw(lake.catalog).to_table().to_pylist()}
    assert {name: found[name]["theirs"] for name in ("a", "ns$c", "ns$d", "ns$new")} == {
        "a": 1,
        "ns$c": 4,
        "ns$d": 4,
        "ns$new": None,
    }
    assert {name: found["ns$view"][name] for name in view} == view
    assert not [row for row in found.values() if KEY in (row["metadata"] or "")]


def manifest_table(fields, schema):
    import pyarrow as pa

    return pa.table(fields, schema)


# --- A process that dies


def of_creation(lake, _):
    return lambda: lake.branches.create("new")


def of_first_change(lake, etl):
    return lambda: write(etl, "a", 10)


def of_deletion(lake, etl):
    everything_changed(etl)
    return lambda: lake.branches.delete("etl")


def of_merge(lake, etl):
    everything_changed(etl)
    return lambda: lake.branches.merge("etl", message="nightly")


def of_audit(lake, etl):
    everything_changed(etl)
    write(lake, "a", 50)
    return lambda: lake.branches.merge("etl", audit=lambda merged: state(merged)["a"] == [*OLD, 10, 50])


def dies_everywhere(tmp_path, prepare):
    """A lake for each change of files before which the process can die; by day not for all; at last none does."""
    at, died = 1 - STRIDE, True
    while died:
        at += STRIDE
        lake = make_lake(f"{tmp_path}/{at}/lake", TABLES)
        etl = branched(lake)
        act = prepare(lake, etl)
        before = state(lake), state(etl)
        mortal = Mortal(lake.catalog.uri, at)
        with mortal.living():
            try:
                act()
            except Killed:
                pass
            else:
                died = False
        yield lake, etl, before, died
    assert at > 1


def test_a_creation_that_dies_is_whole_or_can_be_deleted(tmp_path):
    for lake, etl, (main, branch), died in dies_everywhere(tmp_path, of_creation):
        assert (state(lake), state(etl)) == (main, branch)
        for made in lake.branches:
            if made.name != "new":
                continue
            assert died or made.ready
            if made.ready:
                assert state(lake.checkout(branch="new")) == main
            else:
                with pytest.raises(NotFound, match="incomplete"):
                    lake.checkout(branch="new")
                with pytest.raises(AlreadyExists):
                    lake.branches.create("new")
            lake.branches.delete("new")
        assert len(left_over(lake)) == len(TABLES)
        assert state(branched(lake, "new")) == main


def test_a_first_change_that_dies_happened_or_did_not(tmp_path):
    for lake, etl, (main, branch), died in dies_everywhere(tmp_path, of_first_change):
        assert state(lake) == main
        done = {**branch, "a": [*OLD, 10]}
        assert state(etl) in ([branch, done] if died else [done])
        clean_up(lake)
        write(etl, "a", 20)
        assert set(ids(etl, "a")) >= {*OLD, 20}
        lake.branches.delete("etl", purge=True)
        assert left_over(lake) == set()


def test_a_deletion_that_dies_is_never_a_branch_without_its_versions(tmp_path):
    for lake, etl, (main, branch), _ in dies_everywhere(tmp_path, of_deletion):
        clean_up(lake)
        try:
            assert state(etl) == branch
        except NotFound:
            with pytest.raises(NotFound):
                lake.checkout(branch="etl")
        if "etl" in lake.branches:
            lake.branches.delete("etl", purge=True)
        assert state(lake) == main
        assert not [found for found in left_over(lake) if "/_refs/" in found]
        assert (raw(lake.catalog).branches.list(), raw(lake.catalog).tags.list()) == ({}, {})
        grow_old(f"{lake.catalog.uri}/__manifest/tree")
        assert state(branched(lake)) == main


@pytest.mark.parametrize("prepare", [of_merge, of_audit])
def test_a_merge_that_dies_is_whole_or_nothing(tmp_path, prepare):
    for lake, etl, (main, branch), died in dies_everywhere(tmp_path, prepare):
        after = {**branch, "a": sorted({*main["a"], *branch["a"]})}
        if lake.publishes() and lake.publishes()[0].state == "unfinished":
            assert lake.recover().state == "published"
        assert state(lake) in ([main, after] if died else [after])
        assert state(etl) == branch
        lake.branches.merge("etl")
        assert (state(lake), state(etl)) == (after, branch)
        assert lake.branches.merge("etl").state == "up to date"
        audit.sweep(lake.catalog, later(2))
        lake.branches.delete("etl", purge=True)
        assert (left_over(lake), raw(lake.catalog).branches.list(), raw(lake.catalog).tags.list()) == (set(), {}, {})
        collect_orphans(plan_orphans(lake.catalog, later()))
        assert len(directories(lake)) == len(after) + 1
        assert state(lake) == after
