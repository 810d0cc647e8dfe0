"""What jobs that were killed, and other tools, leave behind: found, told, and collected only when nobody needs it."""

import os
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import lance
import pytest
from lance_namespace import DeclareTableRequest, DeregisterTableRequest
from support.catalogs import ids_of, make_table, pylance, raw, rows, tables
from support.killed import killed_at
from support.local_datasets import numbers

from lance_spark.catalog import manifest_commits, removing
from lance_spark.catalog import tables as declaring
from lance_spark.catalog.doctor import examine, mend
from lance_spark.catalog.lookup import create_namespace, describe_table, open_catalog, table_exists
from lance_spark.catalog.migrate import apply_migration, plan_migration
from lance_spark.catalog.removing import collect_orphans, drop_namespace, drop_table, plan_orphans, rename_table
from lance_spark.catalog.tables import confirm, declare_table, deregister_table, register_table, withdraw
from lance_spark.clones.clone import shallow_clone
from lance_spark.errors import AlreadyExists, Conflict, InvalidOption, NotFound, Refused
from lance_spark.storage.datasets import locate, pin_latest

DAY = timedelta(days=1)


@pytest.fixture
def catalog(tmp_path):
    made = open_catalog(str(tmp_path))
    create_namespace(made, "ns")
    return made


@pytest.fixture
def v2(catalog):
    return open_catalog(catalog.uri, mode="v2")


def later(days=2):
    return datetime.now(timezone.utc) + timedelta(days=days)


def directories(catalog):
    return {name for name in os.listdir(catalog.uri) if name != "__manifest"}


def planned(catalog, **options):
    return {(orphan.directory, orphan.kind) for orphan in plan_orphans(catalog, later(), **options).orphans}


def collected(catalog, **options):
    done = collect_orphans(plan_orphans(catalog, later(), **options))
    assert done.failed == ()
    return set(done.deleted)


def test_nothing_is_collected_from_a_sound_catalog(catalog):
    make_table(catalog, "t")
    make_table(catalog, "ns.t")
    declare_table(catalog, "ns.declared")
    declare_table(catalog, "declared")
    lance.write_dataset(numbers(1), f"{catalog.uri}/v1.lance")
    (Path(catalog.uri) / "something").mkdir()
    before = directories(catalog)
    assert collected(catalog, datasets=True) == set()
    assert directories(catalog) == before


def test_a_job_that_was_killed_while_it_declared_leaves_a_name_that_can_be_dropped(catalog, monkeypatch):
    """In the root the marker comes first, elsewhere the row: whoever loses leaves nothing."""
    with killed_at(manifest_commits, "apply"):
        declare_table(catalog, "t")
    with killed_at(declaring.directories, "put_new"):
        declare_table(catalog, "ns.t")
    for name in ("t", "ns.t"):
        assert describe_table(catalog, name).declared
        with pytest.raises(AlreadyExists):
            declare_table(catalog, name)
        drop_table(catalog, name)
        assert not table_exists(catalog, name)
    assert directories(catalog) == set()


@pytest.mark.parametrize("name", ["t", "ns.t"])
def test_a_drop_that_was_killed_leaves_a_remainder_that_is_collected(catalog, monkeypatch, name):
    path = make_table(catalog, name).path
    with killed_at(removing, "erase"):
        drop_table(catalog, name)
    assert not table_exists(catalog, name)
    kind = "remainder" if name == "t" else "dataset"
    assert planned(catalog, datasets=True) == {(path, kind)}
    assert [(found.kind, found.subject) for found in examine(catalog, later())] == [("orphan directory", path)]
    assert collected(catalog, datasets=True) == {path}
    assert directories(catalog) == set()
    make_table(catalog, name, numbers(1))
    assert ids_of(catalog, name) == [0]


def test_a_drop_that_was_killed_before_the_row_went_is_told_and_mended(catalog, monkeypatch):
    make_table(catalog, "t")
    with killed_at(manifest_commits, "apply"):
        drop_table(catalog, "t")
    assert ids_of(catalog, "t") == [0, 1, 2]
    assert [(found.kind, found.subject) for found in examine(catalog, later())] == [("hidden from V1", "t.lance")]
    assert collected(catalog, datasets=True) == set()
    drop_table(catalog, "t")
    assert directories(catalog) == set()


