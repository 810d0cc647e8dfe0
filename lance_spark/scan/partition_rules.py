"""From fragments to Spark partitions, by bytes. Pure: numbers in, a printable plan out."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from pyroaring import BitMap

from lance_spark.layout.key_rules import Key

_QUOTED = re.compile(r"""'(?:[^']|'')*'|`[^`]*`|"([^"]*)\"""")


def quoted_column(filter: str, names: Iterable[str]) -> str | None:
    """A column that a filter in Lance's SQL names in double quotes, in which Lance sees a text; None if none is."""
    known = {name.lower(): name for name in names}
    found = (known.get((each[1] or "").lower()) for each in _QUOTED.finditer(filter))
    return next((name for name in found if name is not None), None)


FRAGMENT_COST = 64 * 2**10
"""Bytes charged for opening a fragment, so that 100,000 tiny fragments give tens of tasks, not one or 100,000."""
MIN_SPLIT = 4 * 2**20
"""Below this a task costs more than it saves (Spark's ``openCostInBytes``)."""
BATCH_ROWS = 65_536
"""Maximum rows of an Arrow batch. Larger ones gain nothing: Spark's channel from Python to the JVM is the limit. 20
million ready-made rows of four columns took 1.6 seconds in batches of 8,192, 1.4 in batches of 65,536 and 1.5 in
batches of 500,000."""
BATCH_BYTES = 8 * 2**20
"""Approximate bytes of an Arrow batch, so that wide rows (vectors, blobs) stay within a worker's memory."""


class FragmentSize(NamedTuple):
    """One fragment for planning. Not a dataclass: creating 100,000 of those takes twice as long."""

    fragment_id: int
    physical_rows: int
    """Rows in the data files, including deleted ones."""
    live_rows: int
    """Rows that a scan returns: without deleted ones and, if an index knows, without those that a filter rejects."""
    stored_bytes: int
    """Size of its data files; 0 if an old writer did not record it."""


@dataclass(frozen=True)
class ScanPartition:
    """The input of one Spark task: whole fragments, or a range of rows of a single one."""

    fragment_ids: tuple[int, ...]
    first_row: int = 0
    """First row of the range: counts live rows without a filter, row addresses with a filter."""
    row_count: int | None = None
    """Length of the range; None for whole fragments."""
    limit: int | None = None
    """Stop after this many rows that pass the filter."""


@dataclass(frozen=True)
class ScanRequest:
    row_width: float
    """Estimated bytes of one row of the columns to read."""
    column_share: float = 1.0
    """Those columns' share of the stored bytes, 0 to 1."""
    split_size: int = 128 * 2**20
    cores: int = 1
    """Cores to keep busy even if all data would fit into fewer splits."""
    filtered: bool = False
    splittable: bool = True
    """Whether rows inside a fragment can be addressed under a filter (see ``lance.takes_row_addresses``)."""
    limit: int | None = None


def plan_scan(fragments: Sequence[FragmentSize], request: ScanRequest) -> tuple[ScanPartition, ...]:
    """Partitions that cover every row once, in fragment order, each near the split size.

    With a limit and no filter, the plan stops at the fragment that fills the limit. With both, one partition reads
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


def plan_by_key(
    fragments: Sequence[FragmentSize],
    keys: Mapping[int, Key],
    request: ScanRequest,
    most: Mapping[Key, int] | None = None,
) -> tuple[tuple[ScanPartition, Key], ...]:
    """The same without a limit, with one key in each partition. A fragment without a key has no rows to read.

    ``most`` are the partitions that a key may have, if Spark has planned with some: it would drop further ones.
    """
    groups: dict[Key, list[FragmentSize]] = {}
    for fragment in fragments:
        if fragment.fragment_id in keys:
            groups.setdefault(keys[fragment.fragment_id], []).append(fragment)
    target = _target(sum(_weight(each, request) for each in fragments), request)
    own = replace(request, split_size=int(target), cores=1)
    planned: list[tuple[ScanPartition, Key]] = []
    for key, group in groups.items():
        parts = plan_scan(group, own)
        if most is not None and len(parts) > most[key]:
            parts = (ScanPartition(tuple(each.fragment_id for each in group)),)
        planned += [(part, key) for part in parts]
    return tuple(planned)


def weights_by_key(
    fragments: Sequence[FragmentSize], keys: Mapping[int, Key], request: ScanRequest
) -> dict[Key, float]:
    """The bytes that reading each key moves."""
    found: dict[Key, float] = {}
    for fragment in fragments:
        key = keys[fragment.fragment_id]
        found[key] = found.get(key, 0.0) + _weight(fragment, request)
    return found


def batch_rows(row_width: float) -> int:
    """Rows per Arrow batch for rows of an estimated width in bytes."""
    return max(1, min(BATCH_ROWS, int(BATCH_BYTES / max(1.0, row_width))))


LARGE_BATCH = 256 * 2**20
"""Stored bytes of whole rows in a batch, at most. pylance cannot read 2 GiB of text at once; files are compressed."""


def batch_rows_of(row_width: float, fragments: Iterable[FragmentSize]) -> int:
    """Whole rows per Arrow batch: fewer than :func:`batch_rows` for long texts, whose length no type tells."""
    large = (each for each in fragments if each.stored_bytes > LARGE_BATCH and each.physical_rows)
    most = (LARGE_BATCH * each.physical_rows // each.stored_bytes for each in large)
    return max(1, min(batch_rows(row_width), *most, BATCH_ROWS))


def _target(total: float, request: ScanRequest) -> float:
    """Spark's own rule for files: the split size, or less if cores would be idle otherwise."""
    return min(float(request.split_size), max(float(MIN_SPLIT), total / max(1, request.cores)))


