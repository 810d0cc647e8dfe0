"""The interface of an engine: a few operations on items and large tables; and the engine of local threads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from lance_spark.core.progress import Tell, WorkProgress, untold
from lance_spark.errors import LanceSparkError, PermissionDenied, StorageFailure, StorageFull
from lance_spark.hints import of, said
from lance_spark.storage.failures import NO_CREDENTIALS

Item = TypeVar("Item")
Batches = Iterator[pa.RecordBatch]
Frame = Any
"""A table in the runner's form: a Spark DataFrame, or an Arrow table."""


class Engine(Protocol):
    """A place to run work. It is a value: nothing starts before there is work."""

    @property
    def tell(self) -> Tell:
        """Receives progress; actions report stages that need no runner to it."""
        ...

    def for_work(self, operation: str, work: Work) -> Runner:
        """The runner for one task of that size. ``operation`` is the verb as the user knows it, such as "merge"."""
        ...


class Runner(Protocol):
    """Runs pure functions over many items or rows. Functions and items must pickle; other processes can run them."""

    @property
    def name(self) -> str:
        """Where it runs, for reports: "local" or "spark"."""
        ...

    @property
    def parallelism(self) -> int: ...

    def flat_map(
        self, stage: str, items: Sequence[Item], function: Callable[[Item], Batches], schema: pa.Schema
    ) -> Frame:
        """All batches of all items. ``stage`` is displayed while it runs."""
        ...

    def map(self, stage: str, frame: Frame, function: Callable[[Batches], Batches], schema: pa.Schema) -> Frame:
        """The function's batches for every partition of a frame."""
        ...

    def reduce(self, stage: str, frame: Frame, function: Callable[[Batches], Batches], schema: pa.Schema) -> Frame:
        """The function's batches, in order, for all batches of a frame, which must fit into memory."""
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

        ``rows`` is their approximate number: each group must fit into memory.
        """
        ...

    def gather(
        self,
        stage: str,
        frame: Frame,
        function: Callable[[Iterator[bytes]], Batches],
        schema: pa.Schema,
        parts: int,
    ) -> Frame:
        """The function's batches for all ``rows`` (binary) of each value of ``part`` (bigint), from 0 on.

        All rows of one part must fit into memory.
        """
        ...

    def union(self, frames: Sequence[Frame]) -> Frame:
        """All rows of one or more frames with one schema."""
        ...

    def keep(self, frame: Frame) -> Frame:
        """The same frame, computed only once even if it is used several times."""
        ...

    def collect(self, stage: str, frame: Frame) -> pa.Table:
        """The rows, in this process. Only for sums and other small results."""
        ...

    def release(self) -> None:
        """Release what was kept; frames stay usable, but might be recomputed."""
        ...


# --- The amount of work, and whether threads of this process suffice
# Pure.


@dataclass(frozen=True)
class Work:
    """The size of a task, as known before it runs. Parts that do not apply are 0."""

    tables: int = 0
    """Whole datasets, each processed on its own."""
    manifests: int = 0
    manifest_bytes: int = 0
    files: int = 0
    """Files to list, judge or delete: about a thousand per request."""
    copies: int = 0
    """Files to copy: one request each, and often all of their bytes."""
    copied_bytes: int = 0
    read_bytes: int = 0
    """Bytes of rows and indexes to process."""
    rewrites: int = 0
    """Fragments to rewrite, index or cast: a few requests each, with pylance's own threads."""
    rewritten_bytes: int = 0
    """Bytes of the columns that are rewritten, indexed or cast."""

    @property
    def is_little(self) -> bool:
        """Whether threads of this process are as fast as a cluster; see LITTLE."""
        return all(getattr(self, field.name) <= getattr(LITTLE, field.name) for field in fields(self))


def rewriting(sizes: Iterable[int], share: float = 1) -> Work:
    """The work of rewriting, indexing or casting fragments of these sizes, in bytes, or that share of each."""
    every = list(sizes)
    return Work(rewrites=len(every), rewritten_bytes=round(share * sum(every)))


LITTLE = Work(
    tables=50,
    manifests=5_000,
    manifest_bytes=1024**3,
    files=200_000,
    copies=256,
    copied_bytes=256 * 1024**2,
    read_bytes=512 * 1024**2,
    rewrites=1_000,
    rewritten_bytes=512 * 1024**2,
)
"""Maximum work for local threads if no engine was chosen. Each of these takes them some five to ten seconds, as long
as Spark needs for its first small jobs; the files take some 100 MB of memory. Rewrites take one to three seconds: from
there on Spark is as fast, even on the same cores and after its first jobs."""


# --- Threads of this process: little work should not wait for a cluster

LOCAL = "local"

_LEAST_THREADS = 8
"""Even on one core: stores answer after milliseconds, while it is idle."""
_SLICE_ROWS = 1_000
"""Slices have a multiple of this many rows, the number that one request deletes; fewer are not worth a thread."""
_IDLE = 0.005
"""Seconds of waiting in one item that make threads worthwhile."""

_TELL_EVERY = 0.5
"""Seconds between two progress reports."""

_Result = TypeVar("_Result")