STEPS = {
    "copied": (removing, "hide", "old"),
    "marked": (removing, "look_again", "old"),
    "before the row": (manifest_commits, "apply", "old"),
    "after the row": (removing, "_leave", "new"),
}


@pytest.mark.parametrize("registered", [True, False])
@pytest.mark.parametrize("step", STEPS)
def test_a_rename_that_was_killed_leaves_the_old_table_or_the_new_one_whole(catalog, monkeypatch, step, registered):
    room, function, holder = STEPS[step]
    if registered:
        make_table(catalog, "old")
    else:
        lance.write_dataset(numbers(3), f"{catalog.uri}/old.lance")
    with killed_at(room, function):
        rename_table(catalog, "old", "new")
    left = directories(catalog)
    if holder == "new" or registered or step == "copied":
        assert tables(catalog) == [holder]
        assert ids_of(catalog, holder) == [0, 1, 2]
    gone = collected(catalog, datasets=True)
    assert len(gone) == 1
    assert directories(catalog) == left - gone
    mend(catalog, examine(catalog, later()))  # a mark of a job that is gone
    assert examine(catalog, later()) == () if registered or holder == "new" else True
    assert tables(catalog) == [holder]
    assert ids_of(catalog, holder) == [0, 1, 2]


def test_a_cascade_that_was_killed_leaves_directories_that_are_found(catalog, monkeypatch):
    paths = {make_table(catalog, f"ns.t{number}").path for number in range(3)}
    with killed_at(removing, "erase"):
        drop_namespace(catalog, "ns", cascade=True)
    assert rows(catalog) == {}
    assert collected(catalog, datasets=True) == paths


def test_only_what_is_old_is_collected_and_only_if_it_is_still_as_it_was(catalog):
    hidden = Path(catalog.uri) / "0000beef_ns$x" / "data"
    hidden.mkdir(parents=True)
    (hidden / "a.lance").write_bytes(b"12345")
    now = datetime.now(timezone.utc)
    plan = plan_orphans(catalog, now)
    assert plan.orphans == ()
    (young,) = plan.kept
    assert (young.directory, young.kind, young.files, young.bytes) == ("0000beef_ns$x", "unfinished", 1, 5)
    assert plan_orphans(catalog, now, older_than=timedelta(hours=1)).orphans == ()
    old = time.time() - 2 * 24 * 3600
    os.utime(hidden / "a.lance", (old, old))
    os.utime(hidden.parent, (old, old))
    plan = plan_orphans(catalog, now)
    assert [orphan.directory for orphan in plan.orphans] == ["0000beef_ns$x"]
    (hidden / "b.lance").write_bytes(b"")
    assert collect_orphans(plan).spared == ("0000beef_ns$x",)
    plan = plan_orphans(catalog, later())
    hidden.parent.joinpath(".lance-reserved").write_bytes(b"")
    register_table(catalog, "ns.x", "0000beef_ns$x")
    assert collect_orphans(plan).spared == ("0000beef_ns$x",)
    with pytest.raises(InvalidOption):
        plan_orphans(catalog, now, older_than=timedelta(seconds=-1))


def test_what_somebody_deregistered_is_nobodys_to_collect(catalog, v2):
    ours, theirs = make_table(catalog, "ns.ours").path, make_table(catalog, "ns.theirs").path
    deregister_table(catalog, "ns.ours")
    pylance(v2).deregister_table(DeregisterTableRequest(id=["ns", "theirs"]))
    make_table(catalog, "root")
    deregister_table(catalog, "root")
    assert collected(catalog) == set()
    plan = plan_orphans(catalog, later())
    assert [(orphan.directory, orphan.kind) for orphan in plan.kept] == [(theirs, "dataset")], "pylance left no mark"
    assert planned(catalog, datasets=True) == {(theirs, "dataset")}
    for name, path in (("ns.ours", ours), ("ns.theirs", theirs), ("root", "root.lance")):
        register_table(catalog, name, path)
        assert ids_of(catalog, name) == [0, 1, 2]


