"""The three-way comparison: what theirs changed since the base, and whether ours can take it. Pure.

Fragments are compared in ``fragments.py`` and columns in ``column_conflicts.py``, both by the matrix in ``matrix.py``.
This file decides about the table as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from lance_spark.manifest.contents import Contents, Fragment
from lance_spark.merge.change import MergeChange, MergeConflict, Sides
from lance_spark.merge.column_conflicts import merge_schema, strict_columns
from lance_spark.merge.delta import Delta, delta
from lance_spark.merge.fragments import merge_fragments
from lance_spark.refs.names import MAIN

BROUGHT_BEFORE = (
    "rows that one side compacted are in the other one already, and no version says which merge brought them"
)
TAKEN_BEFORE = "rows that were picked, reverted or restored may be on both sides under other names"


def compare(sides: Sides) -> MergeChange:
    """What ours has to take of theirs, and what stands against it."""
    if sides.is_up_to_date:
        return MergeChange()
    ours, theirs = delta(sides.base_ours, sides.ours), delta(sides.base_theirs, sides.theirs)
    if not ours and sides.ours.contents.fields == sides.base_ours.contents.fields:
        # Whatever ours did, it has the rows and columns of the base. Its fragments may have other ids by now: what the
        # delta says of ids of the base must not be looked up by those of ours.
        sides, ours = replace(sides, base_ours=sides.ours), Delta()
    change, schema = merge_fragments(sides, ours, theirs), merge_schema(sides, ours, theirs)
    conflicts = [*change.conflicts, *schema.conflicts]
    if change.added:
        conflicts += strict_columns(sides, sides.ours, "theirs")
    if not sides.is_fast_forward:
        # With a contest it is not known yet which fragments are added.
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
    """Rows that ours may have in other files already: the result would have them twice.

    The change has no contest any more. What is still new in it is in no file of ours. Ours may have the rows all the
    same, if it took them from theirs, or theirs from it, and one side rewrote or deleted rows since then.
    """
    if sides.is_up_to_date or sides.is_fast_forward:
        return []
    if _has_twins(sides, change) or (change.added and _is_hidden(sides)):
        return [sides.conflict(TAKEN_BEFORE)]
    return []


def _brought_before(sides: Sides, ours: Delta, change: MergeChange) -> list[MergeConflict]:
    """Files that both sides name, and the base does not, while a compaction of one side replaced them.

    Ours took them in by a merge that is forgotten, as its version was cleaned up and the merged branch deleted. By the
    names of files alone, the compacted rows look like new ones.
    """
    if not (change.added and ours.added and sides.rewrites):
        return []
    our_rewrites, their_rewrites = sides.our_steps.rewrites, sides.their_steps.rewrites
    here = {path for each in our_rewrites for path in each.paths} | _paths(ours.added)
    there = {path for each in their_rewrites for path in each.paths} | _paths(change.added)
    both = here & there
    if both:
        both -= _paths(sides.base_theirs.contents.fragments_with(both))
    return [sides.conflict(BROUGHT_BEFORE)] if both else []


def _paths(fragments: Iterable[Fragment]) -> set[str]:
    return {file.path for entry in fragments for file in entry.files}


def _is_hidden(sides: Sides) -> bool:
    """Whether rows that one side took by a cherry-pick, revert or restore may be on both sides."""
    own = sides.ours.root == sides.theirs.root and sides.our_steps.changed_after(sides.theirs.pin.version)
    # What a revert brings back was deleted in the base. Ours can have it only if it was brought back before.
    own = own and (sides.our_steps.brings or not sides.our_steps.complete or not sides.is_backwards)
    return own or sides.our_steps.may_hide(sides.their_steps) or sides.their_steps.may_hide(sides.our_steps)


def _has_twins(sides: Sides, change: MergeChange) -> bool:
    """Whether a single version may bring rows that ours has from versions which the two have in common."""
    kinship, brings = sides.kinship, sides.their_steps.brings
    if change.added and kinship.shares:
        return True
    if kinship.has_base:
        return False
    # Ours may still have rows that were deleted before the base. Theirs may have them back as they were even before.
    back = any(each.deletion and each.base.deletion is not None for each in change.replaced)
    if brings and (change.added or back) and kinship.earlier.changes_rows:
        return True
    return bool(change.added) and sides.is_backwards and (kinship.earlier.renames_rows or sides.our_steps.changes_rows)


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


def _notes(sides: Sides, schema: MergeChange, ours: Delta) -> Iterator[str]:
    settings = _changed_settings(sides.base_theirs.contents, sides.theirs.contents)
    if settings:
        yield f"settings are not taken over: {', '.join(settings)}"
    if ours.added and (schema.columns.add or (schema.columns_of_theirs and sides.theirs.live - sides.base_theirs.live)):
        yield f"rows that '{sides.our_steps.branch or MAIN}' added meanwhile have no values in new columns"


def rows_without_values(sides: Sides, change: MergeChange) -> tuple[str, ...]:
    """A note, if a change without contests brings rows that lack columns of ours."""
    if not (change.added and sides.ours.live - sides.base_ours.live):
        return ()
    return (f"rows of '{sides.their_steps.branch or MAIN}' have no values in columns that were added meanwhile",)


def _changed_settings(before: Contents, after: Contents) -> list[str]:
    """Keys of the configuration and of the table's metadata that have other values."""
    pairs = ((before.config, after.config), (before.table_metadata, after.table_metadata))
    return sorted({key for old, new in pairs for key in old.keys() | new.keys() if old.get(key) != new.get(key)})
