"""From fragments to Spark partitions, by bytes. Pure: the numbers come in, a printable plan goes out."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from pyroaring import BitMap

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


# --- Planning a read whose filter an index answers: only the fragments with matches are visited

_EXACT = frozenset({"BTree", "Bitmap", "LabelList"})
"""Kinds of index that know the matching rows; others (zone maps, Bloom filters, n-grams) leave data to be read."""
PROBE_LIMIT = 1_000_000
"""Matches counted on the driver at most; a filter with more is planned like a full scan."""


def answering_indexes(explained: str) -> frozenset[str]:
    """Names of the scalar indexes that alone decide which rows match, from pylance's explained plan.

    Only for these may the driver ask which rows match: it then reads index pages, never data. Empty when the
    plan shows anything else, such as a part of the predicate left to check. A plan that a later pylance words
    differently also gives nothing, which costs speed, never rows.
    """
    reads = re.findall(r"LanceRead: .*", explained)
    queries = re.findall(r"ScalarIndexQuery: query=(.*)", explained)
    if len(reads) != 1 or len(queries) != 1 or not reads[0].rstrip().endswith("refine_filter=--"):
        return frozenset()
    indexes = re.findall(r"\]@(.*?)\((\w+)\)(?=[,)]|$)", queries[0].rstrip())
    return frozenset(name for name, _ in indexes) if _EXACT.issuperset(kind for _, kind in indexes) else frozenset()


@dataclass(frozen=True)
class IndexMatches:
    """What indexes tell of the rows that pass a filter."""

    covered: frozenset[int]
    """Ids of the fragments that the indexes know."""
    rows: Mapping[int, int]
    """Number of matching rows in each of those fragments that has any."""


def only_matching(fragments: Sequence[FragmentSize], matches: IndexMatches) -> list[FragmentSize]:
    """The fragments that can hold matches: covered ones weighed by their matches, the others as they are."""
    visited = []
    for fragment in fragments:
        if fragment.fragment_id not in matches.covered:
            visited.append(fragment)
        elif rows := matches.rows.get(fragment.fragment_id, 0):
            share = rows / max(1, fragment.physical_rows)
            size = int(fragment.stored_bytes * share)
            # physical_rows stays: a split fragment is cut by row addresses, and matches may have any of them.
            visited.append(fragment._replace(live_rows=rows, stored_bytes=size))
    return visited


# --- Leaving out the first rows of a plan
# Pure.


def skip_rows(
    partitions: Sequence[ScanPartition], fragments: Sequence[FragmentSize], offset: int
) -> tuple[ScanPartition, ...]:
    """The partitions of a read without a filter, without its first rows. ``fragments`` are those of the plan."""
    return tuple(_skipped(partitions, {fragment.fragment_id: fragment.live_rows for fragment in fragments}, offset))


def _skipped(partitions: Sequence[ScanPartition], live: dict[int, int], offset: int) -> Iterator[ScanPartition]:
    for part in partitions:
        whole = part.row_count if part.row_count is not None else sum(live[key] for key in part.fragment_ids)
        rows = whole if part.limit is None else min(whole, part.limit)
        if offset <= 0:
            yield part
        elif offset < rows:
            yield from _rest(part, live, offset)
        offset -= rows


def _rest(part: ScanPartition, live: dict[int, int], offset: int) -> Iterator[ScanPartition]:
    """One partition without its first rows, of which it has more."""
    left = part.limit
    if part.row_count is not None:
        rest = None if left is None else left - offset
        yield replace(part, first_row=part.first_row + offset, row_count=part.row_count - offset, limit=rest)
        return
    ids = part.fragment_ids
    at = 0
    while offset >= live[ids[at]]:
        offset -= live[ids[at]]
        left = None if left is None else left - live[ids[at]]
        at += 1
    rows = live[ids[at]] - offset
    left = None if left is None else left - offset
    yield ScanPartition((ids[at],), offset, rows, None if left is None else min(left, rows))
    left = None if left is None else left - rows
    if ids[at + 1 :] and (left is None or left > 0):
        yield ScanPartition(ids[at + 1 :], limit=left)


# --- A range of row addresses in the form pylance's scanner takes


def row_address_set(fragment_id: int, first: int, count: int) -> bytes:
    """The rows [first, first + count) of one fragment, as a serialised Lance ``RowAddrTreeMap``.

    Layout: number of fragments, then for each its id, the length of its bitmap and the bitmap in Roaring's
    portable format; all numbers are little-endian u32. Read by ``scanner(row_addr_allowlist=...)``.
    """
    rows = BitMap()
    rows.add_range(first, first + count)
    rows.run_optimize()
    bitmap = rows.serialize()
    return struct.pack("<III", 1, fragment_id, len(bitmap)) + bitmap
