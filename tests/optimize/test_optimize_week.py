"""A week of small batches into a table with ``auto_compact``: few fragments, every row, and no conflict."""

import random
import threading

import lance
import pyarrow as pa
import pytest
from support import stream_queries

from lance_spark import LanceTable
from lance_spark.catalog.staging import alter_properties
from lance_spark.engine.local import LocalRunner
from lance_spark.rows.rows import delete_where
from lance_spark.storage.datasets import locate

pytestmark = [pytest.mark.slow]
BATCHES = 2_016
"""Of five minutes, in a week."""
MANY = 20
"""Fragments of about one size that are compacted."""
OTHERS = 10**9
"""The ids of the other writer begin here."""


def rows(first, count):
    return pa.table({"id": pa.array(range(first, first + count), pa.int64()), "v": pa.array([first] * count)})


class Other(threading.Thread):
    """Somebody else who appends rows of his own, and deletes some of them, as long as the stream runs."""

    def __init__(self, uri):
        super().__init__(daemon=True)
        self.uri, self.done, self.problems, self.kept, self.writes = uri, threading.Event(), [], set(), 0

    def run(self):
        table, choose = LanceTable.for_path(self.uri), random.Random(5)
        while not self.done.wait(0.2):
            first, count = OTHERS + 1_000 * self.writes, choose.randint(1, 50)
            try:
                table.write(rows(first, count))
                self.kept |= {*range(first, first + count)}
                if self.writes % 3 == 2:
                    gone = choose.choice(sorted(self.kept))
                    delete_where(locate(self.uri), None, f"id = {gone}", LocalRunner(1))
                    self.kept.remove(gone)
            except Exception as problem:  # noqa: BLE001 - whatever it is, nobody should have met it
                self.problems.append(problem)
            self.writes += 1


@pytest.mark.when(day=0)
def test_a_week_of_small_batches_leaves_a_steady_number_of_fragments(uri, tmp_path):
    lance.write_dataset(rows(0, 1), uri)
    alter_properties(locate(uri), None, {"auto_compact": str(MANY)})
    sink, other, choose = stream_queries.Query(uri, tmp_path / "c"), Other(uri), random.Random(7)
    other.start()
    total, counts = 1, []
    try:
        for number in range(BATCHES):
            count = choose.choice([1, 5, 40, 300, 2_000])
            sink.batch(number, rows(total, count))
            if number % 97 == 0:
                sink.batch(number, rows(total, count))  # Spark repeats a batch that it does not know to be committed
            total += count
            counts.append(len(lance.dataset(uri).get_fragments()))
    finally:
        other.done.set()
        other.join()
    assert other.problems == []
    assert other.writes > 20
    found = lance.dataset(uri).to_table()["id"].to_pylist()
    assert sorted(found) == [*range(total), *sorted(other.kept)]
    day = BATCHES // 7
    days = [max(counts[at * day : (at + 1) * day]) for at in range(7)]
    assert max(days[1:]) <= 4 * MANY, days
    assert max(days[4:]) <= max(days[1:4]) + MANY, days
