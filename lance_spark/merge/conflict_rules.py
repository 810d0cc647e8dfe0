"""The three-way comparison: what theirs changed since the base, whether ours can take it, and what results. Pure.

In: the two sides. Out: one change with its conflicts and notes. Fragments and columns are compared by the matrix in
``change_rules.py``; this module also decides about the table as a whole, and which fragments must be followed row by
row. Its last part is about the result: its fields, those in which a side may have a null although the result allows
none, keys that more than one row would have, and values of columns that it lacks. Each side vouches for its own
version: a column that cannot be null there has no null there, and a key that it declares is unique there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.core.refs import MAIN
from lance_spark.errors import NotCommittable
from lance_spark.format.contents import Field, Fragment
from lance_spark.format.evolution import loses_structs
from lance_spark.format.operations import Steps, key_fields
from lance_spark.format.row_ids import Connected, Rewrite
from lance_spark.format.row_values import Hashes, hash_rows
from lance_spark.format.schema import is_list
from lance_spark.format.versions import Delta, Snapshot, by_file, columns, counterpart, delta, same_deletion, same_files
from lance_spark.merge.change_rules import (
    FRAGMENTS,
    GONE_OURS,
    GONE_THEIRS,
    OTHER_COLUMNS,
    OTHER_ROWS,
    UPDATED,
    BasePair,
    CellPair,
    Contest,
    Decision,
    FragmentChange,
    MergeChange,
    MergeConflict,
    Replacement,
    Sides,
    cast_columns,
    decide,
    default_in,
    merge_columns,
    renumbered,
    trees,
)
from lance_spark.merge.option_rules import OURS, Side


def reused(base: Snapshot, side: Snapshot, steps: Steps) -> list[str]:
    """Columns of the base that a side dropped and whose ids now mean other columns: pylance reuses field ids.

    Unnoticed, rows of the other side would have their values in the wrong column, or bytes of one type would be read as
    another type. A renamed column also has a new name under its id, but its values stay in their files, or it was never
    gone. A cast column gets a new id. A column that is added again under its old name may get its old id.
    """
    now = {entry.id: entry for entry in side.contents.fields}
    both = [(entry, now[entry.id]) for entry in base.contents.fields if entry.id in now]
    other_type = [before.name for before, after in both if before.type != after.type]
    gone = steps.dropped([before.id for before, _ in both])
    may_be_new = steps.may_add_columns and not steps.tell_columns
    suspects = {
        before.id: before.name
        for before, after in both
        if before.type == after.type and (before.id in gone or (before.name != after.name and may_be_new))
    }
    return other_type + (_not_renamed(base, side, suspects) if suspects else [])


def _not_renamed(base: Snapshot, side: Snapshot, suspects: Mapping[int, str]) -> list[str]:
    """The names of the columns, given by id, whose values are now in other files."""
    known, live = by_file(base.contents.fragments()), frozenset(suspects)
    same, moved = set(), set()
    for fragment in side.contents.fragments():
        origin = counterpart(fragment, known)
        before = {} if origin is None else columns(origin, live)
        after = columns(fragment, live)
        same |= {key for key, path in before.items() if after.get(key) == path}
        moved |= {key for key, path in before.items() if after.get(key) != path}
    return [name for key, name in suspects.items() if key in moved or key not in same]


def are_free(new: Collection[int], side: Snapshot) -> bool:
    """Whether field ids exceed all ids in use: otherwise the values of a dropped column would reappear."""
    if not new:
        return True
    files = (file for fragment in side.contents.fragments() for file in fragment.files)
    return min(new) > max((*side.live, *(key for file in files for key in file.fields)), default=-1)


# --- Three-way comparison of columns, and of the rows with values in them

CAST = "was cast on one side and rows changed on the other"
_OTHER_ID = "was given another id by an earlier merge"


def merge_schema(sides: Sides, our_rows: Delta, their_rows: Delta) -> MergeChange:
    """The columns of theirs that ours takes, and what prevents it."""
    before, ours, theirs = sides.fields
    conflicts: list[MergeConflict] = []
    if not sides.is_fast_forward:
        conflicts += _unreadable(sides, our_rows, their_rows)
        conflicts += _without_fields(sides, our_rows.added, ours, theirs)
        conflicts += _without_fields(sides, their_rows.added, theirs, ours)
    if theirs in (ours, before):
        return MergeChange(conflicts=tuple(conflicts))
    if ours == before and not sides.their_ids and are_free(sides.theirs.live - sides.base_theirs.live, sides.ours):
        return MergeChange(columns_of_theirs=True, conflicts=tuple(conflicts))
    merged = merge_columns(before, ours, theirs, (sides.our_steps.last_name, sides.their_steps.last_name))
    conflicts += [sides.conflict(reason) for reason in merged.conflicts]
    return MergeChange(columns=merged.changes, conflicts=tuple(conflicts))


def _unreadable(sides: Sides, our_rows: Delta, their_rows: Delta) -> list[MergeConflict]:
    """Columns whose values on the other side would read as null or as another column's."""
    before, ours, theirs = sides.fields
    moved = set() if sides.certain_ids else {*renumbered(before, ours), *renumbered(before, theirs)}
    cast = {*(cast_columns(before, theirs) if our_rows else ())} | {*(cast_columns(before, ours) if their_rows else ())}
    mine = trees(ours)
    cast -= {tree[0].name for key, tree in trees(theirs).items() if mine.get(key) == tree}  # alike on both sides
    dropped = reused(sides.base_ours, sides.ours, sides.our_steps) if _writes(their_rows, sides.base_theirs) else []
    dropped += reused(sides.base_theirs, sides.theirs, sides.their_steps) if _writes(our_rows, sides.base_ours) else []
    reasons = (
        (_OTHER_ID, moved),
        (CAST, cast - moved),
        ("was dropped on one side, where its id is another column's now, and written on the other", {*dropped} - moved),
    )
    return [sides.conflict(f"column '{name}' {why}") for why, names in reasons for name in sorted(names)]


