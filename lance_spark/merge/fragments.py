"""The three-way comparison of fragments: which of theirs ours takes, by the matrix in ``matrix.py``. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from lance_spark.manifest.contents import Fragment
from lance_spark.merge.change import MergeChange, Replacement, Sides
from lance_spark.merge.contest import contest
from lance_spark.merge.delta import Delta, by_file, counterpart
from lance_spark.merge.matrix import FRAGMENTS, OTHER_COLUMNS, OTHER_ROWS, Decision, FragmentChange, decide
from lance_spark.merge.snapshot import Snapshot, columns, same_deletion, same_files
from lance_spark.merge.steps import Steps

_ROWS = frozenset({FragmentChange.ROWS_DELETED, FragmentChange.ROWS_UPDATED})


def merge_fragments(sides: Sides, ours: Delta, theirs: Delta) -> MergeChange:
    """What ours has to take of the fragments of theirs, and what stands against it."""
    replaced: list[Replacement] = []
    removed: list[tuple[Fragment, Fragment]] = []
    reasons: defaultdict[str, list[int]] = defaultdict(list)
    added, reasons["both sides have the same new rows and changed them"] = _added(sides, ours, theirs)
    contested = contest(sides, ours, theirs, lambda fragments: _in_ours(sides, [*fragments]))
    aside = {pair.before.id for pair in contested.pairs} if contested is not None else set()
    for meeting in _meetings(sides, ours, theirs):
        if meeting.before.id in aside:
            continue
        clashes = [decision.reason for decision in meeting.decisions if meeting.clashes(decision)]
        for reason in clashes:
            reasons[reason].append((meeting.ours or meeting.before).id)
        if not clashes and meeting.ours is not None:
            if meeting.theirs is None:
                removed.append((meeting.before, meeting.ours))
            elif FragmentChange.UNCHANGED not in meeting.kinds_of_theirs:
                replaced.append(meeting.replacement(meeting.ours, meeting.theirs))
    conflicts = [sides.conflict(reason, fragments) for reason, fragments in reasons.items() if fragments]
    return MergeChange(tuple(added), tuple(replaced), tuple(removed), conflicts=tuple(conflicts), contest=contested)


@dataclass(frozen=True)
class _Meeting:
    """A fragment of the base that theirs changed or removed, as each version has it; None if it is gone."""

    sides: Sides
    before: Fragment
    """In the base, as the chain of theirs has it."""
    theirs: Fragment | None
    base: Fragment
    """In the base, as the chain of ours has it."""
    ours: Fragment | None

    @cached_property
    def kinds_of_theirs(self) -> set[FragmentChange]:
        """What theirs did, except for what ours did as well."""
        sides = self.sides
        versions = _Versions(self.before, self.theirs, self.ours, sides.base_theirs.live, sides.theirs, sides.ours)
        return versions.kinds(sides.their_steps)

    @cached_property
    def decisions(self) -> list[Decision]:
        """What the matrix says."""
        sides = self.sides
        versions = _Versions(self.base, self.ours, self.theirs, sides.base_ours.live, sides.ours, sides.theirs)
        return decide(FRAGMENTS, self.kinds_of_theirs, versions.kinds(sides.our_steps))

    def clashes(self, decision: Decision) -> bool:
        """Whether a decision is a conflict. Only deletion files show whether rows differ; they are read later."""
        return decision.is_conflict or (decision == OTHER_COLUMNS and self._wrote_the_same_column())

    def _wrote_the_same_column(self) -> bool:
        if self.ours is None or self.theirs is None:
            return False
        names = {entry.id: entry.name for entry in self.sides.ours.contents.fields}
        # Two columns that were added meanwhile may have the same id.
        shared = {entry.id for entry in self.sides.theirs.contents.fields if names.get(entry.id) == entry.name}
        ours, theirs = _written(self.base, self.ours), _written(self.base, self.theirs)
        return any(ours[key] != theirs[key] for key in ours.keys() & theirs.keys() & shared)

    def replacement(self, ours: Fragment, theirs: Fragment) -> Replacement:
        """What ours gets of theirs."""
        return Replacement(
            base=self.base,
            ours=ours,
            theirs=theirs,
            files=FragmentChange.COLUMNS_WRITTEN in self.kinds_of_theirs,
            deletion=bool(_ROWS & self.kinds_of_theirs),
            both_deleted=OTHER_ROWS in self.decisions,
        )


@dataclass(frozen=True)
class _Versions:
    """One fragment in three versions, with the columns that are live there."""

    base: Fragment
    here: Fragment | None
    there: Fragment | None
    live_in_base: frozenset[int]
    side: Snapshot
    """The version of ``here``."""
    other: Snapshot

    def kinds(self, steps: Steps) -> set[FragmentChange]:
        """What the side did to it, by ``steps``, except for what the other side did as well."""
        here = self.here
        if here is None:
            return {FragmentChange.GONE}
        known = [(self.base, self.live_in_base)]
        if self.there is not None:
            known.append((self.there, known_columns(self.live_in_base, self.other)))
        kinds = set()
        if not any(same_deletion(here, fragment) for fragment, _ in known):
            kinds.add(FragmentChange.ROWS_DELETED if steps.moves_no_rows else FragmentChange.ROWS_UPDATED)
        if not any(same_files(here, fragment, self.side.live, live) for fragment, live in known):
            kinds.add(FragmentChange.COLUMNS_WRITTEN)
        return kinds or {FragmentChange.UNCHANGED}


def known_columns(live_in_base: frozenset[int], side: Snapshot) -> frozenset[int]:
    """Columns of which a side's files tell whether it has the same values: those it dropped are none it lacks."""
    return live_in_base | side.live


