"""Assigns the rows of a split to batches, processes and epochs. Pure: positions in, positions out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from lance_spark.errors import InvalidOption, Refused
from lance_spark.frozen.rules import hash_row_ids

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
