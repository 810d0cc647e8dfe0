"""Two compactions of one branch, deletions and appends at once, in processes: every row is where it has to be."""

import random
from contextlib import suppress

import lance
import pyarrow as pa
import pytest
from support.processes import PATIENCE, processes
from support.small_fragments import append, check_rows, fragmented

from lance_spark import LanceTable
from lance_spark.core.location import DatasetLocation
from lance_spark.engine.local import LocalRunner
from lance_spark.optimize import rewrites
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.optimize import optimize


def compacting(uri):
    for target in (20, 40, 60):
        options = OptimizeOptions(target_rows=target, own_only=False, partial_progress=3)
        optimize(DatasetLocation.at(uri), "exp", options, LocalRunner(1))


def deleting(root, ids):
    for key in ids:
        done = False
        while not done:
            with suppress(OSError):  # pylance's conflict with a compaction
                lance.dataset(root).delete(f"id = {key}")
                done = True


def appending(root):
    append(root, 120, 4)


@pytest.mark.slow
@pytest.mark.when(day={"stable": [True]})
@pytest.mark.parametrize("stable", [True, False], ids=["stable", "plain"])
def test_compactions_deletions_and_appends_at_once(uri, stable):
    location = fragmented(uri, stable, 6, 6)
    root, gone = location.branch_uri("exp"), random.Random(3).sample(range(120), 10)
    jobs = [(compacting, (uri,)), (compacting, (uri,)), (deleting, (root, gone)), (appending, (root,))]
    team = [processes().Process(target=run, args=given) for run, given in jobs]
    for process in team:
        process.start()
    for process in team:
        process.join(PATIENCE)
    assert [process.exitcode for process in team] == [0, 0, 0, 0]
    check_rows(root, {*range(160)} - {*gone})
    check_rows(uri, range(60))


@pytest.mark.parametrize("stable", [True, False], ids=["stable", "plain"])
def test_an_index_that_is_dropped_while_fragments_are_rewritten(uri, stable, monkeypatch):
    """pylance called it a dataset of a newer Lance, and a nightly maintenance failed as if it was corrupt."""
    for first in (0, 10, 20):
        rows = pa.table({"id": pa.array(range(first, first + 10))})
        lance.write_dataset(rows, uri, mode="append" if first else "create", enable_stable_row_ids=stable)
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    plain = rewrites.commit_rewrites

    def commit(*given):
        if lance.dataset(uri).describe_indices():
            lance.dataset(uri).drop_index("id_idx")
        return plain(*given)

    monkeypatch.setattr(rewrites, "commit_rewrites", commit)
    result = LanceTable.for_path(uri).optimize()
    assert (result.fragments_removed, result.conflicts) == (3, ())
    assert len(lance.dataset(uri).get_fragments()) == 1
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == [*range(30)]
