"""What to do about a conflict, by how its reason begins. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from lance_spark import hints
from lance_spark.merge.change import MergeConflict
from lance_spark.merge.following import COLUMNS_COMPACTED, UNCERTAIN
from lance_spark.merge.matrix import COMPACTED_OURS, GONE_OURS, GONE_THEIRS
from lance_spark.merge.threeway import TAKEN_BEFORE

_SETTLE = "Settle it on one side first, e.g. restore or delete there what should not win, then try again."
_COLUMNS = hints.of(
    "Write columns first, optimize afterwards: revert the compaction (",
    hints.REVERT,
    "), try again, and optimize then. Or write the column again on the compacted branch.",
)
_EVIDENCE = (
    "Rows that optimize sorted (sort_by, zorder) are not followed: merge first, sort afterwards. "
    "If a compaction moved these rows, the versions that tell where are gone, or their deletion files: let cleanups "
    "keep versions until branches are merged. Otherwise settle it on one side first."
)
_TWICE = (
    "Where the rows are there already, nothing is to be taken. Otherwise pick the version that first had them, from "
    "the branch that made it, or write them again."
)
_HINTS = {
    COMPACTED_OURS.reason: _COLUMNS,
    COLUMNS_COMPACTED: _COLUMNS,
    UNCERTAIN: "Nothing is wrong with either side. Write the changed rows again on top of the other side.",
    GONE_OURS.reason: _EVIDENCE,
    GONE_THEIRS.reason: _EVIDENCE,
    TAKEN_BEFORE: _TWICE,
}


def hint_for(conflicts: Iterable[MergeConflict]) -> str:
    """The way on."""
    for conflict in conflicts:
        for beginning, hint in _HINTS.items():
            if conflict.reason.startswith(beginning):
                return hint
    return _SETTLE
