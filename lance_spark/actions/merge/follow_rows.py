"""Reads what a contest needs, which is deletion files only, and has it decided."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from lance_spark.actions.known_deletions import DeletionReader, Held, known_deletions
from lance_spark.actions.merge.request import Request, open_root
from lance_spark.actions.merge.row_conflicts import examples
from lance_spark.merge.change import BasePair, Contest, MergeChange, MergeConflict, Sides
from lance_spark.merge.following import settle
from lance_spark.merge.rewrites import Deleted
from lance_spark.merge.runs import Runs
from lance_spark.merge.threeway import rows_without_values, taken_before


class FollowedChange(NamedTuple):
    """A change without contests."""

    change: MergeChange
    conflicts: tuple[MergeConflict, ...] = ()
    ours_old: Mapping[int, Runs] = {}
    """Rows in new fragments of ours that are in the base, by fragment."""


def follow_rows(request: Request, sides: Sides, change: MergeChange) -> FollowedChange:
    """Settle the contest of a change, if there is one. Raises NotFound for a deletion file of a version that is there.

    Of compactions, deletion files may be gone: then these do not count.
    """
    if change.contest is None:
        return FollowedChange(change)
    settled = settle(sides, change, _deleted(request, sides, change.contest))
    reasons: defaultdict[str, list[tuple[BasePair, tuple[int, ...]] | None]] = defaultdict(list)
    for clash in settled.clashes:
        reasons[clash.reason].append(None if clash.pair is None else (clash.pair, clash.offsets))
    conflicts = []
    for reason, several in reasons.items():
        known = [entry for entry in several if entry is not None]
        rows = tuple(
            row
            for pair, offsets in known[:1]
            for row in examples(request.location, sides.base_ours, pair.base, offsets)
        )
        conflicts.append(sides.conflict(reason, {pair.base.id for pair, _ in known}, rows))
    conflicts += taken_before(sides, settled.change)
    notes = (*change.notes, *rows_without_values(sides, settled.change))
    followed = replace(settled.change, notes=notes)
    return FollowedChange(followed, tuple(conflicts), settled.ours_old)


def _deleted(request: Request, sides: Sides, contest: Contest) -> Deleted:
    """The deleted rows of every fragment of a contest."""
    held = (
        Held(sides.ours, contest.ours),
        Held(sides.theirs, contest.theirs),
        Held(sides.base_ours, [pair.base for pair in contest.pairs if pair.base is not pair.before]),
        Held(sides.base_theirs, [pair.before for pair in contest.pairs]),
    )
    reader = DeletionReader(request.location, sides.ours.pin, partial(open_root, request))
    return known_deletions(reader, held, contest.rewrites)
