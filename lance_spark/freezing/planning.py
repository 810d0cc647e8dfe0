"""From rows to a plan: the split of each row by a hash, its place in the split by another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.freezing.keys import Hashes, hash_groups, hash_row_ids
from lance_spark.freezing.spec import PLAN_SCHEMA, FreezeSpec, thresholds

NO_GROUP = -1
"""In place of a split: a value to group by is null."""
DRAWN = pa.schema(
    [
        pa.field("split", pa.int16(), nullable=False),
        pa.field("place", pa.int64(), nullable=False),
        pa.field("row_id", pa.int64(), nullable=False),
        pa.field("row_offset", pa.int64(), nullable=False),
    ]
)
"""Rows as tasks report them. ``place`` is the hash that orders them, moved to signed numbers without another order."""
COUNTS = pa.schema([pa.field("split", pa.int16()), pa.field("rows", pa.int64())])
_SIGN = np.uint64(1 << 63)
_BITS = 2**64


def draw(groups: Sequence[pa.Array], row_ids: Hashes, offsets: npt.NDArray[np.int64], spec: FreezeSpec) -> pa.Table:
    """The rows of one batch, with what decides about their split and their place in it."""
    ends = np.array(thresholds(spec.splits), np.uint64)
    null = np.zeros(len(row_ids), bool)
    for column in groups:
        null |= pc.is_null(column).to_numpy(zero_copy_only=False)
    if not groups:
        hashes = hash_row_ids(row_ids, spec.seed, "split")
    else:
        hashes = np.zeros(len(row_ids), np.uint64)
        known = pa.array(~null)
        if not null.all():
            hashes[~null] = hash_groups([column.filter(known) for column in groups], spec.seed)
    splits = np.searchsorted(ends, hashes, side="left").astype(np.int16)
    splits[null] = NO_GROUP
    places = (hash_row_ids(row_ids, spec.seed, "order") ^ _SIGN).view(np.int64)
    return pa.table([splits, places, row_ids.astype(np.int64), offsets], schema=DRAWN)


def count_splits(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many rows of a partition are in each split."""
    for batch in batches:
        splits, rows = np.unique(batch["split"].to_numpy(zero_copy_only=False), return_counts=True)
        yield pa.record_batch([pa.array(splits, pa.int16()), pa.array(rows, pa.int64())], schema=COUNTS)


class Slice(NamedTuple):
    """Rows of a plan that are sorted at once: of one split, those whose places lie in a range. Both ends included."""

    split: int
    first: int
    last: int


def slices(rows: Sequence[int], most: int) -> Iterator[Slice]:
    """The slices of a plan in its order, of at most about that many rows each; places are spread evenly."""
    for split, count in enumerate(rows):
        parts = max(1, -(-count // most))
        bounds = [_BITS * part // parts - _BITS // 2 for part in range(parts + 1)]
        yield from (Slice(split, first, end - 1) for first, end in pairwise(bounds))


def rows_of(part: Slice, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a partition that belong to a part."""
    for batch in batches:
        own = pc.and_(
            pc.equal(batch["split"], part.split),
            pc.and_(pc.greater_equal(batch["place"], part.first), pc.less_equal(batch["place"], part.last)),
        )
        yield batch.filter(own)


@dataclass
class PlanWriter:
    """Gives rows their positions, slice after part."""

    splits: Sequence[str]
    _next: dict[int, int] = field(default_factory=dict)

    def positioned(self, part: Slice, drawn: pa.Table) -> pa.Table:
        """The rows of a slice as rows of the plan, in order."""
        order = pc.sort_indices(drawn, sort_keys=[("place", "ascending"), ("row_id", "ascending")])
        rows = drawn.take(order)
        first = self._next.get(part.split, 0)
        self._next[part.split] = first + rows.num_rows
        return pa.table(
            [
                pa.repeat(self.splits[part.split], rows.num_rows),
                np.arange(first, first + rows.num_rows, dtype=np.int64),
                rows["row_id"],
                rows["row_offset"],
            ],
            schema=PLAN_SCHEMA,
        )


def live_offsets(physical: npt.NDArray[np.int64], deleted: npt.NDArray[np.int64], first: int) -> npt.NDArray[np.int64]:
    """The numbers of live rows among all live rows, from their offsets in a fragment whose first one has ``first``."""
    numbers: npt.NDArray[np.int64] = first + physical - np.searchsorted(deleted, physical)
    return numbers
