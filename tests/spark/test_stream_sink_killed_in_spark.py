"""A real streaming query, whose whole driver is killed at random moments and restarted from its checkpoint."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import lance
import pytest
from support.local_datasets import make_dataset, numbers

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.nightly]

JOB = Path(__file__).parents[1] / "support" / "streaming_job.py"
FILES, ROWS = 6, 7


def start(*given):
    return subprocess.Popen(
        [sys.executable, str(JOB), *map(str, given)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Java dies with it; a worker of Python that commits right now goes on for a moment
        text=True,
    )


def kill(process):
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("seed", range(50))
def test_every_row_is_there_once(seed, uri, tmp_path):
    chance, source = random.Random(seed), tmp_path / "in"
    source.mkdir()
    for number in range(FILES):
        lines = [json.dumps({"id": ROWS * number + row}) for row in range(ROWS)]
        (source / f"{number}.json").write_text("\n".join(lines))
    make_dataset(uri, numbers(1, 99_999))
    killed = 0
    for left in (*range(chance.choice([1, 2])), None):
        process = start(source, uri, tmp_path / "c")
        assert process.stdout.readline() == "ready\n"
        timer = None if left is None else threading.Timer(chance.uniform(1, 8), kill, (process,))
        if timer is not None:
            timer.start()
        code = process.wait(300)
        if timer is not None:
            timer.cancel()
        kill(process)
        killed += code == -signal.SIGKILL
        assert code in (0, -signal.SIGKILL)
    assert killed
    ingest = lance.dataset(uri).checkout_version(("ingest", None))
    assert sorted(ingest.to_table()["id"].to_pylist()) == [*range(FILES * ROWS), 99_999]
    assert lance.dataset(uri).count_rows() == 1
