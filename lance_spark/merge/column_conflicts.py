"""The three-way comparison of columns, together with the rows that have values in them. Pure."""

from __future__ import annotations

from lance_spark.merge.change import MergeChange, MergeConflict, Sides
from lance_spark.merge.columns import cast_columns, merge_columns, renumbered
from lance_spark.merge.delta import Delta
from lance_spark.merge.field_ids import are_free, reused
from lance_spark.merge.snapshot import Snapshot, same_files

_OTHER_ID = "was given another id by an earlier merge"


def merge_schema(sides: Sides, our_rows: Delta, their_rows: Delta) -> MergeChange:
    """What ours has to take of the columns of theirs, and what stands against it."""
    before, ours, theirs = sides.fields
    conflicts = _uncommittable(sides) if sides.is_fast_forward else _unreadable(sides, our_rows, their_rows)
    if theirs in (ours, before):
        return MergeChange(conflicts=tuple(conflicts))
    if ours == before and are_free(sides.theirs.live - sides.base_theirs.live, sides.ours):
        if our_rows.added:
            conflicts += strict_columns(sides, sides.theirs, "ours")
        return MergeChange(columns_of_theirs=True, conflicts=tuple(conflicts))
    merged = merge_columns(before, ours, theirs)
    conflicts += [sides.conflict(reason) for reason in merged.conflicts]
    return MergeChange(columns=merged.changes, conflicts=tuple(conflicts))


def _uncommittable(sides: Sides) -> list[MergeConflict]:
    """Columns that have another id in theirs, where some rows have no values in them: pylance refuses that."""
    before, _, theirs = sides.fields
    names = renumbered(before, theirs)
    if not names:
        return []
    ids = {entry.id: entry.name for entry in theirs if entry.name in names and entry.parent_id < 0}
    written = [{key for file in entry.files for key in file.fields} for entry in sides.theirs.contents.fragments()]
    lacking = {name for key, name in ids.items() if any(key not in fields for fields in written)}
    return [sides.conflict(f"column '{name}' {_OTHER_ID}") for name in sorted(lacking)]


def strict_columns(sides: Sides, side: Snapshot, without: str) -> list[MergeConflict]:
    """A new column that cannot be null, where the other side has new rows, which have no values in it."""
    other = sides.theirs if side is sides.ours else sides.ours
    known = {(entry.id, entry.name) for entry in other.contents.fields}
    strict = sorted(
        entry.name
        for entry in side.contents.fields
        if not entry.nullable and entry.id not in sides.base_ours.live and (entry.id, entry.name) not in known
    )
    return [sides.conflict(f"column '{name}' cannot be null, and {without} has rows without it") for name in strict]


def _unreadable(sides: Sides, our_rows: Delta, their_rows: Delta) -> list[MergeConflict]:
    """Columns whose values on the other side would read as null, or as those of another column."""
    before, ours, theirs = sides.fields
    moved = {*renumbered(before, ours), *renumbered(before, theirs)}
    cast = cast_columns(before, theirs) if our_rows else []
    cast += cast_columns(before, ours) if their_rows else []
    dropped = reused(sides.base_ours, sides.ours, sides.our_steps) if _writes(their_rows, sides.base_theirs) else []
    dropped += reused(sides.base_theirs, sides.theirs, sides.their_steps) if _writes(our_rows, sides.base_ours) else []
    reasons = (
        (_OTHER_ID, moved),
        ("was cast on one side and rows changed on the other", {*cast} - moved),
        ("was dropped on one side, where its id is another column's now, and written on the other", {*dropped} - moved),
    )
    return [sides.conflict(f"column '{name}' {why}") for why, names in reasons for name in sorted(names)]


def _writes(side: Delta, base: Snapshot) -> bool:
    """Whether a side has values that it did not have in the base."""
    return bool(side.added) or any(not same_files(before, after, base.live) for before, after in side.changed)
