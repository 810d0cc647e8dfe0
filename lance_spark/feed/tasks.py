"""Divides pieces among tasks, by the bytes that they have to read. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lance_spark.feed.model import Piece

TASK_BYTES = 32 * 2**20
"""Bytes that one task reads, roughly. A fragment is not divided."""
_MOST_PIECES = 1_000
"""A task opens a fragment in milliseconds, from a store in hundreds."""


def in_tasks(pieces: Iterable[Piece], size: int = TASK_BYTES) -> Sequence[tuple[Piece, ...]]:
    """Groups of pieces that follow one another, each of about that size."""
    tasks: list[tuple[Piece, ...]] = []
    group: list[Piece] = []
    filled = 0
    for piece in pieces:
        if group and (filled + piece.size > size or len(group) == _MOST_PIECES):
            tasks.append(tuple(group))
            group, filled = [], 0
        group.append(piece)
        filled += piece.size
    if group:
        tasks.append(tuple(group))
    return tasks