def _without_fields(
    sides: Sides, rows: Iterable[Fragment], before: Sequence[Field], after: Sequence[Field]
) -> list[MergeConflict]:
    """Structs of new rows that would become null, as the other side dropped the last field that the rows have."""
    if before == after or all(entry.parent_id < 0 for entry in after):
        return []
    found: defaultdict[str, list[int]] = defaultdict(list)
    known: dict[frozenset[int], list[str]] = {}
    for fragment in rows:
        stored = frozenset(key for file in fragment.files for key in file.fields)
        if stored not in known:
            known[stored] = loses_structs(before, after, stored)
        for name in known[stored]:
            found[name].append(fragment.id)
    why = "lost, on one side, all fields that the other side's new rows have in it, so they would become null"
    return [sides.conflict(f"column '{name}' {why}", ids) for name, ids in found.items()]


def _writes(side: Delta, base: Snapshot) -> bool:
    """Whether a side has values that the base did not have."""
    return bool(side.added) or any(not same_files(before, after, base.live) for before, after in side.changed)


# --- Contested fragments

InOurs = Callable[[Iterable[Fragment]], Mapping[int, Fragment]]
"""Fragments of the base as the chain of ours has them, by their ids in the chain of theirs."""


def contest(sides: Sides, ours: Delta, theirs: Delta, in_ours: InOurs) -> Contest | None:
    """The fragments to follow row by row; None if comparing fragments is enough.

    Fragments connected by compactions stay together: the result takes the layout of theirs or keeps that of ours.
    """
    if sides.is_fast_forward or not sides.rewrites:
        return None
    connected = Connected(sides.rewrites)
    changed = [*theirs.changed, *((before, None) for before in theirs.removed)]
    touched = [(before, after, group) for before, after in changed if (group := connected.group(before)) is not None]
    if not touched:
        return None
    bases = in_ours([before for before, _, _ in touched])
    here = {before.id for before, _ in ours.changed} | {fragment.id for fragment in ours.removed}
    moved = {connected.group(entry) for entry in (*ours.removed, *ours.added, *theirs.removed, *theirs.added)}
    groups = {
        group
        for before, _, group in touched
        if group in moved and ((base := bases.get(before.id)) is None or base.id in here)
    }
    if not groups:
        return None
    rewrites = connected.of(groups)
    pairs = [
        BasePair(before, bases.get(before.id, before), after) for before, after, group in touched if group in groups
    ]
    paths = {path for each in rewrites for path in each.paths}
    paths |= {file.path for pair in pairs for file in pair.before.files}
    return Contest(
        pairs=tuple(pairs),
        tied=tuple(entry for entry in theirs.added if connected.group(entry) in groups),
        ours=tuple(sides.ours.contents.fragments_with(paths)),
        theirs=tuple(sides.theirs.contents.fragments_with(paths)),
        rewrites=rewrites,
    )


# --- Three-way comparison of fragments, by the matrix in ``change_rules.py``

_ROWS = frozenset({FragmentChange.ROWS_DELETED, FragmentChange.ROWS_UPDATED})
_OF_ROWS = (OTHER_ROWS, GONE_OURS, GONE_THEIRS)
"""Decisions about single rows, which may be settled for each of them."""


