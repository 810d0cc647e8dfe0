"""Whatever processes of a lake leave behind when they die is named by the doctor, and goes with maintenance."""

import time
from datetime import timedelta
from pathlib import Path

import pytest
from support.branched_lakes import Mortal, grow_old, later, make_lake, state, write
from support.cleanup_datasets import RUNNER
from support.killed import Killed
from support.kinds import NIGHT

from lance_spark import LanceCatalog
from lance_spark.catalog.doctor import examine
from lance_spark.catalog.doctor_rules import LEFTOVER
from lance_spark.catalog.leftovers import find_leftovers
from lance_spark.core.layout import BOOKKEEPING, QUARANTINE, STAGING, classify
from lance_spark.fsck.fsck import fsck
from lance_spark.fsck.option_rules import FsckOptions
from lance_spark.maintenance.maintain import UpkeepOptions, maintain
from lance_spark.maintenance.policy_rules import maintenance_policy

TABLES = ("a", "ns.b")
SPANS = dict.fromkeys(("older_than", "commit_window", "undo_window", "unverified_age"), "0s")
AT_ONCE = maintenance_policy({"cleanup": {**SPANS, "delete_unverified": True}, "expiry": {"undo_window": "0s"}})
STEPS = range(1, 140) if NIGHT else (7, 24, 41, 58, 75, 92)


def live(root, at):
    """A branch of the lake from beginning to end, with an audit, and a tag; it dies before one of its changes."""
    lake = LanceCatalog(root)
    with Mortal(root, at).living():
        try:
            lake.tags.create(f"t{at}")
            lake.branches.create(f"run/{at}")
            run = lake.checkout(branch=f"run/{at}")
            write(run, "a", 1000 + at)
            write(run, "ns.b", 1000 + at)
            write(lake, "a", 2000 + at)
            lake.branches.merge(f"run/{at}", audit=lambda merged: bool(merged.list_tables()))
            lake.branches.delete(f"run/{at}", purge=at % 2 == 0)
        except Killed:
            return False
    return True


def left(lake):
    root = Path(lake.catalog.uri)
    audits = sorted(str(path.relative_to(root)) for path in root.glob("__manifest/_lake/audits/*"))
    found = [path for path in root.rglob("*") if path.is_file() and (".tmp" in path.name or "tree" in path.parts)]
    found += [path for path in root.glob("*/_refs/*/*") if "lake" in path.name]
    return audits + sorted(str(path.relative_to(root)) for path in found)


def delete_all(lake):
    for kind in (lake.branches, lake.tags):
        for ref in kind.list():
            kind.delete(ref.name)


def upkeep(lake, policy=AT_ONCE, execute=True):
    options = UpkeepOptions(policy, execute=execute)
    return maintain(lake.catalog, options, RUNNER, time.time_ns() + 10**9)


def test_what_dead_processes_left_goes_with_maintenance(tmp_path):
    lake = make_lake(f"{tmp_path}/lake", TABLES)
    lived = [live(lake.catalog.uri, at) for at in (*STEPS, 0)]
    assert lived[-1]
    assert not all(lived[:-1])
    delete_all(lake)
    before = state(lake)
    assert left(lake)
    grow_old(lake.catalog.uri)
    assert any(finding.kind == LEFTOVER for finding in examine(lake.catalog, later(0)))
    upkeep(lake, execute=False)
    assert left(lake)
    report = upkeep(lake)
    assert report.exit_code == 0
    assert left(lake) == []
    assert [finding for finding in examine(lake.catalog, later(3)) if finding.kind == LEFTOVER] == []
    assert state(lake) == before
    assert live(lake.catalog.uri, 0)


def test_the_last_audit_stays_as_long_as_its_branch_can_come_back(tmp_path):
    lake = make_lake(f"{tmp_path}/lake", TABLES)
    lake.branches.create("etl")
    write(lake.checkout(branch="etl"), "a", 5)
    lake.branches.merge("etl", audit=lambda merged: bool(merged.list_tables()))
    (audit,) = Path(lake.catalog.manifest.uri, "_lake/audits").iterdir()
    grow_old(lake.catalog.uri)
    upkeep(lake)
    assert audit.exists()
    lake.branches.delete("etl")
    upkeep(lake, maintenance_policy({}))
    assert audit.exists()
    grow_old(lake.catalog.uri)
    upkeep(lake)
    upkeep(lake)
    assert not audit.exists()