class LocalRunner:
    """Frames are Arrow tables. Memory grows with the number of files: some 500 bytes each.

    It is also an engine, because it is the same for all work.
    """

    name = LOCAL

    def __init__(self, parallelism: int | None = None, tell: Tell = untold, waits: bool = False) -> None:
        """``tell`` receives each stage that begins, and the number of its finished items.

        ``waits`` says that items leave Python's lock to others, so that they run side by side from the first one on.
        """
        self.parallelism = parallelism or max(_LEAST_THREADS, 2 * (os.cpu_count() or 1))
        self.tell = tell
        self._told = 0.0
        self._waits = waits
        """Whether items leave Python's lock to others: one was seen waiting for a store, or pylance does the work."""

    def for_work(self, operation: str, work: Work) -> LocalRunner:  # noqa: ARG002 - the same for all
        """Itself. For rewrites, one that is parallel from the first item: pylance works without Python's lock."""
        return LocalRunner(self.parallelism, self.tell, waits=True) if work.rewrites else self

    def flat_map(
        self, stage: str, items: Sequence[Item], function: Callable[[Item], Batches], schema: pa.Schema
    ) -> pa.Table:
        results = self._each(stage, lambda item: list(function(item)), items)
        return pa.Table.from_batches([batch for batches in results for batch in batches], schema)

    def map(self, stage: str, frame: pa.Table, function: Callable[[Batches], Batches], schema: pa.Schema) -> pa.Table:
        """The function's batches for slices of the table: storing and deleting candidates uses the same slices."""
        count = min(self.parallelism if self._waits else 1, frame.num_rows // _SLICE_ROWS) or 1
        size = max(1, -(-frame.num_rows // (count * _SLICE_ROWS))) * _SLICE_ROWS
        slices = [frame.slice(first, size).to_batches() for first in range(0, max(1, frame.num_rows), size)]
        results = self._each(stage, lambda batches: list(function(iter(batches))), slices)
        return pa.Table.from_batches([batch for batches in results for batch in batches], schema)

    def reduce(
        self, stage: str, frame: pa.Table, function: Callable[[Batches], Batches], schema: pa.Schema
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
        self.tell(WorkProgress(stage))
        return function(*frames).cast(schema)

    def gather(
        self,
        stage: str,
        frame: pa.Table,
        function: Callable[[Iterator[bytes]], Batches],
        schema: pa.Schema,
        parts: int,  # noqa: ARG002 - runs all parts
    ) -> pa.Table:
        numbers = frame["part"].to_numpy()
        found = np.unique(numbers).tolist()
        own = [frame["rows"].filter(pa.array(numbers == number)) for number in found]
        results = self._each(stage, lambda pieces: list(function(piece.as_py() for piece in pieces)), own)
        return pa.Table.from_batches([batch for batches in results for batch in batches], schema)

    def union(self, frames: Sequence[pa.Table]) -> pa.Table:
        return pa.concat_tables(frames)

    def keep(self, frame: pa.Table) -> pa.Table:
        return frame

    def collect(self, stage: str, frame: pa.Table) -> pa.Table:  # noqa: ARG002 - it is there already
        return frame

    def release(self) -> None:
        """Does nothing: tables are released with the plan."""

    def _each(self, stage: str, function: Callable[[Item], _Result], items: Sequence[Item]) -> list[_Result]:
        """The results, in the order of the items; in parallel once an item had to wait.

        A local disk answers at once. There, threads only compete for Python's lock at every single file: together they
        need half as long again as a single thread.
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
        """Report how many items are done: all of them, or some of them from time to time."""
        now = time.perf_counter()
        if done == total or now - self._told >= _TELL_EVERY:
            self.tell(WorkProgress(stage, done, total))
            self._told = now


# --- The default engine: the smallest that does the work well


@dataclass(frozen=True)
class AutoEngine:
    """One engine for little work, another one for more."""

    small: Engine
    large: Callable[[], Engine]
    """Called only once there is work for it: a cluster takes long to start."""

    @property
    def tell(self) -> Tell:
        return self.small.tell

    def for_work(self, operation: str, work: Work) -> Runner:
        """The runner of one of them; see Work.is_little."""
        chosen = self.small if work.is_little else self.large()
        return chosen.for_work(operation, work)


# --- Errors of tasks: credentials that only the driver has look like a store that is away

_GIVE = (
    "Executors see neither the driver's environment nor its files: give them credentials as storage options (--storage "
    "aws_access_key_id=..., storage_options={...}), as spark.executorEnv.AWS_ACCESS_KEY_ID=..., or by a role of their "
    "machines"
)
_OR_HERE = "; or work on the driver with --run-on local"


def is_executor() -> bool:
    """Whether this process is a Python worker of Spark."""
    return "PYTHON_WORKER_FACTORY_SECRET" in os.environ


def of_executor(problem: LanceSparkError, may_stay: bool = True) -> LanceSparkError:
    """The error of a task, which says where the store failed and what to set there; others stay as they are.

    ``may_stay``: whether the verb can also run in the driver's process; a write of a DataFrame cannot.
    """
    if not isinstance(problem, StorageFailure) or isinstance(problem, StorageFull):
        return problem
    if problem.message.startswith(_ON):
        return problem
    give = f"{_GIVE}{_OR_HERE if may_stay else ''}."
    # "Set them in the environment" leads back to where they are set already: on the driver.
    own = None if problem.message.startswith(NO_CREDENTIALS) else problem.hint
    message, hint = f"{_ON}{problem.message}", of(give, " ", own) if own else give
    if isinstance(problem, PermissionDenied):
        return problem.reworded(message, hint)
    return type(problem)(message, hint)


_ON = "On an executor: "


def told(problem: LanceSparkError) -> str:
    """An error as one text with its hint, for a row of a report; says so if it was met on an executor."""
    met = of_executor(problem) if is_executor() else problem
    return " ".join([met.message, *([said(met.hint, "shell")] if met.hint else [])])
