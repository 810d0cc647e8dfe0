"""The threads of this process as an engine: who works alone, who gets company, and how rows are dealt out."""

import threading
import time
from types import SimpleNamespace

import pyarrow as pa
import pytest

from lance_spark.runner import local
from lance_spark.runner.local import LocalRunner

NUMBERS = pa.schema([("number", pa.int64())])


def numbered(number):
    yield pa.record_batch([pa.array([number], pa.int64())], NUMBERS)


@pytest.fixture
def undisturbed(monkeypatch):
    """A machine that does nothing else: a thread that waits for a core would seem to wait for a store."""
    monkeypatch.setattr(local, "time", SimpleNamespace(perf_counter=time.thread_time, thread_time=time.thread_time))


@pytest.mark.parametrize("waits", [False, True])
def test_only_work_that_waits_is_done_side_by_side_and_always_in_order(request, waits):
    if not waits:
        request.getfixturevalue("undisturbed")
    workers = set()

    def work(number):
        workers.add(threading.get_ident())
        if waits:
            time.sleep(0.05)
        yield from numbered(number)

    runner = LocalRunner(4)
    for _ in range(2):
        found = runner.flat_map("work", range(12), work, NUMBERS)
        assert found["number"].to_pylist() == list(range(12))
    if waits:
        assert len(workers - {threading.get_ident()}) > 1
    else:
        assert workers == {threading.get_ident()}


def test_what_fails_in_a_thread_fails_for_the_caller():
    def work(number):
        time.sleep(0.02)
        if number == 3:
            raise ValueError("three")
        yield from numbered(number)

    with pytest.raises(ValueError, match="three"):
        LocalRunner(4).flat_map("work", range(8), work, NUMBERS)


def rows_of_slices(runner, count):
    seen = []

    def note(batches):
        rows = [number for batch in batches for number in batch["number"].to_pylist()]
        seen.append(rows)
        yield from numbered(len(rows))

    table = pa.table({"number": pa.array(range(count), pa.int64())}, NUMBERS)
    runner.map("note", table, note, NUMBERS)
    return sorted(seen)


@pytest.mark.parametrize("count", [0, 1, 999, 1000, 1001, 1999, 2001, 3003, 8000, 8001, 25_500])
def test_slices_hold_every_row_once_in_whole_requests(count):
    runner = LocalRunner(8)
    runner.flat_map("wait", [1], lambda number: time.sleep(0.05) or numbered(number), NUMBERS)
    found = rows_of_slices(runner, count)
    assert [number for rows in found for number in rows] == list(range(count))
    assert len(found) <= 8
    assert all(len(rows) % 1000 == 0 for rows in found[:-1])
    # No more requests than it takes, however the rows are dealt out.
    assert sum(-(-len(rows) // 1000) for rows in found) == -(-count // 1000)


@pytest.mark.usefixtures("undisturbed")
def test_work_that_never_waited_is_one_slice():
    assert [len(rows) for rows in rows_of_slices(LocalRunner(8), 25_500)] == [25_500]
