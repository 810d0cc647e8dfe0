"""A cleanup that is killed at any moment: what is listed reads whole, and the next plain run finishes the work."""

import os
import random
import shutil
from pathlib import Path

import lance
import pytest
from support import cleanup_datasets
from support.killed import Act
from support.kinds import NIGHT
from support.local_datasets import numbers

from lance_spark.cleanup import cleanup

pytestmark = pytest.mark.slow

SEEDS = range(48 if NIGHT else 12)
BATCH = 40
"""Files per batch, so that there are many batches to be killed in."""
LEFT = {None: [2, 9, 29, 30], "a": [12, 38], "a/b": [41], "c": [58]}
"""By branch, what a cleanup leaves: the tagged version, forks and the latest."""


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A dataset with 120 versions on four branches, and what each of them holds. A copy of it lies beside it."""
    uri = str(tmp_path_factory.mktemp("killed") / "table.lance")
    lance.write_dataset(numbers(4), uri, max_rows_per_file=2)
    extend(uri, None, 8)
    lance.dataset(uri).create_branch("a", 9)
    extend(uri, "a", 3)
    lance.dataset(uri).create_branch("a/b", ("a", 12))
    extend(uri, "a", 26)
    extend(uri, "a/b", 29)
    extend(uri, None, 20)
    lance.dataset(uri).create_branch("c", 29)
    extend(uri, "c", 29)
    extend(uri, None, 1)
    lance.dataset(uri).tags.create("early", 2)
    shutil.copytree(uri, f"{uri}.saved")
    return uri, cleanup_datasets.reads(uri)


@pytest.fixture
def busy(original):
    """The dataset as it was, at the place that its branches name."""
    uri, before = original
    shutil.rmtree(uri)
    shutil.copytree(f"{uri}.saved", uri)
    return uri, before


def extend(uri, branch, commits):
    """Appends, overwrites, deletions and indexes."""
    for number in range(commits):
        dataset = lance.dataset(cleanup_datasets.place(uri, branch))
        start = 10 * dataset.version
        if number % 9 == 4:
            dataset.create_scalar_index("id", "BTREE", replace=True)
        elif number % 4 == 3:
            dataset.delete("id % 5 = 0")
        elif number % 10 == 8:
            cleanup_datasets.overwrite(uri, start, branch=branch)
        else:
            cleanup_datasets.append(uri, start, branch=branch)


@pytest.fixture(scope="module")
def cost(original):
    """How many steps, and how many seconds, a run takes that nobody disturbs."""
    return RUN.cost(original[0])


def plain_run(uri):
    cleanup_datasets.clean(uri, older_than=cleanup_datasets.NOW, error_if_tagged_old_versions=False)


def tell_steps(listener):
    """Count, in this process, whatever changes something on the disk."""
    numbers_given = iter(range(10**6))

    def counted(real):
        def stepping(*given, **named):
            listener(next(numbers_given))
            return real(*given, **named)

        return stepping

    cleanup.BATCH = BATCH
    for name in ("replace", "unlink", "remove", "rmdir"):
        setattr(os, name, counted(getattr(os, name)))


RUN = Act(plain_run, tell_steps)


@pytest.mark.when(day=0.15)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_cleanup_leaves_whole_versions_and_the_next_run_leaves_nothing_to_do(busy, cost, seed):
    (uri, before), (steps, seconds), chance = busy, cost, random.Random(seed)
    if seed % 2:
        RUN.killed_after(seconds * chance.random(), uri)
    else:
        # The first steps record the plan; the last ones remove the record.
        step = seed // 2 if seed < 8 else steps - 1 - (seed - 8) // 2 if seed < 16 else chance.randrange(steps)
        RUN.killed_at_step(step, uri)
    cleanup_datasets.assert_kept(uri, before)

    plain_run(uri)
    cleanup_datasets.assert_kept(uri, before)
    assert {branch: cleanup_datasets.versions(uri, branch) for branch in cleanup_datasets.branches(uri)} == LEFT
    assert cleanup_datasets.orphans(uri) == set()
    assert list(Path(uri, "_cleanup").glob("*/_plan.json")) == []
