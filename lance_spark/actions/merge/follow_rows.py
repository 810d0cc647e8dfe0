"""Reads what a contest needs, which is deletion files only, and has it decided."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lance_spark.actions.merge.request import Request, open_root
from lance_spark.actions.merge.row_conflicts import examples
from lance_spark.errors import NotFound
from lance_spark.manifest.contents import Fragment
from lance_spark.merge.change import BasePair, Contest, MergeChange, MergeConflict, Sides
from lance_spark.merge.following import settle
from lance_spark.merge.rewrites import Deleted, DeletionKey, deletion_key
from lance_spark.merge.runs import Offsets, Runs
from lance_spark.merge.snapshot import Deletions, Snapshot
from lance_spark.merge.threeway import rows_without_values, taken_before
from lance_spark.store.deletions import read_deletions
from lance_spark.store.parallel import each


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
    """The deleted rows of every fragment of a contest. Each deletion file is read once, wherever it is found."""
    certain: dict[DeletionKey, Deletions] = {}
    for side, fragments in _versions(sides, contest):
        for fragment in fragments:
            key, place = deletion_key(fragment), side.deletions_of(fragment)
            if key is not None and place is not None:
                certain.setdefault(key, place)
    maybe = {key: place for entry in contest.rewrites for key, place in entry.deletions.items() if key not in certain}

    def read(entry: tuple[DeletionKey, Deletions]) -> Offsets | None:
        key, place = entry
        try:
            location = open_root(request, place.root)
            found = read_deletions(location, sides.ours.pin, place)
        except NotFound:
            if key in certain:
                raise
            return None
        offsets: Offsets = found.to_numpy(zero_copy_only=False).astype(np.int64)
        return offsets if len(offsets) == key[-1] else None

    places = {**maybe, **certain}
    known = dict(zip(places, each(request.location, read, places.items()), strict=True))
    nothing = np.zeros(0, np.int64)

    def deleted(fragment: Fragment) -> Offsets | None:
        key = deletion_key(fragment)
        return nothing if key is None else known.get(key)

    return deleted


def _versions(sides: Sides, contest: Contest) -> Iterator[tuple[Snapshot, Iterable[Fragment]]]:
    yield sides.ours, contest.ours
    yield sides.theirs, contest.theirs
    yield sides.base_ours, [pair.base for pair in contest.pairs if pair.base is not pair.before]
    yield sides.base_theirs, [pair.before for pair in contest.pairs]
