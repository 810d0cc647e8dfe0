"""From rows to a plan: the split of each row by a hash, its place in the split by another one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
SLICE_COUNTS = pa.schema([pa.field("slice", pa.int64()), pa.field("rows", pa.int64())])
PIECES = pa.schema([pa.field("part", pa.int64()), pa.field("rows", pa.binary())])
"""Rows of a partition that belong to one slice: its number, then the columns of _PACKED, all as 8 bytes."""
_PACKED = ("place", "row_id", "row_offset")
_DIVIDED = 1_000_000
"""Rows that are divided at once."""
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


def slices(rows: Sequence[int], most: int) -> list[Slice]:
    """The slices of a plan in its order, of at most about that many rows each; places are spread evenly."""
    found: list[Slice] = []
    for split, count in enumerate(rows):
        parts = -(-count // most)
        bounds = [_BITS * part // parts - _BITS // 2 for part in range(parts + 1)] if parts else []
        found += [Slice(split, first, end - 1) for first, end in pairwise(bounds)]
    return found


@dataclass(frozen=True)
class Layout:
    """The slices of a plan, and how many rows each has: so a task knows the positions of its rows from the others'."""

    splits: tuple[str, ...]
    slices: tuple[Slice, ...]
    rows: tuple[int, ...] = ()

    def numbers(self, drawn: pa.Table) -> npt.NDArray[np.int64]:
        """The number of the slice that each row belongs to."""
        splits, places = (drawn[name].to_numpy() for name in ("split", "place"))
        found = np.empty(len(splits), np.int64)
        for split in np.unique(splits).tolist():
            own = splits == split
            ours = [number for number, part in enumerate(self.slices) if part.split == split]
            firsts = np.array([self.slices[number].first for number in ours], np.int64)
            found[own] = ours[0] + np.searchsorted(firsts, places[own], side="right") - 1
        return found

    def first_position(self, number: int) -> int:
        """The position in its split of the first row of a slice."""
        split = self.slices[number].split
        return sum(rows for part, rows in zip(self.slices[:number], self.rows, strict=False) if part.split == split)

    def ordered(self, number: int, drawn: pa.Table) -> pa.Table:
        """The rows of a slice as rows of the plan, in order."""
        order = pc.sort_indices(drawn, sort_keys=[("place", "ascending"), ("row_id", "ascending")])
        rows, first = drawn.take(order), self.first_position(number)
        return pa.table(
            [
                pa.repeat(self.splits[self.slices[number].split], rows.num_rows),
                np.arange(first, first + rows.num_rows, dtype=np.int64),
                rows["row_id"],
                rows["row_offset"],
            ],
            schema=PLAN_SCHEMA,
        )


def count_slices(layout: Layout, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many rows of a partition are in each slice."""
    for batch in batches:
        numbers, rows = np.unique(layout.numbers(pa.Table.from_batches([batch])), return_counts=True)
        yield pa.record_batch([pa.array(numbers, pa.int64()), pa.array(rows, pa.int64())], schema=SLICE_COUNTS)


def divide(layout: Layout, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """PIECES: the rows of a partition by the slice that they belong to; many at once, or pieces would be tiny."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(each.num_rows for each in held) >= _DIVIDED:
            yield _pieces(layout, pa.Table.from_batches(held))
            held = []
    if held:
        yield _pieces(layout, pa.Table.from_batches(held))


def _pieces(layout: Layout, drawn: pa.Table) -> pa.RecordBatch:
    numbers = layout.numbers(drawn)
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    columns = np.stack([drawn[name].to_numpy() for name in _PACKED]).astype("<i8")[:, order]
    parts = np.split(columns, starts[1:], axis=1) if len(found) else []
    packed = [number.to_bytes(8, "little") + own.tobytes() for number, own in zip(found.tolist(), parts, strict=True)]
    return pa.record_batch([pa.array(found, pa.int64()), pa.array(packed, pa.binary())], schema=PIECES)


def unpack(pieces: Iterable[bytes], layout: Layout) -> tuple[int, pa.Table]:
    """The number of a slice, and its rows, from all of its pieces; there is at least one."""
    number, columns = 0, []
    for piece in pieces:
        number = int.from_bytes(piece[:8], "little")
        columns.append(np.frombuffer(piece, "<i8", offset=8).reshape(len(_PACKED), -1))
    known = dict(zip(_PACKED, np.concatenate(columns, axis=1).astype(np.int64), strict=True))
    split = np.full(len(known["place"]), layout.slices[number].split, np.int16)
    return number, pa.table([split, *(known[name] for name in _PACKED)], schema=DRAWN)


def live_offsets(physical: npt.NDArray[np.int64], deleted: npt.NDArray[np.int64], first: int) -> npt.NDArray[np.int64]:
    """The numbers of live rows among all live rows, from their offsets in a fragment whose first one has ``first``."""
    numbers: npt.NDArray[np.int64] = first + physical - np.searchsorted(deleted, physical)
    return numbers
