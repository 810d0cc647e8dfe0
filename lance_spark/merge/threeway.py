"""The three-way comparison: what theirs changed since the base, and whether ours can take it. Pure.

Fragments are compared in ``fragments.py`` and columns in ``column_conflicts.py``, both by the matrix in ``matrix.py``.
This file decides about the table as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lance_spark.manifest.contents import Contents
from lance_spark.merge.change import MergeChange, MergeConflict, Sides
from lance_spark.merge.column_conflicts import merge_schema, strict_columns
from lance_spark.merge.delta import Delta, delta
from lance_spark.merge.fragments import merge_fragments
from lance_spark.refs.names import MAIN


def compare(sides: Sides) -> MergeChange:
    """What ours has to take of theirs, and what stands against it."""
    if sides.is_up_to_date:
        return MergeChange()
    ours, theirs = delta(sides.base_ours, sides.ours), delta(sides.base_theirs, sides.theirs)
    if not ours and sides.ours.contents.fields == sides.base_ours.contents.fields:
        sides = replace(sides, base_ours=sides.ours)  # whatever ours did, it has the rows and columns of the base
    change, schema = merge_fragments(sides, ours, theirs), merge_schema(sides, ours, theirs)
    conflicts = [*change.conflicts, *schema.conflicts]
    if change.added:
        conflicts += strict_columns(sides, sides.ours, "theirs")
    if not sides.is_fast_forward:
        conflicts += _taken_before(sides) if change.added else []
        conflicts += _overwrites(sides, ours, theirs)
    return replace(
        change,
        columns=schema.columns,
        columns_of_theirs=schema.columns_of_theirs,
        conflicts=tuple(conflicts),
        notes=tuple(_notes(sides, schema, ours, theirs)),
    )


def _taken_before(sides: Sides) -> list[MergeConflict]:
    """Rows that one side took from the other by a cherry-pick, revert or restore, and that were rewritten since.

    The two sides have them in different files, so nothing shows that they are the same: the result would have both.
    """
    own = sides.ours.root == sides.theirs.root and sides.our_steps.changed_after(sides.theirs.pin.version)
    hidden = sides.our_steps.may_hide(sides.their_steps) or sides.their_steps.may_hide(sides.our_steps)
    if own or hidden:
        return [sides.conflict("rows that were picked, reverted or restored may be on both sides under other names")]
    return []


def _overwrites(sides: Sides, ours: Delta, theirs: Delta) -> list[MergeConflict]:
    """A replaced table does not combine with any change of rows or columns on the other side."""
    base, our_fields, their_fields = sides.fields
    count = sides.base_ours.contents.fragment_count
    for steps, here, is_other_changed in (
        (sides.our_steps, ours, bool(theirs) or their_fields != base),
        (sides.their_steps, theirs, bool(ours) or our_fields != sides.base_ours.contents.fields),
    ):
        name = steps.branch or MAIN
        if is_other_changed and steps.replaces_all:
            return [sides.conflict(f"'{name}' replaced the whole table")]
        if is_other_changed and not steps.complete and here.removed and len(here.removed) == count:
            why = "and versions that would tell whether it was compacted or replaced are gone"
            return [sides.conflict(f"'{name}' has none of its files any more, {why}")]
    return []


def _notes(sides: Sides, schema: MergeChange, ours: Delta, theirs: Delta) -> Iterator[str]:
    settings = _changed_settings(sides.base_theirs.contents, sides.theirs.contents)
    if settings:
        yield f"settings are not taken over: {', '.join(settings)}"
    if ours.added and (schema.columns.add or (schema.columns_of_theirs and sides.theirs.live - sides.base_theirs.live)):
        yield f"rows that '{sides.our_steps.branch or MAIN}' added meanwhile have no values in new columns"
    if theirs.added and sides.ours.live - sides.base_ours.live:
        yield f"rows of '{sides.their_steps.branch or MAIN}' have no values in columns that were added meanwhile"


def _changed_settings(before: Contents, after: Contents) -> list[str]:
    """Keys of the configuration and of the table's metadata that have other values."""
    pairs = ((before.config, after.config), (before.table_metadata, after.table_metadata))
    return sorted({key for old, new in pairs for key in old.keys() | new.keys() if old.get(key) != new.get(key)})
