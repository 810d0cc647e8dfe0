"""Two compactions of one branch, deletions and appends at once, in processes: every row is where it has to be."""

import random
from contextlib import suppress

import lance
import pytest
from support.processes import PATIENCE, processes
from support.small_fragments import append, check_rows, fragmented

from lance_spark.core.location import DatasetLocation
from lance_spark.engine.local import LocalRunner
from lance_spark.optimize.optimize import optimize
from lance_spark.optimize.rules import OptimizeOptions


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
