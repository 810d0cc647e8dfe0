"""From fragments to Spark partitions, by bytes. Pure: the numbers come in, a printable plan goes out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

FRAGMENT_COST = 64 * 2**10
"""Bytes charged for opening a fragment, so that 100,000 tiny fragments make tens of tasks, not one or 100,000."""
MIN_SPLIT = 4 * 2**20
"""Below this a task costs more than it saves (Spark's ``openCostInBytes``)."""
BATCH_ROWS = 65_536
"""Rows of an Arrow batch at most. Larger ones gain nothing, as Spark's channel from Python to the JVM is the limit: 20
million ready-made rows of four columns took 1.6 seconds in batches of 8,192, 1.4 in batches of 65,536 and 1.5 in
batches of 500,000."""
BATCH_BYTES = 8 * 2**20
"""Bytes of an Arrow batch, roughly, so that wide rows (vectors, blobs) stay within a worker's memory."""


class FragmentSize(NamedTuple):
    """What planning needs to know of one fragment. No dataclass: of 100,000 these take twice as long to make."""

    fragment_id: int
    physical_rows: int
    """Rows in the data files, deleted ones included."""
    live_rows: int
    """Rows that a scan returns: without deleted ones and, where an index tells, without those a filter rejects."""
    stored_bytes: int
    """Size of its data files; 0 where an old writer did not record it."""


@dataclass(frozen=True)
class ScanPartition:
    """What one Spark task reads: whole fragments, or a range of rows of a single one."""

    fragment_ids: tuple[int, ...]
    first_row: int = 0
    """First row of the range: counts live rows without a filter, row addresses with one."""
    row_count: int | None = None
    """Length of the range; None for whole fragments."""
    limit: int | None = None
    """Stop after this many rows that pass the filter."""


@dataclass(frozen=True)
class ScanRequest:
    """What shapes a plan beside the fragments."""

    row_width: float
    """Estimated bytes of one row of the columns that are read."""
    column_share: float = 1.0
    """Share of the stored bytes that belongs to those columns, 0 to 1."""
    split_size: int = 128 * 2**20
    cores: int = 1
    """Cores to keep busy even when all data would fit into fewer splits."""
    filtered: bool = False
    splittable: bool = True
    """Whether rows inside a fragment can be told apart under a filter (see scanning.takes_row_addresses)."""
    limit: int | None = None


def plan_scan(fragments: Sequence[FragmentSize], request: ScanRequest) -> tuple[ScanPartition, ...]:
    """Partitions that cover every row once, in fragment order, each near the split size.

    With a limit and no filter the plan stops at the fragment that fills it. With both, one partition reads
    everything and stops early, because no part can know how many rows another one contributed.
    """
    if request.limit is not None and request.filtered:
        return (ScanPartition(tuple(f.fragment_id for f in fragments), limit=request.limit),)
    if request.limit is not None:
        fragments = list(_until(fragments, request.limit))
    weights = [_weight(fragment, request) for fragment in fragments]
    target = _target(sum(weights), request)
    partitions: list[ScanPartition] = []
    group: list[int] = []
    filled = 0.0
    for fragment, weight in zip(fragments, weights, strict=True):
        if group and filled + weight > target:
            partitions.append(ScanPartition(tuple(group)))
            group, filled = [], 0.0
        if weight > 1.5 * target and (request.splittable or not request.filtered):
            partitions.extend(_pieces(fragment, weight, target, request.filtered))
        else:
            group.append(fragment.fragment_id)
            filled += weight
    if group:
        partitions.append(ScanPartition(tuple(group)))
    return tuple(partitions) if request.limit is None else tuple(_trim(partitions, fragments, request.limit))


def batch_rows(row_width: float) -> int:
    """Rows per Arrow batch for rows of an estimated width in bytes."""
    return max(1, min(BATCH_ROWS, int(BATCH_BYTES / max(1.0, row_width))))


def _target(total: float, request: ScanRequest) -> float:
    """Spark's own rule for files: the split size, or less if that would leave cores idle."""
    return min(float(request.split_size), max(float(MIN_SPLIT), total / max(1, request.cores)))


def _weight(fragment: FragmentSize, request: ScanRequest) -> float:
    """Bytes that reading a fragment moves: what is stored or, if larger (compression), what crosses to Spark."""
    return FRAGMENT_COST + max(fragment.stored_bytes * request.column_share, fragment.live_rows * request.row_width)


def _pieces(fragment: FragmentSize, weight: float, target: float, filtered: bool) -> Iterable[ScanPartition]:
    rows = fragment.physical_rows if filtered else fragment.live_rows
    count = min(max(1, rows), math.ceil(weight / target))
    bounds = [rows * index // count for index in range(count + 1)]
    for first, last in pairwise(bounds):
        yield ScanPartition((fragment.fragment_id,), first, last - first)


def _until(fragments: Sequence[FragmentSize], limit: int) -> Iterable[FragmentSize]:
    for fragment in fragments:
        if limit <= 0:
            return
        yield fragment
        limit -= fragment.live_rows


def _trim(
    partitions: Sequence[ScanPartition], fragments: Sequence[FragmentSize], limit: int
) -> Iterable[ScanPartition]:
    """Give each partition the share of the limit that is left when its turn comes."""
    live = {fragment.fragment_id: fragment.live_rows for fragment in fragments}
    for part in partitions:
        if limit <= 0:
            return
        rows = part.row_count if part.row_count is not None else sum(live[key] for key in part.fragment_ids)
        yield part if rows <= limit else ScanPartition(part.fragment_ids, part.first_row, part.row_count, limit)
        limit -= rows