def test_what_may_belong_to_a_living_process_stays(tmp_path):
    lake = make_lake(f"{tmp_path}/lake", TABLES)
    for at in (24, 41, 58):
        live(lake.catalog.uri, at)
    found = left(lake)
    upkeep(lake, maintenance_policy({}))
    assert {*found} <= {*left(lake)}
    assert [finding for finding in examine(lake.catalog, later(0)) if finding.kind == LEFTOVER] == []


@pytest.mark.parametrize("kind", ["branches", "tags"])
def test_a_complete_ref_that_lost_its_file_stays_and_is_named(tmp_path, kind):
    lake = make_lake(f"{tmp_path}/lake", TABLES)
    getattr(lake, kind).create("kept")
    if kind == "branches":
        write(lake.checkout(branch="kept"), "a", 10)
    name = "kept" if kind == "branches" else "tags/kept"
    ref = next(Path(lake.catalog.manifest.uri, "_refs/branches").glob("*kept.json"))
    content = ref.read_bytes()
    ref.unlink()
    grow_old(lake.catalog.uri)
    told = [finding for finding in examine(lake.catalog, later(0)) if finding.kind == LEFTOVER]
    assert [finding.subject for finding in told] == [f"__manifest/tree/{name}"]
    assert "lost its ref" in told[0].message
    upkeep(lake, maintenance_policy({"cleanup": {"delete_unverified": True, "unverified_age": "0s"}}))
    ref.write_bytes(content)
    there = lake.checkout(**{"branch" if kind == "branches" else "tag": "kept"})
    assert state(there) == {"a": [0, 1, 2, *([10] if kind == "branches" else [])], "ns.b": [0, 1, 2]}


def test_a_branch_of_a_table_stays_as_long_as_its_branch_of_the_lake_can_come_back(tmp_path):
    lake = make_lake(f"{tmp_path}/lake", TABLES)
    lake.branches.create("etl")
    write(lake.checkout(branch="etl"), "a", 10)
    location = lake.describe_table("a").location
    ref = next(Path(location.uri, "_refs/branches").glob("lake*etl*"))
    content = ref.read_bytes()
    ref.unlink()
    grow_old(lake.catalog.uri)
    assert find_leftovers(lake.catalog, later(), timedelta(0)) == []
    upkeep(lake)
    ref.write_bytes(content)
    assert state(lake.checkout(branch="etl"))["a"] == [0, 1, 2, 10]


def test_fsck_of_a_table_names_passing_files_of_refs(tmp_path):
    lake = make_lake(f"{tmp_path}/lake", ("a",))
    location = lake.describe_table("a").location
    lake.table("a").tags.create("v1")
    passing = Path(location.uri, "_refs/tags", f"v1.json.{'0' * 32}.tmp")
    passing.write_text("{")
    assert "uncommitted-files" not in codes(location)
    grow_old(location.uri)
    assert "uncommitted-files" in codes(location)
    upkeep(lake)
    assert not passing.exists()
    assert "v1" in lake.table("a").tags


def codes(location):
    return {finding.code for finding in fsck(location, FsckOptions(), RUNNER, time.time_ns()).findings}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"_refs/tags/v1.json.{'a' * 32}.tmp", STAGING),
        (f"_refs/lance_spark/log/1-2.json.{'0' * 32}.tmp", STAGING),
        (f"_lake/publishes/.{'a' * 32}", STAGING),
        (f"_lake/publishes/.{'a' * 32}.{'b' * 32}.tmp", STAGING),
        ("_lake/publishes/18446744073709551614.json", BOOKKEEPING),
        ("_refs/tags/v1.json", BOOKKEEPING),
        (f"_refs/tags/{'a' * 32}.json", BOOKKEEPING),
        (f"_refs/branches/a.{'a' * 32}.tmp.json", BOOKKEEPING),
        (f"_quarantine/x/_refs/tags/v1.json.{'a' * 32}.tmp", BOOKKEEPING),
    ],
)
def test_passing_names(path, kind):
    assert classify(path.replace("_quarantine", QUARANTINE)).kind == kind
