"""What an engine has to do: a few operations on items and on tables that may be too large for one machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from lance_spark.core.show import Tell, WorkProgress, untold

Item = TypeVar("Item")
Frame = Any
"""A table as the runner holds it: a Spark DataFrame, or an Arrow table."""


class Engine(Protocol):
    """Something to run on. It is a value: nothing starts before there is work."""

    @property
    def tell(self) -> Tell:
        """Tells whoever wants to know how far the work is; actions tell the stages that need no runner."""
        ...

    def for_work(self, operation: str, work: Work) -> Runner:
        """The runner for one task of that size. ``operation`` is the verb a user knows, such as "merge"."""
        ...


class Runner(Protocol):
    """Runs pure functions over many items or rows. Functions and items pickle; they may run in other processes."""

    @property
    def name(self) -> str:
        """Where it runs, as reports say it: "local" or "spark"."""
        ...

    @property
    def parallelism(self) -> int:
        """How many tasks run side by side."""
        ...

    def flat_map(
        self, stage: str, items: Sequence[Item], function: Callable[[Item], Iterator[pa.RecordBatch]], schema: pa.Schema
    ) -> Frame:
        """All batches of all items. ``stage`` is what a user reads while it runs."""
        ...

    def map(
        self,
        stage: str,
        frame: Frame,
        function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> Frame:
        """The function's batches for every partition of a frame."""
        ...

    def reduce(
        self,
        stage: str,
        frame: Frame,
        function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> Frame:
        """The function's batches, in their order, for all batches of a frame, which fit into memory."""
        ...

    def match(
        self,
        stage: str,
        frames: tuple[Frame, Frame],
        function: Callable[[pa.Table, pa.Table], pa.Table],
        schema: pa.Schema,
        rows: int,
    ) -> Frame:
        """The function's tables for pairs of groups that hold all rows of some values of ``local``.

        ``rows`` is about how many there are: groups have to fit into memory.
        """
        ...

    def gather(
        self,
        stage: str,
        frame: Frame,
        function: Callable[[Iterator[bytes]], Iterator[pa.RecordBatch]],
        schema: pa.Schema,
        parts: int,
    ) -> Frame:
        """The function's batches for all ``rows`` (binary) of each value of ``part`` (bigint), from 0 on.

        All of one part have to fit into memory.
        """
        ...

    def union(self, frames: Sequence[Frame]) -> Frame:
        """All rows of frames with one schema; of at least one frame."""
        ...

    def keep(self, frame: Frame) -> Frame:
        """The same frame, computed once although it is used several times."""
        ...

    def collect(self, stage: str, frame: Frame) -> pa.Table:
        """The rows, in this process. For sums and the like only."""
        ...

    def release(self) -> None:
        """Let go of what was kept; frames stay usable, but may be computed again."""
        ...


# --- How much there is to do, and whether threads of this process are enough for it
# Pure.


@dataclass(frozen=True)
class Work:
    """The size of a task, as it is known before anything of it runs. What is not part of the task is 0."""

    tables: int = 0
    """Whole datasets, each of which is looked at by itself."""
    manifests: int = 0
    """Manifests to read: a request each."""
    manifest_bytes: int = 0
    files: int = 0
    """Files to list, to decide about or to delete: a thousand or so with one request."""
    copies: int = 0
    """Files to copy: a request each, and often all of their bytes."""
    copied_bytes: int = 0
    read_bytes: int = 0
    """Bytes of rows and indexes to look at."""

    @property
    def is_little(self) -> bool:
        """Whether threads of this process do it as fast as a cluster; see LITTLE."""
        return all(getattr(self, field.name) <= getattr(LITTLE, field.name) for field in fields(self))


LITTLE = Work(
    tables=50,
    manifests=5_000,
    manifest_bytes=1024**3,
    files=200_000,
    copies=256,
    copied_bytes=256 * 1024**2,
    read_bytes=512 * 1024**2,
)
"""The most that local threads get where no engine was chosen. Each of these takes them some five to ten seconds,
which is what Spark needs for its first small jobs; and the files take them some 100 MB of memory."""


# --- Runs in this process, with threads: little work should not wait for a cluster

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


# --- The engine to take where none was chosen: the smallest that does the work well


@dataclass(frozen=True)
class AutoEngine:
    """One engine for little work, another one beyond."""

    small: Engine
    large: Callable[[], Engine]
    """Asked when there is work for it and not before: a cluster takes long to start."""

    @property
    def tell(self) -> Tell:
        """As the small one does."""
        return self.small.tell

    def for_work(self, operation: str, work: Work) -> Runner:
        """The runner of one of them; see Work.is_little."""
        chosen = self.small if work.is_little else self.large()
        return chosen.for_work(operation, work)
