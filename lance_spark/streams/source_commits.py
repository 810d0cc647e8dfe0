"""What a commit means for a stream of appended rows: nothing, rows, or a change that rows alone cannot tell. Pure."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from lance_spark.errors import Refused
from lance_spark.refs.model import PinnedVersion

_WORDS = {
    "Delete": "deleted rows",
    "Overwrite": "replaced the table",
    "Update": "updated or deleted rows",
    "Restore": "took the table back to an older version",
    "DataReplacement": "gave rows other values of a column",
    "DataOverlay": "gave rows other values of a column",
    "Merge": "gave rows other values of a column",
}


class Effect(NamedTuple):
    """What a version did to the fragments of the one before it, as far as the columns of the stream show it."""

    added: int = 0
    """Fragments that are new."""
    removed: int = 0
    """Fragments that are gone."""
    deleted: int = 0
    """Fragments of which other rows are deleted than before."""
    rewritten: int = 0
    """Fragments with other values of a column that both versions have."""


class CommitMeaning(Enum):
    """Of a commit."""

    NOTHING = "nothing"
    ROWS = "rows"
    CHANGE = "change"


def meaning(effect: Effect) -> CommitMeaning:
    """The effect decides, not the name of the operation.

    A merge of a branch and an insert by key are both an Update, and may add rows only; a Delete may find no row.
    """
    if effect.removed or effect.deleted or effect.rewritten:
        return CommitMeaning.CHANGE
    return CommitMeaning.ROWS if effect.added else CommitMeaning.NOTHING


def may_have_moved(effect: Effect) -> bool:
    """Whether the rows of fragments that are gone may lie in new ones, so that only rows came: a closer look tells."""
    return bool(effect.removed and effect.added) and not (effect.deleted or effect.rewritten)


def refusal(pin: PinnedVersion, operation: str | None, merged: PinnedVersion | None = None) -> Refused:
    """The error for a change in a stream of appended rows, with the ways on. ``merged`` is what was merged, if it was.

    A merge may only have added rows, beside a compaction that it took over, and nobody can tell: files that said which
    rows were deleted before it are gone, or rows were put in another order.
    """
    skip = (
        "Restart the query from its checkpoint with option('skip_change_commits', 'true') to leave out such versions, "
        "also the rows that they added. "
    )
    if merged is not None:
        return Refused(
            f"Version {pin} merged {merged}, and more than new rows came: older rows were changed, deleted or put in "
            "another order, or where a compaction put them cannot be told any more. This stream gives appended rows "
            "only. All before it was given.",
            hint=f"{skip}What came with this version says table.changes({pin.version - 1}, {pin.version}). A query "
            "with a checkpoint of its own and option('changes', 'true') follows every merge.",
        )
    words = _WORDS.get(operation or "", "changed rows")
    told = f" ({operation})" if operation else ""
    return Refused(
        f"Version {pin} {words}{told}, and this stream gives appended rows only. All before it was given.",
        hint=f"{skip}A query that is to see each change is another one, with a checkpoint of its own: "
        "option('changes', 'true').",
    )
