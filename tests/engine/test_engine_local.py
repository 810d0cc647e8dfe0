"""The threads of this process as an engine: who works alone, who gets company, and how rows are dealt out."""

import threading
import time
from types import SimpleNamespace

import pyarrow as pa
import pytest

from lance_spark.columns.fill_rules import BackfillProgress
from lance_spark.core.progress import WorkProgress
from lance_spark.engine import local
from lance_spark.engine.local import LocalRunner
from lance_spark.optimize.compaction_rules import OptimizeProgress

pytestmark = pytest.mark.pure

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


def test_it_tells_the_stage_the_items_that_are_done_and_the_end():
    told = []
    LocalRunner(2, told.append).flat_map("copy", range(3), numbered, NUMBERS)
    assert told[0] == WorkProgress("copy", 0, 3)
    assert told[-1] == WorkProgress("copy", 3, 3)
    assert [step.done for step in told] == sorted(step.done for step in told)


@pytest.mark.parametrize("waits", [False, True])
def test_it_tells_more_often_where_that_is_wanted_in_the_thread_of_the_caller(monkeypatch, waits):
    monkeypatch.setattr(local, "_TELL_EVERY", 0)
    told, threads = [], set()

    def tell(step):
        threads.add(threading.get_ident())
        told.append(step.done)

    def work(number):
        time.sleep(0.02 * waits)
        yield from numbered(number)

    LocalRunner(4, tell).flat_map("copy", range(5), work, NUMBERS)
    assert told == [0, 1, 2, 3, 4, 5]
    assert threads == {threading.get_ident()}


def test_all_kinds_of_progress_are_one():
    assert str(WorkProgress("copy files", 40, 120)) == "copy files: 40 of 120"
    assert str(WorkProgress("commit")) == "commit"
    optimized = OptimizeProgress("commit 1 of 3", 40, 120, 4000, 2048)
    filled = BackfillProgress("a, b", 1, 2, 10, 5, ("a", "b"))
    assert str(optimized) == "commit 1 of 3: 40 of 120 fragments, 4,000 rows, 2.0 KiB"
    assert (optimized.fragments, filled.fragments, filled.columns) == (120, 2, ("a", "b"))
    assert all(isinstance(step, WorkProgress) for step in (optimized, filled))