def _weight(fragment: FragmentSize, request: ScanRequest) -> float:
    """Bytes that reading a fragment moves: its stored bytes or, if larger (compression), the bytes sent to Spark."""
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
    """Give each partition the part of the limit that is left for it."""
    live = {fragment.fragment_id: fragment.live_rows for fragment in fragments}
    for part in partitions:
        if limit <= 0:
            return
        rows = part.row_count if part.row_count is not None else sum(live[key] for key in part.fragment_ids)
        yield part if rows <= limit else ScanPartition(part.fragment_ids, part.first_row, part.row_count, limit)
        limit -= rows


# --- Reads whose filter an index answers: only fragments with matches are visited

_EXACT = frozenset({"BTree", "Bitmap", "LabelList"})
"""Kinds of index that know the matching rows; others (zone maps, Bloom filters, n-grams) still require reading data."""
PROBE_LIMIT = 1_000_000
"""Maximum matches counted on the driver; a filter with more is planned like a full scan."""


def answering_indexes(explained: str) -> frozenset[str]:
    """Names of the scalar indexes that alone decide which rows match, from pylance's explained plan.

    Only for these can the driver look up the matching rows: it then reads index pages, never data. Empty if the plan
    shows anything else, such as a part of the predicate left to check. If a later pylance words the plan differently,
    the result is also empty, which costs speed, never rows.
    """
    reads = re.findall(r"LanceRead: .*", explained)
    queries = re.findall(r"ScalarIndexQuery: query=(.*)", explained)
    if len(reads) != 1 or len(queries) != 1 or not reads[0].rstrip().endswith("refine_filter=--"):
        return frozenset()
    indexes = re.findall(r"\]@(.*?)\((\w+)\)(?=[,)]|$)", queries[0].rstrip())
    return frozenset(name for name, _ in indexes) if _EXACT.issuperset(kind for _, kind in indexes) else frozenset()


@dataclass(frozen=True)
class IndexMatches:
    """The rows that pass a filter, according to indexes."""

    covered: frozenset[int]
    """Ids of the fragments that the indexes cover."""
    rows: Mapping[int, int]
    """Number of matching rows in each of those fragments that has any."""


def only_matching(fragments: Sequence[FragmentSize], matches: IndexMatches) -> list[FragmentSize]:
    """The fragments that can hold matches: covered ones weighed by their matches, the others unchanged."""
    visited = []
    for fragment in fragments:
        if fragment.fragment_id not in matches.covered:
            visited.append(fragment)
        elif rows := matches.rows.get(fragment.fragment_id, 0):
            share = rows / max(1, fragment.physical_rows)
            size = int(fragment.stored_bytes * share)
            # physical_rows stays: a split fragment is cut by row addresses, and matches can have any of them.
            visited.append(fragment._replace(live_rows=rows, stored_bytes=size))
    return visited


# --- Skipping the first rows of a plan


def skip_rows(
    partitions: Sequence[ScanPartition], fragments: Sequence[FragmentSize], offset: int
) -> tuple[ScanPartition, ...]:
    """The partitions of an unfiltered read, without its first rows. ``fragments`` are those of the plan."""
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
    """One partition without its first rows; it has more than those."""
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


# --- Ranges of row addresses in pylance's form


def row_address_set(fragment_id: int, first: int, count: int) -> bytes:
    """The rows [first, first + count) of one fragment, as a serialized Lance ``RowAddrTreeMap``.

    Layout: number of fragments, then for each its id, the length of its bitmap and the bitmap in Roaring's portable
    format; all numbers are little-endian u32. Read by ``scanner(row_addr_allowlist=...)``.
    """
    rows = BitMap()
    rows.add_range(first, first + count)
    rows.run_optimize()
    bitmap = rows.serialize()
    return struct.pack("<III", 1, fragment_id, len(bitmap)) + bitmap