def test_what_losers_of_pylance_leave_behind_is_collected(catalog, v2):
    theirs = pylance(v2)
    theirs.declare_table(DeclareTableRequest(id=["ns", "t"]))
    (Path(catalog.uri) / "12345678_ns$t").mkdir()
    (Path(catalog.uri) / "12345678_ns$t" / ".lance-reserved").write_bytes(b"reserved")
    assert collected(catalog) == {"12345678_ns$t"}
    assert tables(catalog, "ns") == ["ns.t"]


def test_without_a_manifest_only_remainders_are_collected(tmp_path, monkeypatch):
    catalog = open_catalog(str(tmp_path), mode="v1")
    (tmp_path / "12345678_x" / "data").mkdir(parents=True)
    make_table(catalog, "t")
    with killed_at(removing, "erase"):
        drop_table(catalog, "t")
    assert collected(catalog, datasets=True) == {"t.lance"}
    assert directories(catalog) == {"12345678_x"}


def test_a_declared_table_is_withdrawn_with_what_was_written(catalog):
    for name in ("t", "ns.t"):
        declared = declare_table(catalog, name)
        data = Path(declared.location.uri) / "data"
        data.mkdir()
        (data / "a.lance").write_bytes(b"1")
        assert withdraw(catalog, declared)
        assert directories(catalog) == set()
        assert not table_exists(catalog, name)
        assert not withdraw(catalog, declared)


def test_only_the_own_declaration_is_withdrawn(catalog):
    for name in ("t", "ns.t"):
        first = declare_table(catalog, name)
        drop_table(catalog, name)
        second = declare_table(catalog, name)
        assert not withdraw(catalog, first)
        confirm(catalog, second)
        lance.write_dataset(numbers(2), second.location.uri)
        confirm(catalog, second)
        assert not withdraw(catalog, second), "what has a version stays"
        assert ids_of(catalog, name) == [0, 1]


@pytest.mark.parametrize("name", ["t", "ns.t"])
def test_a_job_whose_table_was_dropped_while_it_wrote_makes_no_other_one(catalog, name):
    declared = declare_table(catalog, name)
    drop_table(catalog, name)
    lance.write_dataset(numbers(2), declared.location.uri)
    with pytest.raises(Conflict, match=f"Cannot create table '{name}': another process dropped"):
        confirm(catalog, declared)
    assert directories(catalog) == set()
    assert tables(catalog, recursive=True) == []


def test_a_job_whose_table_was_renamed_while_it_wrote(catalog):
    declared = declare_table(catalog, "ns.t")
    rename_table(catalog, "ns.t", "ns.u")
    lance.write_dataset(numbers(2), declared.location.uri)
    confirm(catalog, declared)  # only the row has changed: what was written is the table's
    assert ids_of(catalog, "ns.u") == [0, 1]
    declared = declare_table(catalog, "t")
    rename_table(catalog, "t", "u")
    lance.write_dataset(numbers(2), declared.location.uri)
    with pytest.raises(Conflict):
        confirm(catalog, declared)
    assert tables(catalog) == ["u"]
    assert describe_table(catalog, "u").declared


def test_a_job_never_takes_away_what_another_one_made_in_its_place(catalog):
    first = declare_table(catalog, "t")
    drop_table(catalog, "t")
    make_table(catalog, "t", numbers(5))
    with pytest.raises(Conflict):
        confirm(catalog, first)
    assert len(ids_of(catalog, "t")) == 5


def test_a_commit_in_the_very_moment_of_a_rename_is_not_lost(catalog, monkeypatch):
    declared = make_table(catalog, "t")
    change, pending = manifest_commits.apply, [1]

    def commit_before(*given):
        while pending and pending.pop():
            lance.write_dataset(numbers(1, 77), declared.location.uri, mode="append")
        return change(*given)

    monkeypatch.setattr(manifest_commits, "apply", commit_before)
    assert rename_table(catalog, "t", "u").left_behind == "t.lance"
    assert ids_of(catalog, "u") == [0, 1, 2]
    assert not table_exists(catalog, "t")
    assert collected(catalog, datasets=True) == set()
    register_table(catalog, "again", "t.lance")
    assert ids_of(catalog, "again") == [0, 1, 2, 77]


