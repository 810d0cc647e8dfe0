r"""The three-way comparison: what theirs changed since the base, and whether ours can take it.

The conflict matrix (docs/branches-and-merges.md, "What conflicts"), by fragment of the base:

    theirs \ ours       unchanged   rows deleted            columns written        gone
    unchanged          ours        ours                   ours                   ours
    rows deleted       theirs      both, if other rows    both, if only deleted  conflict
    columns written    theirs      both, if only deleted  both, if other columns conflict
    gone               theirs      conflict               conflict               conflict

An updated row is a deleted one and a new one. So where rows may have been updated, and not only deleted, they do not
combine with written columns: the new copy of the row would lack the other side's value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from lance_spark.manifest.contents import Contents, Fragment
from lance_spark.merge.change import MergeChange, MergeConflict, Replacement, Sides
from lance_spark.merge.columns import cast_columns, merge_columns, renumbered
from lance_spark.merge.delta import Delta, by_file, counterpart, delta
from lance_spark.merge.field_ids import are_free, reused
from lance_spark.merge.snapshot import Snapshot, columns, same_deletion, same_files
from lance_spark.refs.names import MAIN


def compare(sides: Sides) -> MergeChange:
    """What ours has to take of theirs, and what stands against it."""
    if sides.theirs.pin.reference == sides.base_theirs.pin.reference and sides.theirs.root == sides.base_theirs.root:
        return MergeChange()
    mine, other = delta(sides.base_ours, sides.ours), delta(sides.base_theirs, sides.theirs)
    if not mine and sides.ours.contents.fields == sides.base_ours.contents.fields:
        sides = replace(sides, base_ours=sides.ours)  # whatever ours did, it has the rows and columns of the base
    added, conflicts = _added(sides, mine, other)
    replaced, more = _replaced(sides, mine, other)
    removed, still_more = _removed(sides, mine, other)
    conflicts += more + still_more
    change, of_columns = _columns(sides, mine, other)
    conflicts += of_columns
    if added:
        conflicts += _strict(sides, sides.ours, "theirs")
    if added and not sides.is_fast_forward:
        conflicts += _taken_before(sides)
    if not sides.is_fast_forward:
        conflicts += _overwrites(sides, mine, other)
    return MergeChange(
        added=tuple(added),
        replaced=tuple(replaced),
        removed=tuple(removed),
        columns=change.columns,
        columns_of_theirs=change.columns_of_theirs,
        conflicts=tuple(conflicts),
        notes=_notes(sides, change, mine, other),
    )


def _added(sides: Sides, mine: Delta, other: Delta) -> tuple[list[Fragment], list[MergeConflict]]:
    """What theirs added, but for what ours has as well: it was merged, pushed or picked before."""
    known = by_file(mine.added)
    added, clashing = [], []
    for fragment in other.added:
        twin = counterpart(fragment, known)
        if twin is None:
            added.append(fragment)
        elif not (same_files(twin, fragment, sides.theirs.live) and same_deletion(twin, fragment)):
            clashing.append(twin.id)
    return added, _about(sides, "both sides have the same new rows and changed them", clashing)


def _taken_before(sides: Sides) -> list[MergeConflict]:
    """Rows that one side took from the other by a pick or the like, and wrote anew since.

    They lie in other files on either side, so nothing tells that they are the same: they would be there twice.
    """
    own = sides.ours.root == sides.theirs.root and sides.our_steps.changed_after(sides.theirs.pin.version)
    hidden = sides.our_steps.may_hide(sides.their_steps) or sides.their_steps.may_hide(sides.our_steps)
    if own or hidden:
        return [_conflict(sides, "rows that were picked, reverted or restored may be on both sides under other names")]
    return []


def _replaced(sides: Sides, mine: Delta, other: Delta) -> tuple[list[Replacement], list[MergeConflict]]:
    gone = {fragment.id for fragment in mine.removed}
    mine_changed = {before.id: after for before, after in mine.changed}
    base_of = _in_ours(sides, [before for before, _ in other.changed])
    replaced, conflicts = [], []
    for before, theirs in other.changed:
        base = base_of.get(before.id)
        if base is None or base.id in gone:
            conflicts += _about(sides, "rows that ours rewrote or removed were changed", [before.id])
            continue
        ours = mine_changed.get(base.id)
        wanted = Replacement(
            base=base,
            ours=ours or _as_in_ours(sides, base),
            theirs=theirs,
            files=not same_files(before, theirs, sides.theirs.live),
            deletion=not same_deletion(before, theirs),
        )
        if ours is None:
            replaced.append(wanted)
        else:
            found, more = _combined(sides, wanted)
            replaced += found
            conflicts += more
    return replaced, conflicts


def _combined(sides: Sides, wanted: Replacement) -> tuple[list[Replacement], list[MergeConflict]]:
    """A fragment that both sides changed."""
    base, ours, theirs = wanted.base, wanted.ours, wanted.theirs
    live = sides.ours.live
    wrote, deleted = not same_files(base, ours, live), not same_deletion(base, ours)
    same_now = same_files(ours, theirs, sides.theirs.live), same_deletion(ours, theirs)
    files, deletion = wanted.files and not same_now[0], wanted.deletion and not same_now[1]
    if not files and not deletion:
        return [], []
    if files and wrote and _written(base, ours) & _written(base, theirs) & _shared(sides):
        return [], _about(sides, "both sides wrote the same column of the same rows", [ours.id])
    if files and deleted and not same_now[1] and not sides.our_steps.moves_no_rows:
        return [], _about(sides, "ours updated rows of which theirs wrote a column", [ours.id])
    if deletion and wrote and not same_files(ours, theirs, live) and not sides.their_steps.moves_no_rows:
        return [], _about(sides, "theirs updated rows of which ours wrote a column", [ours.id])
    return [Replacement(base, ours, theirs, files, deletion, both_deleted=deletion and deleted)], []


def _removed(sides: Sides, mine: Delta, other: Delta) -> tuple[list[tuple[Fragment, Fragment]], list[MergeConflict]]:
    """What theirs removed: all its rows were deleted, or written anew elsewhere."""
    gone = {fragment.id for fragment in mine.removed}
    changed = {before.id for before, _ in mine.changed}
    base_of = _in_ours(sides, other.removed)
    removed, clashing = [], []
    for fragment in other.removed:
        base = base_of.get(fragment.id)
        if base is None or base.id in gone or base.id in changed:
            clashing.append(fragment.id)
        else:
            removed.append((fragment, _as_in_ours(sides, base)))
    return removed, _about(sides, "both sides changed rows that theirs rewrote or removed", clashing)


def _shared(sides: Sides) -> set[int]:
    """Field ids that mean one column on both sides: two that were added meanwhile may have the same id."""
    names = {entry.id: entry.name for entry in sides.ours.contents.fields}
    return {entry.id for entry in sides.theirs.contents.fields if names.get(entry.id) == entry.name}


def _in_ours(sides: Sides, fragments: Collection[Fragment]) -> dict[int, Fragment]:
    """Fragments of the base as the chain of ours has them, by their ids in the chain of theirs."""
    if sides.base_ours is sides.base_theirs:
        return {fragment.id: fragment for fragment in fragments}
    wanted = {file.path for fragment in fragments for file in fragment.files}
    known = by_file(sides.base_ours.contents.fragments_with(wanted)) if wanted else {}
    pairs = ((fragment.id, counterpart(fragment, known)) for fragment in fragments)
    return {key: found for key, found in pairs if found is not None}


def _as_in_ours(sides: Sides, base: Fragment) -> Fragment:
    """A fragment of the base that ours left alone. Only its id may be another one there."""
    if sides.base_ours.bases == sides.ours.bases:
        return base
    return sides.ours.contents.fragments_with({file.path for file in base.files})[0]


def _written(base: Fragment, side: Fragment) -> set[int]:
    """Fields that a side wrote or added in a fragment."""
    every = frozenset(field_id for file in side.files for field_id in file.fields if field_id >= 0)
    before, after = columns(base, every), columns(side, every)
    return {key for key, path in after.items() if before.get(key) != path}


def _columns(sides: Sides, mine: Delta, other: Delta) -> tuple[MergeChange, list[MergeConflict]]:
    before, ours, theirs = (side.contents.fields for side in (sides.base_theirs, sides.ours, sides.theirs))
    conflicts = [] if sides.is_fast_forward else _unreadable(sides, mine, other)
    if theirs in (ours, before):
        return MergeChange(), conflicts
    new = {entry.id for entry in theirs} - {entry.id for entry in before}
    if ours == before and are_free(new, sides.ours):
        if mine.added:
            conflicts += _strict(sides, sides.theirs, "ours")
        return MergeChange(columns_of_theirs=True), conflicts
    merged = merge_columns(before, ours, theirs)
    conflicts += [_conflict(sides, reason) for reason in merged.conflicts]
    return MergeChange(columns=merged.changes), conflicts


def _strict(sides: Sides, side: Snapshot, without: str) -> list[MergeConflict]:
    """A new column that cannot be null, where the other side has new rows, which have no values in it."""
    other = sides.theirs if side is sides.ours else sides.ours
    known = {(entry.id, entry.name) for entry in other.contents.fields}
    strict = sorted(
        entry.name
        for entry in side.contents.fields
        if not entry.nullable and entry.id not in sides.base_ours.live and (entry.id, entry.name) not in known
    )
    return [_conflict(sides, f"column '{name}' cannot be null, and {without} has rows without it") for name in strict]


def _unreadable(sides: Sides, mine: Delta, other: Delta) -> list[MergeConflict]:
    """Columns whose values on the other side would read as null, or as those of another column."""
    before, ours, theirs = (side.contents.fields for side in (sides.base_theirs, sides.ours, sides.theirs))
    moved = [*renumbered(before, ours), *renumbered(before, theirs)]
    cast = cast_columns(before, theirs) if mine else []
    cast += cast_columns(before, ours) if other else []
    gone = reused(sides.base_ours, sides.ours, sides.our_steps) if _writes(other, sides.base_theirs) else []
    gone += reused(sides.base_theirs, sides.theirs, sides.their_steps) if _writes(mine, sides.base_ours) else []
    reasons = (
        ("was given another id by an earlier merge", {*moved}),
        ("was cast on one side and rows changed on the other", {*cast} - {*moved}),
        ("was dropped on one side, where its id is another column's now, and written on the other", {*gone} - {*moved}),
    )
    return [_conflict(sides, f"column '{name}' {why}") for why, names in reasons for name in sorted(names)]


def _writes(side: Delta, base: Snapshot) -> bool:
    """Whether a side has values that it did not have in the base."""
    return bool(side.added) or any(not same_files(before, after, base.live) for before, after in side.changed)


def _overwrites(sides: Sides, mine: Delta, other: Delta) -> list[MergeConflict]:
    """A replaced table does not combine with any change of rows or columns on the other side."""
    count = sides.base_ours.contents.fragment_count
    for steps, here, changed in (
        (sides.our_steps, mine, bool(other) or sides.theirs.contents.fields != sides.base_theirs.contents.fields),
        (sides.their_steps, other, bool(mine) or sides.ours.contents.fields != sides.base_ours.contents.fields),
    ):
        name = steps.branch or MAIN
        if changed and steps.replaces_all:
            return [_conflict(sides, f"'{name}' replaced the whole table")]
        if changed and not steps.complete and here.removed and len(here.removed) == count:
            why = "and versions that would tell whether it was compacted or replaced are gone"
            return [_conflict(sides, f"'{name}' has none of its files any more, {why}")]
    return []


def _notes(sides: Sides, change: MergeChange, mine: Delta, other: Delta) -> tuple[str, ...]:
    return tuple(_each_note(sides, change, mine, other))


def _each_note(sides: Sides, change: MergeChange, mine: Delta, other: Delta) -> Iterator[str]:
    settings = _changed_settings(sides.base_theirs.contents, sides.theirs.contents)
    if settings:
        yield f"settings are not taken over: {', '.join(settings)}"
    known = {entry.id for entry in sides.base_theirs.contents.fields}
    new = {entry.id for entry in sides.theirs.contents.fields} - known
    if mine.added and (change.columns.add or (change.columns_of_theirs and new)):
        yield f"rows that '{sides.our_steps.branch or MAIN}' added meanwhile have no values in new columns"
    before = {entry.id for entry in sides.base_ours.contents.fields}
    if {entry.id for entry in sides.ours.contents.fields} - before and other.added:
        yield f"rows of '{sides.their_steps.branch or MAIN}' have no values in columns that were added meanwhile"


def _changed_settings(before: Contents, after: Contents) -> list[str]:
    """Keys of the configuration and of the table's metadata that have other values."""
    pairs = ((before.config, after.config), (before.table_metadata, after.table_metadata))
    return sorted({key for old, new in pairs for key in old.keys() | new.keys() if old.get(key) != new.get(key)})


def _conflict(sides: Sides, reason: str) -> MergeConflict:
    return MergeConflict(reason, sides.our_steps.telling(), sides.their_steps.telling())


def _about(sides: Sides, reason: str, fragments: Collection[int]) -> list[MergeConflict]:
    """A conflict about fragments; none if there are none."""
    return [replace(_conflict(sides, reason), fragments=tuple(sorted(fragments)))] if fragments else []
