"""What an engine has to do: a few operations on items and on tables that may be too large for one machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from lance_spark.runner.work import Work
from lance_spark.show.progress import Tell

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
