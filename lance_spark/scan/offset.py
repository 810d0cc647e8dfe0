"""Leaving out the first rows of a plan. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lance_spark.scan.plan import FragmentSize, ScanPartition


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
