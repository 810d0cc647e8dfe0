"""Which tasks answer a search. Pure.

A vector is searched for in segments of an index, which give candidates with the distances that they know, and in
groups of fragments that no segment covers, which give exact ones. pylance does the same in one process; the tasks
together find what it finds there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from lance_spark.indexing.coverage import Rows, task_groups
from lance_spark.metadata.indexes import Segment

FLAT_BYTES = 64 * 2**20
"""Vectors that are compared one by one: fewer bytes are not worth a task of their own."""
SEGMENT_BYTES = 64 * 2**20
"""Segments of fewer bytes share a task."""


class WholeTask(NamedTuple):
    """Everything, by pylance alone."""


class SegmentTask(NamedTuple):
    """Some segments of the index."""

    segments: tuple[str, ...]


class FlatTask(NamedTuple):
    """All vectors of some fragments."""

    fragments: tuple[int, ...]


class TextTask(NamedTuple):
    """The text, in all segments and fragments: how often words are in all texts decides about every score."""


Task = WholeTask | SegmentTask | FlatTask | TextTask


def vector_tasks(
    segments: Sequence[Segment], flat: Collection[int], rows: Rows, width: float, side_by_side: int
) -> tuple[Task, ...]:
    """The tasks for one vector. ``width`` is the bytes of a vector, ``flat`` what no segment covers."""
    live = [segment for segment in segments if any(rows.get(fragment) for fragment in segment.fragments)]
    tasks: list[Task] = [SegmentTask(names) for names in _packed(live, side_by_side)]
    amount = sum(rows[fragment] for fragment in flat) * width
    count = max(1, min(len(flat), side_by_side, round(amount / FLAT_BYTES)))
    tasks += [FlatTask(tuple(group)) for group in task_groups(flat, rows, count)]
    return tuple(tasks)


def _packed(segments: Sequence[Segment], most: int) -> list[tuple[str, ...]]:
    """Segments for each task, about as many bytes in each."""
    sizes: Mapping[str, int] = {segment.uuid: segment.size_bytes or 0 for segment in segments}
    count = min(len(segments), most, max(1, sum(sizes.values()) // SEGMENT_BYTES))
    bins: list[list[str]] = [[] for _ in range(count)]
    filled = [0] * count
    for uuid in sorted(sizes, key=lambda each: (-sizes[each], each)):
        least = filled.index(min(filled))
        bins[least].append(uuid)
        filled[least] += max(1, sizes[uuid])
    return [tuple(names) for names in bins]


def bytes_to_look_at(segments: Sequence[Segment], flat_rows: int, width: float, filtered_rows: int) -> int:
    """About how many bytes a search reads.

    An index is read in parts, and a filter without an index of its own has to be asked about every row.
    """
    indexed = sum(segment.size_bytes or 0 for segment in segments) // 16
    return int(indexed + flat_rows * width + filtered_rows * 8)
