"""Runs in this process, with threads: little work should not wait for a cluster."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lance_spark.runner.interface import Item
from lance_spark.runner.work import Work
from lance_spark.show.progress import Tell, WorkProgress, untold

LOCAL = "local"

_LEAST_THREADS = 8
"""Stores answer after milliseconds, in which a core has nothing to do."""
_SLICE_ROWS = 1_000
"""Slices have a multiple of this many rows, which is what one request deletes; fewer are not worth a thread."""
_IDLE = 0.005
"""Seconds of waiting in one item from which on threads are worth it."""

_TELL_EVERY = 0.5
"""Seconds between two words on how far it is."""

_Result = TypeVar("_Result")


class LocalRunner:
    """Frames are Arrow tables. Memory grows with the number of files: some 500 bytes each.

    It is an engine as well, as it is the same for all work.
    """

    name = LOCAL

    def __init__(self, parallelism: int | None = None, tell: Tell = untold) -> None:
        """``tell`` is told the stage that begins, and how many items of it are done."""
        self.parallelism = parallelism or max(_LEAST_THREADS, 2 * (os.cpu_count() or 1))
        self.tell = tell
        self._told = 0.0
        self._waits = False
        """Whether an item was seen to wait for a store."""

    def for_work(self, operation: str, work: Work) -> LocalRunner:  # noqa: ARG002 - the same for all
        """Itself, whatever there is to do."""
        return self

    def flat_map(
        self, stage: str, items: Sequence[Item], function: Callable[[Item], Iterator[pa.RecordBatch]], schema: pa.Schema
    ) -> pa.Table:
        """All batches of all items, in the order of the items."""
        results = self._each(stage, lambda item: list(function(item)), items)
        return pa.Table.from_batches([batch for batches in results for batch in batches], schema)

    def map(
        self,
        stage: str,
        frame: pa.Table,
        function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> pa.Table:
        """The function's batches for slices of the table: a table of candidates is stored and deleted in as many."""
        count = min(self.parallelism if self._waits else 1, frame.num_rows // _SLICE_ROWS) or 1
        size = max(1, -(-frame.num_rows // (count * _SLICE_ROWS))) * _SLICE_ROWS
        slices = [frame.slice(first, size).to_batches() for first in range(0, max(1, frame.num_rows), size)]
        results = self._each(stage, lambda batches: list(function(iter(batches))), slices)
        return pa.Table.from_batches([batch for batches in results for batch in batches], schema)

    def reduce(
        self,
        stage: str,
        frame: pa.Table,
        function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> pa.Table:
        """The function's batches for the whole table."""
        self.tell(WorkProgress(stage))
        return pa.Table.from_batches(function(iter(frame.to_batches())), schema)

    def match(
        self,
        stage: str,
        frames: tuple[pa.Table, pa.Table],
        function: Callable[[pa.Table, pa.Table], pa.Table],
        schema: pa.Schema,
        rows: int,  # noqa: ARG002 - one group holds them all
    ) -> pa.Table:
        """The function's table for all rows at once."""
        self.tell(WorkProgress(stage))
        return function(*frames).cast(schema)

    def gather(
        self,
        stage: str,
        frame: pa.Table,
        function: Callable[[Iterator[bytes]], Iterator[pa.RecordBatch]],
        schema: pa.Schema,
        parts: int,  # noqa: ARG002 - those that there are
    ) -> pa.Table:
        """The function's batches, part by part."""
        numbers = frame["part"].to_numpy()
        found = np.unique(numbers).tolist()
        own = [frame["rows"].filter(pa.array(numbers == number)) for number in found]
        results = self._each(stage, lambda pieces: list(function(piece.as_py() for piece in pieces)), own)
        return pa.Table.from_batches([batch for batches in results for batch in batches], schema)

    def union(self, frames: Sequence[pa.Table]) -> pa.Table:
        """All rows."""
        return pa.concat_tables(frames)

    def keep(self, frame: pa.Table) -> pa.Table:
        """The table itself."""
        return frame

    def collect(self, stage: str, frame: pa.Table) -> pa.Table:  # noqa: ARG002 - it is there already
        """The table itself."""
        return frame

    def release(self) -> None:
        """Nothing to let go of: tables go with the plan."""

    def _each(self, stage: str, function: Callable[[Item], _Result], items: Sequence[Item]) -> list[_Result]:
        """The results, in the order of the items; side by side once an item had to wait.

        A local disk answers at once. There threads only take Python's lock from one another, at every single file:
        together they need half as long again as one of them alone.
        """
        results: list[_Result] = []
        self.tell(WorkProgress(stage, 0, len(items)))
        self._told = time.perf_counter()
        rest = iter(items)
        for item in rest:
            if self._waits:
                with ThreadPoolExecutor(self.parallelism) as pool:
                    for result in pool.map(function, [item, *rest]):
                        results.append(result)
                        self._count(stage, len(results), len(items))
                return results
            began, busy = time.perf_counter(), time.thread_time()
            results.append(function(item))
            self._count(stage, len(results), len(items))
            took, busy = time.perf_counter() - began, time.thread_time() - busy
            self._waits = took - busy > max(_IDLE, busy)
        return results

    def _count(self, stage: str, done: int, total: int) -> None:
        """Tell how many items are done: all of them, or some of them once in a while."""
        now = time.perf_counter()
        if done == total or now - self._told >= _TELL_EVERY:
            self.tell(WorkProgress(stage, done, total))
            self._told = now
