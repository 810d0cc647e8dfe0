"""Pulls and pushes of a clone that picked rows from its own branches and rewrote them since.

Nobody else can have such rows, so that nothing is in the way. Rows that came from elsewhere, or went there, stay a
conflict: they may be on both sides under other names.
"""

import time
from contextlib import suppress
from datetime import timedelta
from functools import partial

import lance
import pyarrow as pa
import pytest
from support.cleanup_datasets import RUNNER
from support.killed import Killed
from support.remote_datasets import tell_steps

from lance_spark.cleanup.cleanup import plan_cleanup
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.errors import Conflict
from lance_spark.merge.merge import cherry_pick, merge, revert
from lance_spark.merge.option_rules import MergeOptions
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.optimize import optimize
from lance_spark.refs.refs import create_branch_at
from lance_spark.remotes.clone import clone
from lance_spark.remotes.fetch import Remote, fetch
from lance_spark.remotes.pull import pull
from lance_spark.remotes.push import push
from lance_spark.storage.datasets import find_latest, locate, pin_latest

ALL = CleanupPolicy(
    older_than=timedelta(0), commit_window=timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
)


class Clones:
    """A source and two clones; the first one has a branch of its own."""

    def __init__(self, directory, stable):
        self.source, self.own, self.other = (f"{directory}/{name}.lance" for name in ("source", "own", "other"))
        self.rows = {1: 0, 2: 0, 3: 0}
        lance.write_dataset(table(1, 2, 3), self.source, enable_stable_row_ids=stable)
        self.remote = Remote("origin", locate(self.source))
        for uri in (self.own, self.other):
            clone(self.remote, pin_latest(self.remote.location, None), locate(uri), RUNNER)
        create_branch_at(self.here, "side", pin_latest(self.here, None))

    @property
    def here(self):
        return locate(self.own)

    def append(self, uri, *ids):
        lance.write_dataset(table(*ids), uri, mode="append")
        self.rows |= dict.fromkeys(ids, 0)

    def update(self, uri, key, value):
        lance.dataset(uri).update({"v": str(value)}, where=f"id = {key}")
        self.rows[key] = value

    def pick(self, source="side"):
        cherry_pick(self.here, pin_latest(self.here, source), None, RUNNER)

    def pull(self, uri=None):
        return pull(locate(uri or self.own), self.remote, None, None, RUNNER)

    def push(self, uri=None, branch=None):
        push(locate(uri or self.own), self.remote, branch, RUNNER)

    def merge_at_source(self, branch):
        location = locate(self.source)
        merge(location, pin_latest(location, branch), None, MergeOptions(), RUNNER)


def table(*ids):
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([0] * len(ids), pa.int64())})


def found(uri):
    return sorted((row["id"], row["v"]) for row in lance.dataset(uri).to_table().to_pylist())


@pytest.fixture
def clones(tmp_path):
    return Clones(tmp_path, stable=False)


def rewrite(clones, how):
    if how in ("update", "order"):
        clones.update(clones.own, 100, 7)
    if how == "delete":
        lance.dataset(clones.own).delete("id = 100")
        del clones.rows[100]
    if how == "compact":
        lance.dataset(clones.own).optimize.compact_files(target_rows_per_fragment=1000)
    if how == "order":
        optimize(clones.here, None, OptimizeOptions(sort_by=["v", "id"], own_only=False), RUNNER)


def change_remote(clones, how):
    clones.append(clones.source, 200)
    if how == "update":
        clones.update(clones.source, 200, 9)
        clones.update(clones.source, 1, 9)
    if how == "compact":
        lance.dataset(clones.source).optimize.compact_files()
    if how == "push":
        clones.append(clones.other, 300)
        clones.pull(clones.other)
        clones.update(clones.other, 300, 4)
        clones.push(clones.other)


@pytest.mark.when(day=0.1)
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("ours", ["nothing", "update", "delete", "compact", "order"])
@pytest.mark.parametrize("theirs", ["append", "update", "compact", "push"])
def test_rows_that_a_clone_picked_from_its_own_branch_are_in_nobodys_way(tmp_path, stable, ours, theirs):
    clones = Clones(tmp_path, stable)
    clones.append(f"{clones.own}/tree/side", 100)
    clones.pick()
    clones.append(clones.own, 101)
    rewrite(clones, ours)
    change_remote(clones, theirs)
    clones.append(clones.other, 400)
    before = clones.rows.pop(400)
    clones.pull()
    clones.push()
    clones.rows[400] = before
    clones.pull(clones.other)
    clones.push(clones.other)
    clones.pull()
    for uri in (clones.own, clones.source, clones.other):
        assert found(uri) == sorted(clones.rows.items())


