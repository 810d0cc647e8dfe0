"""Reads rows of a frozen set in one process, and assigns them to batches, ranks and epochs. Needs no torch.

Files are opened where they are read, never inherited through a fork.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.errors import InvalidOption, NotFound, Refused
from lance_spark.frozen.draw_rules import Lineage, hash_row_ids
from lance_spark.frozen.frozen import FrozenReading, needed_plan, plan_reading, read_rows
from lance_spark.storage.resolving import dataset_at

Convert = Callable[[pa.Table], Any]


@dataclass(frozen=True)
class FrozenSplit:
    """An opened split of a frozen set. Can be pickled; other processes open their own files."""

    reading: FrozenReading
    lineage: Lineage
    split: str | None
    first: int
    """Row of the plan that is position 0."""
    rows: int
    process: int = field(default_factory=os.getpid)

    def __reduce__(self) -> tuple[Any, ...]:
        """The unpickling process opens its own files."""
        return FrozenSplit, (self.reading, self.lineage, self.split, self.first, self.rows)

    def read(self, positions: Sequence[int]) -> pa.Table:
        """The rows at some positions of the split, in the given order. Raises NotFound, Refused after a fork."""
        self.check_process()
        for position in positions:
            if not 0 <= position < self.rows:
                raise NotFound(f"Position {position} is outside the split of {self.rows} rows.")
        return read_rows(self.reading, [self.first + int(position) for position in positions])

    def check_process(self) -> None:
        """Raise Refused in a forked process: Lance's threads do not survive a fork, so reads would hang."""
        if self.process != os.getpid():
            raise Refused(
                "This process was forked after it opened Lance, which does not survive a fork.",
                hint="Give the DataLoader multiprocessing_context='spawn', or use loader(...), which does that.",
            )

    @property
    def fingerprint(self) -> str:
        """Identifies this plan, on any machine."""
        spec, source = self.lineage.spec, self.lineage.source
        said = [source.branch, source.version, spec.filter, spec.splits, spec.by, spec.seed, self.lineage.algorithm,
                [size.rows for size in self.lineage.sizes]]  # fmt: skip
        return blake2b(json.dumps(said).encode(), digest_size=8).hexdigest()


def open_split(
    uri: str,
    name: str,
    split: str | None = None,
    columns: str | Sequence[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> FrozenSplit:
    """Open a split of a frozen set, or the whole set. Raises NotFound, Conflict."""
    location = dataset_at(uri, storage_options)
    plan = needed_plan(location, name)
    first, rows = plan.lineage.range_of(split)
    return FrozenSplit(plan_reading(location, plan, columns), plan.lineage, split, first, rows)


# --- The rows of batches, by rank and epoch: positions in, positions out


Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shard:
    """One of the processes that train together."""

    rank: int = 0
    world_size: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise InvalidOption(
                f"There is no rank {self.rank} of {self.world_size} processes.",
                hint="Ranks count from 0: rank=dist.get_rank(), world_size=dist.get_world_size().",
            )


@dataclass(frozen=True)
class Order:
    """The batches of one process. Step k of all ranks together is rows ``k * step`` to ``(k + 1) * step`` of the order.

    So each row is read once per epoch, and one number is the position of all ranks, whatever the number of workers.
    """

    rows: int
    batch_size: int
    shard: Shard = Shard()
    drop_last: bool = False
    """Leave out rows at the end that do not fill a batch on every rank; then all ranks have as many batches."""
    reshuffle: bool = False
    """Every epoch after the first has an order of its own."""
    seed: int = 0

    def __post_init__(self) -> None:
        if type(self.batch_size) is not int or self.batch_size < 1:
            raise InvalidOption(f"batch_size must be 1 or more, not {self.batch_size!r}.")

    @property
    def step(self) -> int:
        """How many rows all ranks take with one batch each."""
        return self.batch_size * self.shard.world_size

    @property
    def batches(self) -> int:
        """Batches of this rank in an epoch."""
        whole, rest = divmod(self.rows, self.step)
        return whole + (not self.drop_last and rest > self.shard.rank)

    def batch(self, epoch: int, number: int) -> Positions:
        """Positions in the split of the rows of a batch of this rank."""
        first = number * self.step
        places = np.arange(first + self.shard.rank, min(first + self.step, self.rows), self.shard.world_size)
        return _epoch(self.rows, self.seed, epoch)[places] if self.reshuffle and epoch else places

    def batch_at(self, position: int) -> int:
        """The batch that begins at a position of the order. Raises Refused if none does."""
        if position >= self.rows:
            return self.batches
        number, within = divmod(position, self.step)
        if within:
            raise Refused(
                f"No batch begins at position {position}: batches of all ranks together have {self.step} rows.",
                hint="Resume with a batch size and a number of processes whose product divides the position.",
            )
        return number

    def position_of(self, number: int) -> int:
        """The position of all ranks before a batch."""
        return min(number * self.step, self.rows)


@lru_cache(maxsize=2)
def _epoch(rows: int, seed: int, epoch: int) -> Positions:
    """The order of an epoch: positions sorted by their hash, like that of rows, for the purpose ``epoch/N``."""
    hashes = hash_row_ids(np.arange(rows, dtype=np.uint64), seed, f"epoch/{epoch}")
    order: Positions = np.argsort(hashes, kind="stable")
    return order


@dataclass(frozen=True)
class Worker:
    """One of the processes that load for a rank; batches are dealt to them in turn."""

    number: int = 0
    count: int = 1

    def numbers(self, start: int, upcoming: int, end: int) -> Iterator[int]:
        """The batches of this worker, from ``upcoming`` on, if the first worker began with ``start``."""
        first = start + self.number
        while first < upcoming:
            first += self.count
        return iter(range(first, end, self.count))


@dataclass(frozen=True)
class Progress:
    """The position of a rank, as saved with a checkpoint."""

    set: str
    split: str | None
    fingerprint: str
    """Distinguishes the plan from another one of the same name."""
    epoch: int = 0
    position: int = 0
    """Rows of the epoch's order that all ranks together have finished."""
    start: int = 0
    """Position at which the workers of this epoch started or resumed."""

    def as_state(self) -> dict[str, Any]:
        """Plain values that both torch.save and JSON accept."""
        return dict(vars(self))

    def resumed(self, state: Any) -> Progress:
        """The progress in a saved state. Raises InvalidOption unless it is a state, Refused for one of another set."""
        if not isinstance(state, dict) or state.keys() != vars(self).keys():
            raise InvalidOption(
                f"This is not the state of a frozen set: {state!r}.",
                hint="Give what state_dict() returned, as in loader.load_state_dict(checkpoint['data']).",
            )
        saved = Progress(**state)
        kept = [saved.epoch, saved.position, saved.start]
        if any(type(number) is not int or number < 0 for number in kept):
            raise InvalidOption("This is not the state of a frozen set: epoch and position are whole numbers from 0.")
        if (saved.set, saved.split, saved.fingerprint) != (self.set, self.split, self.fingerprint):
            raise Refused(
                f"The state belongs to split '{saved.split}' of the frozen set '{saved.set}', whose plan or split is "
                f"not that of '{self.split}' of '{self.set}'.",
                hint="Open the set with which the checkpoint was made.",
            )
        return saved