def _added(sides: Sides, ours: Delta, theirs: Delta) -> tuple[list[Fragment], list[int]]:
    """New fragments of theirs, and ids of those that ours took over before and that one side changed since."""
    twins, known = by_file(ours.added), known_columns(sides.base_theirs.live, sides.ours)
    added, clashing = [], []
    for fragment in theirs.added:
        twin = counterpart(fragment, twins)
        if twin is None:
            added.append(fragment)
        elif not (same_files(fragment, twin, sides.theirs.live, known) and same_deletion(twin, fragment)):
            clashing.append(twin.id)
    return added, clashing


def _meetings(sides: Sides, ours: Delta, theirs: Delta) -> Iterable[_Meeting]:
    gone = {fragment.id for fragment in ours.removed}
    changed = {before.id: after for before, after in (*ours.changed, *ours.renumbered)}
    pairs: list[tuple[Fragment, Fragment | None]] = [*theirs.changed, *((before, None) for before in theirs.removed)]
    bases = _in_ours(sides, [before for before, _ in pairs])
    for before, after in pairs:
        base = bases.get(before.id)
        if base is None or base.id in gone:
            yield _Meeting(sides, before, after, base or before, None)
        else:
            yield _Meeting(sides, before, after, base, changed.get(base.id) or _as_in_ours(sides, base))


def _in_ours(sides: Sides, fragments: Collection[Fragment]) -> dict[int, Fragment]:
    """Fragments of the base as the chain of ours has them, by their ids in the chain of theirs."""
    if sides.base_ours is sides.base_theirs:
        return {fragment.id: fragment for fragment in fragments}
    paths = {file.path for fragment in fragments for file in fragment.files}
    known = by_file(sides.base_ours.contents.fragments_with(paths)) if paths else {}
    pairs = ((fragment.id, counterpart(fragment, known)) for fragment in fragments)
    return {key: fragment for key, fragment in pairs if fragment is not None}


def _as_in_ours(sides: Sides, base: Fragment) -> Fragment:
    """A fragment of the base that ours did not change. Only its id may differ there."""
    if sides.base_ours.bases == sides.ours.bases:
        return base
    return sides.ours.contents.fragments_with({file.path for file in base.files})[0]


def _written(base: Fragment, side: Fragment) -> dict[int, str]:
    """Fields that a side wrote or added in a fragment, with the files they are in."""
    every = frozenset(field for file in side.files for field in file.fields if field >= 0)
    before = columns(base, every)
    return {key: path for key, path in columns(side, every).items() if before.get(key) != path}