def merge_fragments(sides: Sides, ours: Delta, theirs: Delta) -> MergeChange:
    """The fragments of theirs that ours takes, and what prevents it."""
    replaced: list[Replacement] = []
    removed: list[tuple[Fragment, Fragment]] = []
    reasons: defaultdict[str, list[int]] = defaultdict(list)
    added, reasons["both sides have the same new rows and changed them"] = _added(sides, ours, theirs)
    contested = contest(sides, ours, theirs, lambda fragments: _in_ours(sides, [*fragments]))
    aside = {pair.before.id for pair in contested.pairs} if contested is not None else set()
    cells: list[CellPair] = []
    for meeting in _meetings(sides, ours, theirs):
        if meeting.before.id in aside:
            continue
        clashes = [decision.reason for decision in meeting.decisions if meeting.clashes(decision)]
        pair = meeting.cells
        if pair is not None:
            cells.append(pair)
            continue
        for reason in clashes:
            reasons[reason].append((meeting.ours or meeting.before).id)
        if not clashes and meeting.ours is not None:
            if meeting.theirs is None:
                removed.append((meeting.before, meeting.ours))
            elif FragmentChange.UNCHANGED not in meeting.kinds_of_theirs:
                replaced.append(meeting.replacement(meeting.ours, meeting.theirs))
    conflicts = [sides.conflict(reason, fragments) for reason, fragments in reasons.items() if fragments]
    return MergeChange(
        tuple(added),
        tuple(replaced),
        tuple(removed),
        conflicts=tuple(conflicts),
        contest=contested,
        cells=tuple(cells),
    )


