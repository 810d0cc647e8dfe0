"""Stable row ids of a fragment: reading a sequence, and which of its ids another chain may take over. Pure.

Each chain numbers its new rows itself, so two chains give one number to different rows. With two rows of one id, an
index returns the wrong row. So a fragment keeps the ids of rows that the base has, as ours numbers them, and the commit
gives new ids to its other rows (pylance numbers the rows that follow those with an id).
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from lance_spark.errors import CorruptData
from lance_spark.manifest.messages import message, parse

_WIDTHS = {"narrow": "H", "wide": "I", "whole": "Q"}


def read_row_ids(sequence: bytes) -> list[int]:
    """The row ids of a fragment, in the order of its rows. Raises CorruptData."""
    ids: list[int] = []
    for segment in parse("RowIdSequence", sequence).segments:
        ids += _segment(segment)
    return ids


def write_row_ids(ids: Sequence[int]) -> bytes:
    """A sequence of row ids as manifests hold them: one range for each unbroken run."""
    sequence = message("RowIdSequence")
    for start, end in _runs(ids):
        segment = sequence.segments.add()
        segment.range.start, segment.range.end = start, end
    return bytes(sequence.SerializeToString())


def kept_row_ids(
    ids: Sequence[int], known: Callable[[int], int | None], dead: Collection[int] = frozenset()
) -> list[int] | None:
    """The ids that a fragment takes along, as ours knows them: those of rows from before the base, which come first.

    ``known`` returns the id of a row in ours; None for a new row. Rows at the places ``dead`` are deleted: any id will
    do for them. The result is None if old and new rows are mixed, so that the commit could not number the new ones.
    """
    known_ids = [known(row) for row in ids]
    end = max((at + 1 for at, row in enumerate(known_ids) if row is not None and at not in dead), default=0)
    if any(row is None and at not in dead for at, row in enumerate(known_ids[:end])):
        return None
    free = max((row for row in known_ids if row is not None), default=-1) + 1
    return [row if row is not None else free + at for at, row in enumerate(known_ids[:end])]


def matched_row_ids(theirs: bytes, ours: bytes) -> dict[int, int]:
    """How ours knows the rows of a fragment that both have, by the ids in theirs."""
    return dict(zip(read_row_ids(theirs), read_row_ids(ours), strict=False))


def _segment(segment: Any) -> Iterable[int]:
    kind = next((field.name for field, _ in segment.ListFields()), None)
    if kind == "range":
        return range(segment.range.start, segment.range.end)
    if kind == "range_with_holes":
        span = segment.range_with_holes
        holes = frozenset(_array(span.holes))
        return [row for row in range(span.start, span.end) if row not in holes]
    if kind == "range_with_bitmap":
        span = segment.range_with_bitmap
        return [row for at, row in enumerate(range(span.start, span.end)) if span.bitmap[at >> 3] >> (at & 7) & 1]
    if kind in ("sorted_array", "array"):
        return _array(getattr(segment, kind))
    raise CorruptData("Row ids are written in a form that this release does not know.")


def _array(encoded: Any) -> list[int]:
    for field, offsets in encoded.ListFields():
        values = array(_WIDTHS[field.name])
        values.frombytes(offsets.values)
        if sys.byteorder == "big":
            values.byteswap()
        return [offsets.base + value for value in values]
    return []


def _runs(ids: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for row in ids:
        if runs and runs[-1][1] == row:
            runs[-1] = (runs[-1][0], row + 1)
        else:
            runs.append((row, row + 1))
    return runs
