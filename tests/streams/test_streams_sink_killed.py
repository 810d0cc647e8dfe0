"""A driver that is killed at any moment of its batches, again and again: in the end every row is there once."""

import json
import os
import random
import signal
import threading
from pathlib import Path

import lance
import pytest
from support.cleanup_datasets import NOW, clean
from support.local_datasets import make_dataset, numbers
from support.processes import PATIENCE, processes

from lance_spark.streams.sink import commit_stream, plan_stream
from lance_spark.write.data_files import write_rows

pytestmark = pytest.mark.slow

BATCHES, ROWS = 40, 5
SEEDS = [pytest.param(seed, marks=() if seed < 1 else pytest.mark.when(day=0)) for seed in range(50)]


def drive(uri, progress, options, seconds):
    """What Spark's driver does: go on with the batch after the last one that was noted as done. Killed in between."""
    if seconds is not None:
        threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
    for number in range(int(Path(progress).read_text() or 0), BATCHES):
        stream = plan_stream({"path": uri, **options}, numbers(1).schema, False)
        tasks = (numbers(ROWS, ROWS * number), numbers(ROWS, ROWS * number + 10_000))
        fragments = [one for rows in tasks for one in write_rows(stream.job, rows.to_batches())]
        commit_stream(stream, fragments, number)
        Path(f"{progress}.new").write_text(str(number + 1))
        os.replace(f"{progress}.new", progress)
    os._exit(0)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_row_is_there_once(seed, uri, tmp_path):
    chance, progress = random.Random(seed), tmp_path / "progress"
    progress.write_text("")
    Path(tmp_path, "metadata").write_text(json.dumps({"id": "orders"}))
    options = {"checkpointLocation": str(tmp_path), "optimize_every": str(chance.choice([2, 5]))}
    if chance.random() < 0.5:
        make_dataset(uri, numbers(1, 99_999))
        options |= {"branch": "ingest", "create_branch": "true"}
    killed = 0
    while True:
        seconds = chance.uniform(0.0, 0.2) if killed < 8 else None
        process = processes().Process(target=drive, args=(uri, str(progress), options, seconds))
        process.start()
        process.join(PATIENCE)
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        killed += 1
        if os.path.exists(uri) and chance.random() < 0.5:
            disturb(uri, options.get("branch"), chance)
    assert killed > 1
    dataset = lance.dataset(uri)
    dataset = dataset.checkout_version(("ingest", None)) if "branch" in options else dataset
    found = sorted(key for key in dataset.to_table()["id"].to_pylist() if key < 20_000)
    assert found == sorted([*range(BATCHES * ROWS), *range(10_000, 10_000 + BATCHES * ROWS)])


def disturb(uri, branch, chance):
    """Somebody else commits, and maybe cleans up what nobody needs; two cleanups may be killed before one ends."""
    try:
        dataset = lance.dataset(uri)
        dataset = dataset if branch is None else dataset.checkout_version((branch, None))
    except ValueError:  # the first batch did not come that far
        return
    for _ in range(chance.randint(1, 6)):
        lance.write_dataset(numbers(1, 50_000), dataset, mode="append")
    if chance.random() < 0.7:
        for _ in range(chance.randint(0, 2)):
            process = processes().Process(target=clean_up, args=(uri, chance.uniform(0.0, 0.1)))
            process.start()
            process.join(PATIENCE)
        clean(uri, older_than=NOW)


def clean_up(uri, seconds):
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
    clean(uri, older_than=NOW)
    os._exit(0)