def test_a_commit_while_a_table_is_copied_is_taken_along(catalog, monkeypatch):
    declared = make_table(catalog, "t")
    hide = removing.hide

    def commit_before(*given):
        lance.write_dataset(numbers(1, 77), declared.location.uri, mode="append")
        return hide(*given)

    monkeypatch.setattr(removing, "hide", commit_before)
    assert rename_table(catalog, "t", "u").left_behind is None
    assert ids_of(catalog, "u") == [0, 1, 2, 77]


def test_tables_that_clones_read_are_not_dropped_unless_it_is_said(catalog, tmp_path_factory):
    for name in ("t", "ns.t"):
        declared = make_table(catalog, name)
        clone = locate(str(tmp_path_factory.mktemp("clones") / "clone.lance"))
        shallow_clone(declared.location, pin_latest(declared.location, None), clone)
        with pytest.raises(Refused, match=f"Cannot drop table '{name}'.*clone"):
            drop_table(catalog, name)
        assert ids_of(catalog, name) == [0, 1, 2]
    with pytest.raises(Refused, match="Cannot rename table 't' to 'u'"):
        rename_table(catalog, "t", "u")
    with pytest.raises(Refused, match="Cannot drop namespace 'ns'"):
        drop_namespace(catalog, "ns", cascade=True)
    drop_namespace(catalog, "ns", cascade=True, force=True)
    drop_table(catalog, "t", force=True)
    assert directories(catalog) == set()


def test_a_directory_that_is_a_link_is_unlinked_and_what_it_leads_to_stays(catalog, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "data"
    lance.write_dataset(numbers(3), str(elsewhere))
    (Path(catalog.uri) / "t.lance").symlink_to(elsewhere)
    assert tables(catalog) == ["t"]
    drop_table(catalog, "t")
    assert tables(catalog) == []
    (elsewhere / ".lance-deregistered").unlink(missing_ok=True)
    assert lance.dataset(str(elsewhere)).count_rows() == 3


def test_a_table_dropped_by_v1_between_scan_and_commit_gets_no_row(catalog):
    v1 = open_catalog(catalog.uri, mode="v1")
    for name in ("stays", "goes", "hides"):
        make_table(v1, name)
    plan = plan_migration(catalog)
    drop_table(v1, "goes")
    deregister_table(v1, "hides")
    done = apply_migration(plan)
    assert [str(found) for found in done.tables] == ["stays"]
    assert {found.directory for found in done.skipped} == {"goes.lance", "hides.lance"}
    assert {name for name, row in rows(catalog).items() if row["object_type"] == "table"} == {"stays"}


def test_a_table_of_v1_that_gets_a_row_while_it_is_dropped_loses_it_as_well(catalog, monkeypatch):
    make_table(open_catalog(catalog.uri, mode="v1"), "t")
    hide = removing.hide

    def registered_before(*given):
        register_table(catalog, "t")
        return hide(*given)

    monkeypatch.setattr(removing, "hide", registered_before)
    drop_table(catalog, "t")
    assert not table_exists(catalog, "t")
    assert (directories(catalog), set(rows(catalog))) == (set(), {"ns"})


def test_a_table_that_is_dropped_as_one_of_v1_before_it_has_its_row_is_not_declared(catalog, monkeypatch):
    apply = manifest_commits.apply

    def dropped_before(*given):
        monkeypatch.setattr(manifest_commits, "apply", apply)
        drop_table(catalog, "t")
        return apply(*given)

    monkeypatch.setattr(manifest_commits, "apply", dropped_before)
    with pytest.raises(Conflict, match="Cannot create table 't': another process dropped it"):
        declare_table(catalog, "t")
    assert (directories(catalog), set(rows(catalog))) == (set(), {"ns"})
    assert raw(catalog).count_rows() == 1
    with pytest.raises(NotFound):
        drop_table(catalog, "t")
