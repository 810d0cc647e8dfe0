"""Rows of a fragment that have labels, as runs: a compaction of a million rows is a handful of numbers. Pure.

Runs are an array with a row for each: where it starts, where it ends, and the label of its first row; the labels that
follow go up by one. They ascend and do not overlap.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Runs = npt.NDArray[np.int64]
Offsets = npt.NDArray[np.int64]
"""Ascending."""
NONE: Runs = np.zeros((0, 3), np.int64)


def run(rows: int, label: int) -> Runs:
    """The runs of a fragment of which every row has a label."""
    return np.array([[0, rows, label]], np.int64) if rows else NONE


def of_rows(rows: Sequence[int] | Offsets, label: int = 0) -> Runs:
    """The runs of some rows, ascending; a row's label is its number plus ``label``."""
    own = np.asarray(rows, np.int64)
    return joined(np.column_stack([own, own + 1, own + label]))


def count(runs: Runs) -> int:
    """How many rows have a label."""
    return int((runs[:, 1] - runs[:, 0]).sum())


def live(runs: Runs, deleted: Offsets) -> Runs:
    """The runs without deleted rows."""
    if not len(runs) or not len(deleted):
        return runs
    pieces = _cut(runs, np.concatenate([deleted, deleted + 1]))
    return pieces[~_contains(deleted, pieces[:, 0])]


def ranked(runs: Runs, deleted: Offsets) -> Runs:
    """The runs without deleted rows, by the numbers of rows among those that are not deleted."""
    pieces = live(runs, deleted).copy()
    pieces[:, :2] -= np.searchsorted(deleted, pieces[:, 0])[:, None]
    return joined(pieces)


def unranked(runs: Runs, deleted: Offsets, rows: int) -> Runs:
    """Where runs by numbers of live rows are in a fragment of so many rows."""
    if not len(runs) or not len(deleted):
        return runs
    starts, ends = np.concatenate([[0], deleted + 1]), np.concatenate([deleted, [rows]])
    starts, ends = starts[starts < ends], ends[starts < ends]
    ranks = np.cumsum(np.concatenate([[0], ends - starts]))[:-1]
    pieces = _cut(runs, ranks)
    shift = starts - ranks
    pieces[:, :2] += shift[np.searchsorted(ranks, pieces[:, 0], "right") - 1][:, None]
    return joined(pieces)


def moved(runs: Runs, by: int) -> Runs:
    """The runs so many rows later."""
    return runs + np.array([by, by, 0], np.int64)


def part(runs: Runs, start: int, end: int) -> Runs:
    """The runs between two rows, counted from the first of these."""
    pieces = _cut(runs, np.array([start, end], np.int64))
    return moved(pieces[(pieces[:, 0] >= start) & (pieces[:, 1] <= end)], -start)


def joined(runs: Runs) -> Runs:
    """The same with as few runs as there can be."""
    if len(runs) < 2:
        return runs
    follows = (runs[1:, 0] == runs[:-1, 1]) & (runs[1:, 2] - runs[:-1, 2] == runs[:-1, 1] - runs[:-1, 0])
    first = np.concatenate([[True], ~follows])
    last = np.concatenate([~follows, [True]])
    return np.column_stack([runs[first, 0], runs[last, 1], runs[first, 2]])


def united(one: Runs, other: Runs) -> Runs | None:
    """The labels of both; None if a row has another label in each."""
    if not len(one) or not len(other):
        return one if len(one) else other
    one, other = _cut(one, other[:, :2].ravel()), _cut(other, one[:, :2].ravel())
    at = np.searchsorted(one[:, 0], other[:, 0])
    known = _contains(one[:, 0], other[:, 0])
    if not (one[at[known], 2] == other[known, 2]).all():
        return None
    both = np.concatenate([one, other[~known]])
    return joined(both[np.argsort(both[:, 0])])


def sorted_by_row(several: Sequence[Runs]) -> Runs:
    """Runs of different rows, together."""
    found = np.concatenate([NONE, *several])
    return found[np.argsort(found[:, 0], kind="stable")]


def by_label(runs: Runs) -> Runs:
    """The runs with labels and rows in each other's places. Each label has to be there once."""
    length = runs[:, 1] - runs[:, 0]
    turned = np.column_stack([runs[:, 2], runs[:, 2] + length, runs[:, 0]])
    return turned[np.argsort(turned[:, 0])]


def overlap(runs: Runs) -> bool:
    """Whether a row, or after :func:`by_label` a label, is there twice. The runs have to ascend."""
    return bool((runs[1:, 0] < runs[:-1, 1]).any())


def without(runs: Runs, others: Runs) -> Runs:
    """The runs without the rows that others have."""
    return _chosen(runs, others, False)


def within(runs: Runs, others: Runs) -> Runs:
    """The runs with only the rows that others have."""
    return _chosen(runs, others, True)


def _chosen(runs: Runs, others: Runs, inside: bool) -> Runs:
    if not len(runs) or not len(others):
        return NONE if inside else runs
    pieces = _cut(runs, others[:, :2].ravel())
    at = np.searchsorted(others[:, 0], pieces[:, 0], "right") - 1
    known = (at >= 0) & (pieces[:, 0] < others[at, 1])
    return joined(pieces[known == inside])


def rows_of(runs: Runs) -> Offsets:
    """Each row that has a label."""
    lengths = runs[:, 1] - runs[:, 0]
    first = np.repeat(runs[:, 0] - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths) if len(runs) else NONE[:, 0]
    found: Offsets = first + np.arange(int(lengths.sum()), dtype=np.int64)
    return found


def _cut(runs: Runs, at: Offsets) -> Runs:
    """The same rows, with a new run at each of these places."""
    if not len(runs):
        return runs
    bounds = np.unique(np.concatenate([runs[:, 0], runs[:, 1], at]))
    starts, ends = bounds[:-1], bounds[1:]
    own = np.searchsorted(runs[:, 0], starts, "right") - 1
    inside = (own >= 0) & (starts < runs[own, 1])
    starts, ends, own = starts[inside], ends[inside], own[inside]
    return np.column_stack([starts, ends, runs[own, 2] + starts - runs[own, 0]])


def _contains(ascending: Offsets, values: Offsets) -> npt.NDArray[np.bool_]:
    if not len(ascending):
        return np.zeros(len(values), bool)
    at = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.asarray(ascending[at] == values)
