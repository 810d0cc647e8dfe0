"""Which rows a version added that brought compactions along: older rows are followed to their new places. Pure.

A merge takes over what its branch compacted. Then old and new rows lie in the same new files, and the old ones were
given before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lance_spark.manifest.contents import Fragment
from lance_spark.merge import runs as of_runs
from lance_spark.merge.rewrites import Deleted, Rewrite, Traced, trace
from lance_spark.merge.runs import NONE, Offsets, Runs
from lance_spark.merge.snapshot import columns

Range = tuple[int, int]
"""Rows from the first number up to the second one, which does not count."""


class NewRows(NamedTuple):
    """Some rows of a fragment, as ranges that ascend and do not touch one another."""

    offsets: tuple[Range, ...]
    """By their places in the data files."""
    ranks: tuple[Range, ...]
    """The same rows by their numbers among those that are not deleted."""

    @property
    def total(self) -> int:
        """How many they are."""
        return sum(end - first for first, end in self.ranks)


@dataclass(frozen=True)
class MergedStep:
    """A version that may have moved older rows, and the one before it."""

    before: tuple[Fragment, ...]
    """The fragments that may have moved: those that are gone, and those that compactions speak of."""
    after: tuple[Fragment, ...]
    """The fragments that may have their rows: those that are new, and those that compactions speak of."""
    rewrites: tuple[Rewrite, ...]
    """What the version says about files."""
    fields: frozenset[int]
    """Ids of the fields of which no value may have changed."""


def new_rows(step: MergedStep, added: Collection[int], deleted: Deleted) -> dict[int, NewRows] | None:
    """The rows of each added fragment, by its id, that the version before did not have.

    None unless it is certain that every older row is still there, once and with the same values, and that none is back
    that was deleted: then the version did more than add rows, or what it did cannot be told any more.
    """
    if any(not entry.physical_rows or entry.has_overlays for entry in (*step.before, *step.after)):
        return None
    # Deleted rows have labels, too: a row that comes back is none that was appended.
    start = [(entry, of_runs.run(entry.physical_rows, at << 32)) for at, entry in enumerate(step.before)]
    traced = trace(start, step.rewrites, deleted)
    if traced.doubtful or not _same_values(step, traced):
        return None
    gone = {entry: deleted(entry) for entry in (*step.before, *step.after)}
    known = {entry: offsets for entry, offsets in gone.items() if offsets is not None}
    if len(known) < len(gone):
        return None
    before, after = (
        of_runs.sorted_by_row(
            [of_runs.by_label(of_runs.live(traced.labels_of(entry), known[entry])) for entry in entries]
        )
        for entries in (step.before, step.after)
    )
    if of_runs.overlap(before) or of_runs.overlap(after) or not _same_labels(before, after):
        return None
    return {
        entry.id: _chosen(entry, traced.labels_of(entry), known[entry]) for entry in step.after if entry.id in added
    }


def _same_labels(one: Runs, other: Runs) -> bool:
    return not len(of_runs.without(one, other)) and not len(of_runs.without(other, one))


def _same_values(step: MergedStep, traced: Traced) -> bool:
    """Whether no column was written in files with older rows: a fragment then has other files than it had before."""
    states: dict[str, dict[int, str]] = {}
    for entry in (*step.before, *step.after, *_of(step.rewrites)):
        key = traced.files.key(entry)
        if not len(traced.labels.get(key, NONE)):
            continue
        here = columns(entry, step.fields)
        if entry.has_overlays or states.setdefault(key, here) != here:
            return False
    return True


def _of(rewrites: Sequence[Rewrite]) -> Iterable[Fragment]:
    return (entry for each in rewrites for side in (each.old, each.new) for entry in side)


def _chosen(fragment: Fragment, old: Runs, deleted: Offsets) -> NewRows:
    """The live rows of a fragment that have no label."""
    alive = of_runs.live(of_runs.run(fragment.physical_rows, 0), deleted)
    new = of_runs.without(alive, old)
    ranked = of_runs.ranked(new, deleted)
    return NewRows(_ranges(new), _ranges(of_runs.joined(np.column_stack([ranked[:, :2], ranked[:, 0]]))))


def _ranges(runs: Runs) -> tuple[Range, ...]:
    return tuple((first, end) for first, end in runs[:, :2].tolist())
