"""Which of pylance's operations commits a change. All of them notice a concurrent commit that they cannot go with."""

from __future__ import annotations

from typing import Literal

from lance_spark.errors import NotCommittable
from lance_spark.merge.change import MergeChange
from lance_spark.merge.snapshot import Snapshot

Operation = Literal["Update", "Merge", "Overwrite"]


def operation_for(change: MergeChange, ours: Snapshot, emptied: bool = False) -> Operation:
    """The operation: Update for rows, Merge for columns, Overwrite where nothing of ours is left and columns differ.

    ``emptied``: a fragment that stays has no rows left. Raises NotCommittable for a change that pylance 14.0.2 commits
    with none of them: its Merge wants every fragment that there was, its Overwrite no deleted rows.
    """
    if not (change.columns or change.columns_of_theirs):
        return "Update"
    replaces_all = len(change.removed) == ours.contents.fragment_count > 0 and not change.replaced
    if replaces_all and change.columns_of_theirs and not any(found.deletion for found in change.added):
        return "Overwrite"
    if change.removed or emptied:
        raise NotCommittable(
            "Columns were changed and fragments compacted or removed since the last common version; pylance cannot "
            "commit both at once.",
            hint="Merge in two steps: first a version from before the columns changed, then the branch.",
        )
    return "Merge"
