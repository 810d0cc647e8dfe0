"""A part of the rows, chosen by chance that is the same each time and on every executor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class Sample:
    """The rows whose number, which is drawn from 0 to 1, is in a range."""

    lower: float
    """The first number that is in."""
    upper: float
    """The first number that is out."""
    seed: int


def sample(wanted: Sample, batches: Iterable[pa.RecordBatch], addresses: str) -> Iterator[pa.RecordBatch]:
    """The chosen rows. A row's number is made of the seed and its address: how a read is divided does not matter."""
    for batch in batches:
        drawn = _numbers(batch.column(addresses).to_numpy(zero_copy_only=False), wanted.seed)
        yield batch.filter(pa.array((drawn >= wanted.lower) & (drawn < wanted.upper)))


def _numbers(addresses: np.ndarray, seed: int) -> np.ndarray:
    """SplitMix64 of each address, as numbers from 0 to 1."""
    with np.errstate(over="ignore"):
        mixed = addresses.astype(np.uint64) + np.uint64(seed & 0xFFFFFFFFFFFFFFFF) * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
    drawn: np.ndarray = (mixed >> np.uint64(11)) / float(2**53)
    return drawn
