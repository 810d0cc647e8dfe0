"""Which small fragments a write compacts. Pure.

Fragments of about one size are compacted once there are many: single batches first, then what came of them, up to a
size that is no longer small. So a row is rewritten a few times, however small the batches are that it came with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from lance_spark.format.contents import Fragment

_LARGE = 64 << 20
"""Bytes of data files: such fragments stay as they are."""
_LEAST = 64 << 10
"""Fragments of less are all of one size: rewriting them costs little."""
_FULL = 128 << 20
"""Bytes of a new fragment."""
_MOST_ROWS = 1_000_000
_MOST = 1 << 30
"""Bytes that one compaction rewrites at most: who commits waits meanwhile."""

Run = Sequence[Fragment]
"""Fragments that can become one."""


def is_small(fragment: Fragment, limit: int = _LARGE) -> bool:
    """Whether a fragment is below a size. One of an unknown size, or of many narrow rows, is not."""
    return 0 < fragment.size < limit and 2 * fragment.rows < _MOST_ROWS


def neighbors(fragments: Iterable[Fragment | None]) -> list[Run]:
    """Small fragments that follow each other, in the order of a version; None stands for one that stays as it is."""
    runs: list[list[Fragment]] = [[]]
    for each in fragments:
        if each is not None and is_small(each):
            runs[-1].append(each)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def alike(fragments: Iterable[Fragment | None], keys: Mapping[int, object]) -> list[Run]:
    """Small fragments of the same partition; those of several or unknown partitions stay as they are."""
    runs: dict[object, list[Fragment]] = {}
    for each in fragments:
        if each is not None and is_small(each) and keys.get(each.id) is not None:
            runs.setdefault(keys[each.id], []).append(each)
    return [*runs.values()]


def due(runs: Iterable[Run], many: int) -> Iterator[int]:
    """The ids of the fragments to compact now, within what one compaction rewrites."""
    chosen = [each for run in runs for each in _of_one_size(run, many)]
    return affordable(chosen) if len(chosen) > 1 else iter(())


def _of_one_size(run: Run, many: int) -> Run:
    """The neighbors in a run to compact: so many of one size, with smaller ones between them; empty if there are none.

    Sizes that alternate are never neighbors of their own size: then so many for each size count.
    """
    limits = _limits(many)
    for place, (least, limit) in enumerate(pairwise([0, *limits]), 1):
        for part in neighbors(each if is_small(each, limit) else None for each in run):
            if sum(each.size >= least for each in part) >= many or len(part) >= place * many:
                return part
    return ()


def _limits(many: int) -> list[int]:
    """Where a size ends: many of one are one of the next."""
    limits = [_LARGE]
    while limits[-1] // many >= _LEAST:
        limits.append(limits[-1] // many)
    return limits[::-1]


def affordable(fragments: Iterable[Fragment]) -> Iterator[int]:
    """Their ids, as long as the sum of their sizes allows."""
    size = 0
    for fragment in fragments:
        size += fragment.size
        if size > _MOST:
            return
        yield fragment.id


def rows_of(fragments: Iterable[Fragment | None]) -> int:
    """How many rows a new fragment has, by the width of the small ones."""
    small = [each for each in fragments if each is not None and is_small(each)]
    rows, size = sum(each.physical_rows for each in small), sum(each.size for each in small)
    return max(1, min(_MOST_ROWS, _FULL * rows // size)) if size else _MOST_ROWS
