"""Which of pylance's operations commits a change. Each notices a concurrent commit that does not combine. Pure."""

from __future__ import annotations

from typing import Literal

from lance_spark.errors import NotCommittable
from lance_spark.merge.change import MergeChange, Sides
from lance_spark.merge.snapshot import Snapshot

Operation = Literal["Update", "Merge", "Overwrite"]


def operation_for(change: MergeChange, ours: Snapshot, emptied: bool = False) -> Operation:
    """The operation: Update for rows, Merge for columns, Overwrite if nothing of ours is left and columns differ.

    ``emptied``: a fragment that stays has no rows left. Raises NotCommittable for a change that pylance 14.0.2 cannot
    commit: its Merge takes no removed fragments, its Overwrite no deletion files.
    """
    if not (change.columns or change.columns_of_theirs):
        return "Update"
    replaces_all = len(change.removed) == ours.contents.fragment_count > 0 and not change.replaced
    if replaces_all and change.columns_of_theirs and not any(fragment.deletion for fragment in change.added):
        return "Overwrite"
    if change.removed or emptied:
        raise NotCommittable(
            "Columns were changed and fragments compacted or removed since the last common version; pylance cannot "
            "commit both at once.",
            hint="Merge in two steps: first a version from before the columns changed, then the branch.",
        )
    return "Merge"


def check_supported(sides: Sides, change: MergeChange) -> None:
    """Raise NotCommittable for fragments that this release cannot take over."""
    touched = [*change.added, *(each.theirs for each in change.replaced), *(each.ours for each in change.replaced)]
    for fragment in touched:
        if fragment.has_overlays:
            raise NotCommittable(f"Fragment {fragment.id} has overlays, which this release cannot take over.")
    stable = sides.ours.contents.has_stable_row_ids
    if stable != sides.theirs.contents.has_stable_row_ids:
        raise NotCommittable(f"Only one of {sides.ours.pin} and {sides.theirs.pin} has stable row ids.")
    if stable and any(not fragment.row_ids for fragment in change.added):
        raise NotCommittable(
            "The row ids of new rows are kept in files of their own, which this release cannot take over."
        )