def clean(clones):
    time.sleep(0.002)
    plan_cleanup(clones.here, ALL, RUNNER, time.time_ns()).apply()


@pytest.mark.parametrize("ours", ["update", "compact"])
def test_a_cleanup_of_the_pick_keeps_what_it_took(tmp_path, ours):
    clones = Clones(tmp_path, stable=False)
    clones.append(f"{clones.own}/tree/side", 100)
    clones.pick()
    clones.append(clones.own, 101)
    rewrite(clones, ours)
    clean(clones)
    change_remote(clones, "update")
    clones.pull()
    clones.push()
    for uri in (clones.own, clones.source):
        assert found(uri) == sorted(clones.rows.items())


def pushed(clones):
    clones.append(f"{clones.own}/tree/side", 100)
    clones.pick()
    clones.push(branch="side")
    clones.merge_at_source("side")


def updated_elsewhere(clones):
    clones.append(f"{clones.own}/tree/side", 100)
    clones.pick()
    clones.push(branch="side")
    clones.update(f"{clones.source}/tree/side", 100, 33)
    clones.merge_at_source("side")


def of_the_remote(clones):
    location = locate(clones.source)
    create_branch_at(location, "foo", pin_latest(location, None))
    clones.append(f"{clones.source}/tree/foo", 100)
    fetch(clones.here, clones.remote, RUNNER)
    clones.pick("origin/foo")
    clones.merge_at_source("foo")


def merged_from_the_remote(clones):
    location = locate(clones.source)
    create_branch_at(location, "foo", pin_latest(location, None))
    clones.append(f"{clones.source}/tree/foo", 100)
    fetch(clones.here, clones.remote, RUNNER)
    clones.append(f"{clones.own}/tree/side", 90)
    merge(clones.here, pin_latest(clones.here, "origin/foo"), "side", MergeOptions(), RUNNER)
    clones.pick()
    clones.merge_at_source("foo")


def pushed_by_a_process_that_died(clones):
    """The remote has the rows, and nothing here says so."""
    clones.append(f"{clones.own}/tree/side", 100)
    clones.pick()
    there = locate(clones.source)
    for last in range(40):
        with pytest.MonkeyPatch.context() as patched, suppress(Killed):
            tell_steps(partial(die_at, last), patched.setattr)
            clones.push(branch="side")
        if find_latest(there, "side") is not None and (100, 0) in found(f"{clones.source}/tree/side"):
            break
    clones.update(f"{clones.source}/tree/side", 100, 33)
    clones.merge_at_source("side")


def die_at(last, step):
    if step == last:
        raise Killed


def read_by_a_clone(clones):
    clones.append(f"{clones.own}/tree/side", 100)
    clones.pick()
    third = f"{clones.own}-third"
    clone(Remote("origin", clones.here), pin_latest(clones.here, "side"), locate(third), RUNNER)
    clones.append(clones.source, *lance.dataset(third).to_table(filter="id = 100")["id"].to_pylist())


def brought_back(clones):
    lance.dataset(clones.own).delete("id = 3")
    revert(clones.here, pin_latest(clones.here, None), None, RUNNER)
    clones.append(clones.own, 100)
    clones.update(clones.source, 3, 8)


@pytest.mark.parametrize("cleaned", [False, True])
@pytest.mark.parametrize(
    "case",
    [
        pushed,
        updated_elsewhere,
        pushed_by_a_process_that_died,
        of_the_remote,
        merged_from_the_remote,
        read_by_a_clone,
        brought_back,
    ],
)
def test_rows_that_others_may_have_stay_a_conflict(clones, case, cleaned):
    case(clones)
    clones.update(clones.own, 100, 7)
    if cleaned:
        clean(clones)
    before = found(clones.own)
    with pytest.raises(Conflict) as problem:
        clones.pull()
    assert "reset=True" in problem.value.hint
    assert found(clones.own) == before


def test_rows_with_equal_values_on_both_sides_stay_a_conflict(clones):
    """A copy of the clone that its tools know nothing of may have pushed them."""
    clones.append(f"{clones.own}/tree/side", 100)
    clones.pick()
    clones.update(clones.own, 1, 7)
    clones.append(clones.source, 100)
    with pytest.raises(Conflict):
        clones.pull()