@dataclass(frozen=True)
class _Meeting:
    """A fragment of the base that theirs changed or removed, in each version; None where it is gone."""

    sides: Sides
    before: Fragment
    """In the base, as the chain of theirs has it."""
    theirs: Fragment | None
    base: Fragment
    """In the base, as the chain of ours has it."""
    ours: Fragment | None

    @cached_property
    def kinds_of_theirs(self) -> set[FragmentChange]:
        """What theirs did, except for changes that ours also made."""
        sides = self.sides
        versions = _Versions(self.before, self.theirs, self.ours, sides.base_theirs.live, sides.theirs, sides.ours)
        return versions.kinds(sides.their_steps)

    @cached_property
    def kinds_of_ours(self) -> set[FragmentChange]:
        """What ours did, except for changes that theirs also made."""
        sides = self.sides
        versions = _Versions(self.base, self.ours, self.theirs, sides.base_ours.live, sides.ours, sides.theirs)
        return versions.kinds(sides.our_steps)

    @cached_property
    def decisions(self) -> list[Decision]:
        return decide(FRAGMENTS, self.kinds_of_theirs, self.kinds_of_ours)

    def clashes(self, decision: Decision) -> bool:
        """Whether a decision is a conflict. Whether rows differ shows only in deletion files, which are read later."""
        return decision.is_conflict or (decision == OTHER_COLUMNS and self._wrote_the_same_column())

    @property
    def cells(self) -> CellPair | None:
        """What is left to be decided cell by cell; None if nothing is, or if something never combines.

        By rows, what is left is only whether a column was computed from another one that the other side wrote.
        """
        sides = self.sides
        in_place = OTHER_COLUMNS in self.decisions and self._wrote_columns_of_the_base()
        in_place = in_place and (sides.by_cells or sides.settling or not self._wrote_the_same_column())
        open_ones = [
            each
            for each in self.decisions
            if ((sides.by_cells or sides.settling) and each.by_cells)
            or (in_place and each == OTHER_COLUMNS)
            or (sides.settling and each in _OF_ROWS)
        ]
        if not open_ones:
            return None
        if any(self.clashes(each) and each not in open_ones for each in self.decisions) or self._added_alike():
            return None
        return CellPair(
            before=self.before,
            base=self.base,
            ours=self.ours,
            theirs=self.theirs,
            reason=open_ones[0].reason,
            wrote_ours=FragmentChange.COLUMNS_WRITTEN in self.kinds_of_ours,
            wrote_theirs=FragmentChange.COLUMNS_WRITTEN in self.kinds_of_theirs,
            is_strict=not sides.by_cells or any(each in _OF_ROWS for each in open_ones),
        )

    def _wrote_the_same_column(self) -> bool:
        return bool(self._written_twice())

    def _written_twice(self) -> set[int]:
        if self.ours is None or self.theirs is None:
            return set()
        names = {entry.id: entry.name for entry in self.sides.ours.contents.fields}
        # Two columns added on both sides may have the same id.
        shared = {entry.id for entry in self.sides.theirs.contents.fields if names.get(entry.id) == entry.name}
        ours, theirs = _written(self.base, self.ours), _written(self.base, self.theirs)
        return {key for key in (ours.keys() & theirs.keys() & shared) - self.sides.agreed if ours[key] != theirs[key]}

    def _added_alike(self) -> bool:
        """Whether both sides wrote a column that the base does not have."""
        return not self._written_twice() <= self.sides.base_ours.live

    def _wrote_columns_of_the_base(self) -> bool:
        """Whether a side wrote a column in place that the other one may have read, or written too."""
        live = self.sides.base_ours.live
        sides = (entry for entry in (self.ours, self.theirs) if entry is not None)
        return any(not live.isdisjoint(_written(self.base, entry)) for entry in sides)

    def replacement(self, ours: Fragment, theirs: Fragment) -> Replacement:
        return Replacement(
            base=self.base,
            ours=ours,
            theirs=theirs,
            files=FragmentChange.COLUMNS_WRITTEN in self.kinds_of_theirs,
            deletion=bool(_ROWS & self.kinds_of_theirs),
            both_deleted=any(decision.if_other_rows for decision in self.decisions),
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
        """What the side did to it, by ``steps``, except for changes that the other side also made."""
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
    """Columns whose values a side's files can confirm: a column that the side dropped is not a missing one."""
    return live_in_base | side.live


def _added(sides: Sides, ours: Delta, theirs: Delta) -> tuple[list[Fragment], list[int]]:
    """New fragments of theirs, and ids of those that ours already took over and one side changed since."""
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
    """A fragment of the base that ours did not change. Only its id may differ in ours."""
    if sides.base_ours.bases == sides.ours.bases:
        return base
    return sides.ours.contents.fragments_with({file.path for file in base.files})[0]


def _written(base: Fragment, side: Fragment) -> dict[int, str]:
    """Fields that a side wrote or added in a fragment, with their files."""
    every = frozenset(field for file in side.files for field in file.fields if field >= 0)
    before = columns(base, every)
    return {key: path for key, path in columns(side, every).items() if before.get(key) != path}


# --- The comparison of the table as a whole

BROUGHT_BEFORE = (
    "rows that one side compacted are already in the other one, and no version records which merge brought them"
)
NO_VALUES_OURS = "rows that '{}' added have no values in new columns"
NO_VALUES_THEIRS = "rows of '{}' have no values in columns that were added since"
TAKEN_BEFORE = "rows that were picked, reverted or restored may be on both sides under other names"


_UNKNOWN = "and the versions that show whether it was compacted or replaced are gone"


def compare(sides: Sides) -> MergeChange:
    """What ours takes from theirs, and what prevents it."""
    if sides.is_up_to_date:
        return MergeChange()
    ours, theirs = delta(sides.base_ours, sides.ours), delta(sides.base_theirs, sides.theirs)
    if not ours and sides.fields[1] == sides.fields[0]:
        # Whatever ours did, it has the rows and columns of the base. Its fragments may have other ids by now, so the
        # delta's ids of the base must not be looked up among those of ours.
        sides, ours = replace(sides, base_ours=sides.ours), Delta()
    change, schema = merge_fragments(sides, ours, theirs), merge_schema(sides, ours, theirs)
    conflicts = [*change.conflicts, *schema.conflicts]
    if not sides.is_fast_forward:
        # A contest leaves open which fragments are added.
        conflicts += taken_before(sides, change) if change.contest is None else []
        conflicts += _overwrites(sides, ours, theirs)
        conflicts += _brought_before(sides, ours, change)
    return replace(
        change,
        columns=schema.columns,
        columns_of_theirs=schema.columns_of_theirs,
        conflicts=tuple(conflicts),
        notes=(*_notes(sides, schema, ours), *(rows_without_values(sides, change) if change.contest is None else ())),
    )


def taken_before(sides: Sides, change: MergeChange) -> list[MergeConflict]:
    """Rows that ours may already have in other files: the result would contain them twice.

    The change has no contest at this point, and what is still new in it is in no file of ours. Ours may have the rows
    nevertheless, if one side took them from the other and either rewrote or deleted rows since.
    """
    if sides.is_up_to_date or sides.is_fast_forward:
        return []
    if _has_twins(sides, change) or (change.added and _is_hidden(sides)):
        return [sides.conflict(TAKEN_BEFORE)]
    return []


def _brought_before(sides: Sides, ours: Delta, change: MergeChange) -> list[MergeConflict]:
    """Files that both sides name and the base does not, while a compaction of one side replaced them.

    Ours got them in a merge that is forgotten: its version was cleaned up and the merged branch was deleted. By file
    names alone, the compacted rows would look new.
    """
    if not (change.added and ours.added and sides.rewrites):
        return []
    here = {path for each in sides.our_steps.rewrites for path in each.paths} | _paths(ours.added)
    both = here & _made_from(change.added, sides.their_steps.rewrites)
    if both:
        # What was compacted into a file of the base is in the base, whatever else the sides record of it.
        touched = {path for each in sides.rewrites for path in each.paths} | both
        both -= _made_from(sides.base_theirs.contents.fragments_with(touched), sides.rewrites)
    return [sides.conflict(BROUGHT_BEFORE)] if both else []


def _made_from(fragments: Iterable[Fragment], rewrites: Iterable[Rewrite]) -> set[str]:
    """The files of some fragments, and of those that were compacted into them."""
    found: set[str] = set()
    more = _paths(fragments)
    while more:
        found |= more
        more = {
            path for each in rewrites if not found.isdisjoint(_paths(each.new)) for path in _paths(each.old)
        } - found
    return found


def _paths(fragments: Iterable[Fragment]) -> set[str]:
    return {file.path for entry in fragments for file in entry.files}


def _is_hidden(sides: Sides) -> bool:
    """Whether rows that one side got from a cherry-pick, revert or restore may be on both sides."""
    if sides.unshared:
        return False
    own = sides.ours.root == sides.theirs.root and sides.our_steps.changed_after(sides.theirs.pin.version)
    # A revert brings back rows that the base deleted. Ours can have them only if they were brought back before.
    own = own and (sides.our_steps.brings or not sides.our_steps.complete or not sides.is_backwards)
    return own or sides.our_steps.may_hide(sides.their_steps) or sides.their_steps.may_hide(sides.our_steps)


def _has_twins(sides: Sides, change: MergeChange) -> bool:
    """Whether a single version may bring rows that ours has from versions common to both."""
    kinship, brings = sides.kinship, sides.their_steps.brings
    if change.added and kinship.shares:
        return True
    if kinship.has_base:
        return False
    # Ours may still have rows that were deleted before the base. Theirs may have restored them to an even older state.
    back = any(each.deletion and each.base.deletion is not None for each in change.replaced)
    if brings and (change.added or back) and kinship.earlier.changes_rows:
        return True
    return bool(change.added) and sides.is_backwards and (kinship.earlier.renames_rows or sides.our_steps.changes_rows)


def _overwrites(sides: Sides, ours: Delta, theirs: Delta) -> list[MergeConflict]:
    """A replaced table cannot be combined with a row or column change on the other side."""
    base, our_fields, their_fields = sides.fields
    count = sides.base_ours.contents.fragment_count
    for steps, here, is_other_changed in (
        (sides.our_steps, ours, bool(theirs) or their_fields != base),
        (sides.their_steps, theirs, bool(ours) or our_fields != base),
    ):
        name = steps.branch or MAIN
        if is_other_changed and steps.replaces_all:
            return [sides.conflict(f"'{name}' replaced the whole table")]
        whole = bool(here.removed) and len(here.removed) == count and not _has_rows(steps, here)
        if is_other_changed and not steps.complete and whole:
            return [sides.conflict(f"'{name}' no longer has any of its files, {_UNKNOWN}")]
    return []


def _has_rows(steps: Steps, side: Delta) -> bool:
    """Whether rows of files that a side no longer has are in its new ones, as compactions or values tell."""
    return len(Connected(steps.rewrites).lost(side.removed, side.added)) < len(side.removed)


def may_settle(conflicts: Iterable[MergeConflict]) -> bool:
    """Whether one of the conflicts is about rows that both sides changed, which can be compared one by one."""
    return any(any(words in conflict.reason for words in _ABOUT_ROWS) for conflict in conflicts)


def with_contested(
    conflicts: Sequence[MergeConflict], compared: Sequence[MergeConflict], rows: int = 0
) -> tuple[MergeConflict, ...]:
    """The conflicts of a plan, of which those about rows name the rows, once these were compared one by one.

    ``rows`` is how many both sides changed: compared cell by cell, they may not conflict at all.
    """
    named = [conflict for conflict in compared if conflict.count or conflict.on]
    if not named and not may_settle(compared):
        return tuple(replace(each, count=max(1, rows)) if may_settle([each]) else each for each in conflicts)
    if not named:
        return tuple(conflicts)
    others = [conflict for conflict in conflicts if not may_settle([conflict])]
    return (*named, *others)


def may_find_rows(conflicts: Iterable[MergeConflict]) -> bool:
    """Whether one of the conflicts may go once rows are found by their values."""
    return any(conflict.reason in _LOST or conflict.reason.endswith(_UNKNOWN) for conflict in conflicts)


NO_NULLS = "cannot be null"
SAME_KEY = "both sides have new rows with the same key"
TWICE = "more than one row would have the same key"
BROKEN = "would be broken by rows of {}"
NOT_CHECKED = "cannot be checked by the merge"
WRITTEN = "was dropped on one side, and the other one wrote values into it"

_LOST = frozenset({GONE_OURS.reason, GONE_THEIRS.reason})
BOTH_CHANGED = "both sides changed column '{}' of the same rows"
KEY_CHANGED = "one side changed the key column '{}' of rows of which the other changed other columns"
AMBIGUOUS = "rows with a changed key cannot be told from deleted and new ones"
OPAQUE = "both sides changed rows, whose blobs or changed structs cannot be merged cell by cell"
_ABOUT_ROWS = (
    OTHER_ROWS.reason,
    OTHER_COLUMNS.reason,
    *UPDATED,
    *_LOST,
    BOTH_CHANGED.partition("'")[0],
    AMBIGUOUS,
    OPAQUE,
    SAME_KEY,
    TWICE,
)


def _notes(sides: Sides, schema: MergeChange, ours: Delta) -> Iterator[str]:
    takes = schema.columns.add or schema.columns_of_theirs
    if ours.added and takes and has_no_default(sides.theirs, sides.theirs.live - sides.base_theirs.live):
        yield NO_VALUES_OURS.format(sides.our_steps.branch or MAIN)


def rows_without_values(sides: Sides, change: MergeChange) -> tuple[str, ...]:
    """A note if a change without contests brings rows that lack columns of ours."""
    if not (change.added and has_no_default(sides.ours, sides.ours.live - sides.base_ours.live - sides.theirs.live)):
        return ()
    return (NO_VALUES_THEIRS.format(sides.their_steps.branch or MAIN),)


def has_no_default(side: Snapshot, ids: Collection[int]) -> bool:
    """Whether one of some columns, or fields inside of them, has no default, so that rows without it have null."""
    return any(entry.id in ids and default_in(entry) is None for entry in side.contents.fields)


# --- The columns of the result, and which rows may not fit them


class ResultField(NamedTuple):
    """A column of the result, or a field inside one."""

    path: tuple[str, ...]
    """Names in the result, from the column down."""
    field: Field
    ours: Field | None
    """The same field in ours; None if ours does not have it."""
    theirs: Field | None

    @property
    def name(self) -> str:
        return ".".join(self.path)

    def on(self, side: Side) -> Field | None:
        """The same field on a side; None if it does not have it."""
        return self.ours if side == OURS else self.theirs


def result_fields(sides: Sides, change: MergeChange) -> tuple[ResultField, ...]:
    """The fields of the result, parents first."""
    base, ours, theirs = sides.fields
    if change.columns_of_theirs:
        return tuple(_beside(theirs, _counterparts(ours, theirs, base), {entry.id: entry for entry in theirs}))
    there = _counterparts(theirs, ours, base)
    found = [*_beside([*_changed(ours, theirs, change)], {entry.id: entry for entry in ours}, there)]
    new = [tree for tree in trees(theirs).values() if tree[0].name in change.columns.add]
    for tree in new:
        found += _beside(tree, {}, {entry.id: entry for entry in tree})
    return tuple(found)


def _counterparts(side: Sequence[Field], other: Sequence[Field], base: Sequence[Field]) -> dict[int, Field]:
    """The fields of a side by the ids of the other side's. Two new ones are the same only if they look the same."""
    common, known = {entry.id for entry in base}, {entry.id: entry for entry in side}
    pairs = ((entry, known[entry.id]) for entry in other if entry.id in known)
    return {
        entry.id: found
        for entry, found in pairs
        if entry.id in common or (entry.name, entry.type) == (found.name, found.type)
    }


def _changed(ours: Sequence[Field], theirs: Sequence[Field], change: MergeChange) -> Iterator[Field]:
    """The fields of ours that stay, with the changes of theirs."""
    columns = change.columns
    names, nullable, comments = dict(columns.rename), dict(columns.nullable), dict(columns.comment)
    other, inside = trees(theirs), {entry.column for entry in columns.inner}
    for key, tree in trees(ours).items():
        if tree[0].name in columns.drop:
            continue
        if key in inside:
            tree = (tree[0], *other[key][1:])
        column = names.get(tree[0].name, tree[0].name)
        for entry, path in zip(tree, paths(tree).values(), strict=True):
            where = ".".join((column, *path[1:]))
            changed = entry._replace(
                nullable=nullable.get(where, entry.nullable), metadata=comments.get(where, entry.metadata)
            )
            yield changed._replace(name=column) if entry is tree[0] else changed


def _beside(fields: Sequence[Field], ours: Mapping[int, Field], theirs: Mapping[int, Field]) -> Iterator[ResultField]:
    for entry, path in zip(fields, paths(fields).values(), strict=True):
        yield ResultField(path, entry, ours.get(entry.id), theirs.get(entry.id))


def paths(fields: Sequence[Field]) -> dict[int, tuple[str, ...]]:
    """The names of each field, from its column down, by id."""
    found: dict[int, tuple[str, ...]] = {}
    for entry in fields:
        found[entry.id] = (*found.get(entry.parent_id, ()), entry.name)
    return found


def check_taken(sides: Sides, change: MergeChange) -> None:
    """Raise NotCommittable for a new column, or field inside one, under the name of another one in ours.

    That one goes or gets another name in theirs. A Merge of pylance 14 takes both at once only if each fragment has the
    new values in a file.
    """
    mine = set(paths(sides.ours.contents.fields).values())
    new = [entry for entry in result_fields(sides, change) if entry.ours is None and entry.path in mine]
    ids = {entry.field.id: entry for entry in new if entry.field.type != "struct"}
    if not ids:
        return
    kept = {each.ours.id: each for each in change.replaced if each.files}
    gone = {ours.id for _, ours in change.removed}
    written = [set[int]() for entry in sides.ours.contents.fragments() if entry.id not in gone and entry.id not in kept]
    for fragment in (*change.added, *(each.theirs for each in kept.values())):
        written.append({key for file in fragment.files for key in file.fields})
    for key, entry in ids.items():
        if any(key not in fields for fields in written):
            raise NotCommittable(
                f"Column '{entry.name}' of {sides.ours.pin} is dropped or renamed, and another one is added under its "
                "name; pylance cannot commit both at once.",
                hint=f"Merge in two steps: first a version in which '{entry.name}' is free, then the branch.",
            )


# --- Nulls


class NullChange(NamedTuple):
    """Fields of ours that become nullable, or no longer are. pylance commits it only as a version of its own."""

    fields: tuple[tuple[str, bool], ...] = ()
    """(path in ours, with dots; whether it may be null)."""
    is_all: bool = False
    """Whether the replay changes nothing else."""
    are_columns: bool = False
    """Whether it changes nothing else about columns."""


def null_change(sides: Sides, change: MergeChange, fields: Sequence[ResultField]) -> NullChange:
    """What a replay changes about which fields may be null."""
    own, path_of = sides.ours.contents.fields, paths(sides.ours.contents.fields)
    pairs = [(entry.ours, entry.field) for entry in fields if entry.ours is not None]
    changed = tuple((".".join(path_of[one.id]), new.nullable) for one, new in pairs if one.nullable != new.nullable)
    rows = change.added or change.replaced or change.removed or change.followed.deletions
    alike = len(fields) == len(pairs) == len(own) and all(
        one._replace(nullable=new.nullable) == new for one, new in pairs
    )
    return NullChange(changed, not rows and alike, alike)


def strict_fields(fields: Iterable[ResultField], side: Side) -> list[ResultField]:
    """Fields that cannot be null in the result, although new rows of a side may have nulls there."""
    found = []
    for entry in fields:
        own = entry.on(side)
        if not entry.field.nullable and (own is None or own.nullable):
            found.append(entry)
    return found


def without_nulls(change: MergeChange, nulls: NullChange) -> MergeChange:
    """What is left of a change once a version of its own has changed which fields may be null."""
    if not nulls.fields or nulls.is_all:
        return change
    if not change.columns_of_theirs:
        return replace(change, columns=replace(change.columns, nullable=()))
    return replace(change, columns_of_theirs=not nulls.are_columns)


def lacking(values: pa.Array, path: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which rows of a column have no value in the field with that path, although everything around it has one.

    A field that the column does not have lacks a value wherever the struct around it is not null.
    """
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    here: npt.NDArray[np.bool_] = np.asarray(values.is_null())
    if not path:
        return here
    kind, rest = values.type, path[1:]
    if pt.is_struct(kind):
        at = kind.get_field_index(path[0])
        inside = lacking(values.field(at), rest) if at >= 0 else np.ones(len(values), np.bool_)
        return ~here & inside
    if is_list(kind):
        items, parents = values.flatten(), np.asarray(pc.list_parent_indices(values))
        found = np.zeros(len(values), np.bool_)
        found[parents[lacking(items, rest)]] = True
        return found
    return np.zeros(len(values), np.bool_)


# --- Keys


class KeyQuestion(NamedTuple):
    """Which rows may have a key twice."""

    columns: tuple[ResultField, ...]
    ours_vouches: bool
    """Whether ours declares the key, or a part of it: then no two of its rows have the same one."""
    theirs_vouches: bool

    def paths(self, side: Side, fields: Sequence[Field]) -> list[tuple[str, ...]]:
        """The fields of the key, from the column down, as a side calls them."""
        known = paths(fields)
        return [known[field.id] for entry in self.columns if (field := entry.on(side)) is not None]

    def ids(self, side: Side) -> list[int]:
        return [field.id for entry in self.columns if (field := entry.on(side)) is not None]


def key_question(fields: Sequence[ResultField], sides: Sides) -> KeyQuestion | None:
    """The key of the result, and who vouches for it; None if the result has no key, or lacks it on a side."""
    key = key_fields([entry.field for entry in fields])
    columns = tuple(entry for entry in fields if entry.field in key)
    if not columns or any(entry.ours is None or entry.theirs is None for entry in columns):
        return None
    _, ours, theirs = sides.fields
    return KeyQuestion(
        columns,
        _vouches(ours, {entry.ours.id for entry in columns if entry.ours}),
        _vouches(theirs, {entry.theirs.id for entry in columns if entry.theirs}),
    )


def _vouches(fields: Sequence[Field], ids: Collection[int]) -> bool:
    own = {field.id for field in key_fields(fields)}
    return bool(own) and own <= set(ids)


def key_hashes(batch: pa.RecordBatch, names: Iterable[str | tuple[str, ...]], types: Sequence[pa.DataType]) -> Hashes:
    """A number for the key of each row, the same on both sides; a part is a column, or a path from a column down."""
    columns = [_at(batch, (name,) if isinstance(name, str) else name) for name in names]
    alike = [column.cast(kind) if column.type != kind else column for column, kind in zip(columns, types, strict=True)]
    return hash_rows(alike, batch.num_rows)


def type_at(schema: pa.Schema, path: Sequence[str]) -> pa.DataType:
    """The type of a field, given from its column down."""
    kind = schema.field(path[0]).type
    for name in path[1:]:
        kind = kind.field(name).type
    return kind


def _at(batch: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    column = batch.column(batch.schema.get_field_index(path[0]))
    return pc.struct_field(column, [*path[1:]]) if path[1:] else column


class KeyCounts:
    """Counts how often some keys occur, without keeping the others."""

    def __init__(self, keys: Hashes) -> None:
        self._keys = np.unique(keys)
        self._counts = np.zeros(len(self._keys), np.int64)

    def add(self, keys: Hashes) -> None:
        if len(self._keys):
            at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            self._counts += np.bincount(at[self._keys[at] == keys], minlength=len(self._keys))

    def above(self, limit: int) -> Hashes:
        """Those that occur more often than that."""
        return self._keys[self._counts > limit]


Addressed = tuple[Hashes, npt.NDArray[np.int64]]
"""Keys of rows, and the addresses of these."""


def twins(ours: Addressed, theirs: Addressed) -> npt.NDArray[np.int64]:
    """The addresses of rows with one key, in ours and in theirs; nothing if a side has a key twice."""
    keys, places = [], []
    for own, addresses in (ours, theirs):
        names, first = np.unique(own, return_index=True)
        if len(names) < len(own):
            return np.zeros((0, 2), np.int64)
        keys.append(names)
        places.append(addresses[first])
    _, one, other = np.intersect1d(keys[0], keys[1], return_indices=True)
    return np.column_stack([places[0][one], places[1][other]])


# --- Columns that the result lacks


class LostField(NamedTuple):
    """A column of a side, or a field inside one, that the other side dropped."""

    path: tuple[str, ...]
    """In the side that still has it."""
    ids: frozenset[int]
    """Of the field and of everything inside it."""

    @property
    def name(self) -> str:
        return ".".join(self.path)

    def in_version(self, fields: Sequence[Field]) -> LostField:
        """The same field under its names in another version, in which it may have others."""
        known = paths(fields)
        there = (known[entry.id] for entry in fields if entry.id in self.ids and entry.parent_id not in self.ids)
        return self._replace(path=next(there, self.path))


def lost_fields(sides: Sides, fields: Sequence[ResultField], side: Side) -> list[LostField]:
    """What a side has and the result does not: only the outermost field, and none that was cast."""
    own = sides.ours.contents.fields if side == OURS else sides.theirs.contents.fields
    kept = {found.id for entry in fields if (found := entry.on(side)) is not None}
    named, path_of = {entry.path for entry in fields}, paths(own)
    parents = {entry.id: entry.parent_id for entry in own}
    lost: dict[int, set[int]] = {}
    outermost: dict[int, int] = {}
    for entry in own:
        above = outermost.get(entry.parent_id)
        if above is None and (entry.id in kept or path_of[entry.id] in named):
            continue
        outermost[entry.id] = entry.id if above is None else above
        lost.setdefault(outermost[entry.id], set()).add(entry.id)
    return [LostField(path_of[key], frozenset(ids)) for key, ids in lost.items() if parents[key] in (-1, *kept)]


def value_hashes(values: pa.Array, path: Sequence[str]) -> tuple[Hashes, npt.NDArray[np.bool_]]:
    """A number for each row's value in a field of a column, and which rows have one.

    Inside lists the whole list counts.
    """
    for name in path:
        if not pt.is_struct(values.type):
            break
        values = pc.struct_field(values, [name])
    return hash_rows([values], len(values)), np.asarray(values.is_valid())


def beyond(new: Hashes, old: Hashes) -> npt.NDArray[np.bool_]:
    """Which of the new numbers are not, as often, among the old ones: an update that keeps a value has it in both."""
    names, place, counts = np.unique(new, return_inverse=True, return_counts=True)
    known, times = np.unique(old, return_counts=True)
    at = np.minimum(np.searchsorted(known, names), max(0, len(known) - 1))
    before = np.where(known[at] == names, times[at], 0) if len(known) else np.zeros(len(names), np.int64)
    found: npt.NDArray[np.bool_] = (counts > before)[place]
    return found
