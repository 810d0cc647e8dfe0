"""What to do about a conflict. Pure.

In: the conflicts of a replay, and how its verb is typed again. Out: a hint whose commands lead out, in the language of
the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lance_spark import hints
from lance_spark.merge import change_rules
from lance_spark.merge.assembly_rules import BOTH_SET, NO_COLUMN
from lance_spark.merge.cell_rules import STALE
from lance_spark.merge.change_rules import MergeConflict
from lance_spark.merge.conflict_rules import (
    AMBIGUOUS,
    BROKEN,
    CAST,
    KEY_CHANGED,
    NO_NULLS,
    NOT_CHECKED,
    OPAQUE,
    SAME_KEY,
    TAKEN_BEFORE,
    TWICE,
    WRITTEN,
    may_settle,
)
from lance_spark.merge.following_rules import COLUMNS_COMPACTED, UNCERTAIN
from lance_spark.merge.option_rules import EVERY, OURS, THEIRS, Prefer

Again = Callable[[str, Sequence[str]], hints.Hint]
"""The verb as it is typed with a preference, and with columns by which rows are matched."""

_SAME = "Make the same change on both sides, or undo it on one of them. Then try again."
_COLUMNS = hints.of(
    "Write columns first and optimize afterwards: revert the compaction (",
    hints.REVERT,
    "), try again, then optimize. Or write the column again on the compacted branch.",
)
_TWICE = (
    "Take nothing if the rows are already there. Otherwise pick the version that first had them, from "
    "the branch that made it, or write them again."
)
_BLANK = hints.of("Revert the version that wrote the column (", hints.REVERT, "), try again, then write it again.")
_STALE = (
    "Compute the column again on top of the other side's values: take these over first. By cells, a column that can be "
    "null would be left empty there, and the result would name it."
)
_NEW = "Drop or rename it on one side, after copying what is needed into another column, then try again."
_SAME_KEY = "Delete one of the rows, or give it another key. Then try again."
_UNMATCHED = (
    "Nothing tells which rows of both sides are the same: they have neither stable row ids nor a key, and no column "
    "tells them apart. Write on one side what the other has in these rows."
)
_HINTS = {
    change_rules.COMPACTED_OURS.reason: _COLUMNS,
    COLUMNS_COMPACTED: _COLUMNS,
    UNCERTAIN: "Nothing is wrong with either side. Write the changed rows again on top of the other side.",
    TAKEN_BEFORE: _TWICE,
    STALE: _STALE,
    change_rules.BLANK: _BLANK,
    change_rules.BOTH_NEW: _NEW,
    CAST: "Cast the column in the same way on the other side, then try again.",
    NO_NULLS: "Give these rows a value or delete them where they are, or let the column be null again. Then try again.",
    BROKEN.partition("{")[0]: hints.of(
        "Change or delete these rows on the side that has them, or drop the constraint: ", hints.drop_constraint(), "."
    ),
    BOTH_SET: hints.of("Give it one value on both sides, or say whose is taken: ", hints.PREFER, "."),
    NO_COLUMN: hints.of("Declare another layout on the side that has it: ", hints.change_layout(), "."),
    NOT_CHECKED: hints.of(
        "Drop the constraint (", hints.drop_constraint(), "), merge, and add it again, which checks all rows."
    ),
    WRITTEN: "Drop the column on both sides, after copying what is needed into another one; or restore, on the side "
    "that dropped it, the version before. If one side never had the column, take over the version that added it first.",
    KEY_CHANGED.partition("'")[0]: "Give the rows the same new key on both sides, then try again.",
    OPAQUE: hints.of(
        "Delete these rows on the side that should not win, then merge again and prefer the other one: ",
        hints.PREFER,
        ".",
    ),
    SAME_KEY: _SAME_KEY,
    TWICE: _SAME_KEY,
    change_rules.OTHER_COLUMNS.reason: f"If both sides added the column: {_NEW}",
}


def hint_for(
    conflicts: Sequence[MergeConflict], again: Again | None = None, prefer: Prefer | None = None, on: Sequence[str] = ()
) -> str:
    """What to do about the first conflict that has a hint of its own: first about what no preference settles.

    ``on`` are the columns that the caller matched rows by: without them the same call would fail in another way.
    """
    rows = [conflict for conflict in conflicts if conflict.count and may_settle([conflict])]
    unmatched = [conflict for conflict in conflicts if not conflict.count and may_settle([conflict])]
    by_key = any(AMBIGUOUS in conflict.reason for conflict in unmatched)  # a preference takes the key at its word
    for conflict in conflicts:
        for words, hint in _HINTS.items():
            open_one = conflict in rows or (conflict in unmatched and (conflict.on or by_key))
            if words in conflict.reason and not open_one:
                return hint
    if len(rows) + len(unmatched) < len(conflicts):
        return _SAME
    matched = next((conflict.on for conflict in unmatched if conflict.on), ())
    if unmatched and not matched and not by_key:
        return _UNMATCHED
    return _preferring(again, prefer or Prefer(), matched, on)


def _preferring(again: Again | None, prefer: Prefer, found: Sequence[str], given: Sequence[str]) -> hints.Hint:
    """A hint that prefers a side, in one of two ways."""
    first, on = "Rows are the same if a column says so. " if found else "", found or given
    if again is None:
        return hints.of(
            f"{first}Choose whose rows are taken: ", hints.PREFER, *((", ", hints.MERGE_ON) if on else ()), "."
        )
    theirs, ours = (again(_with_rest(prefer, side), on) for side in (THEIRS, OURS))
    return hints.of(
        f"{first}To take theirs where both sides changed a row: ", theirs, ". To keep ours there: ", ours, "."
    )


def _with_rest(prefer: Prefer, side: str) -> str:
    """The preference, and a side for what it leaves open."""
    return (
        ", ".join([*(f"{name}={chosen}" for name, chosen in prefer.columns), f"{EVERY}={side}"])
        if prefer.columns
        else side
    )
