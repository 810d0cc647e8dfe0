"""Which commits in between a change of rows can be combined with. Pure.

A change is computed on one version and committed on a newer one. For every fragment that it touches the question is
what became of the fragment. The table in docs/changing-rows.md says it in a user's words.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum

from lance_spark.manifest.contents import Field, Fragment
from lance_spark.merge.rewrites import Deleted, Rewrite, trace
from lance_spark.merge.runs import Offsets, of_rows, rows_of
from lance_spark.merge.snapshot import columns, same_deletion


class Fate(Enum):
    """What became of a fragment in which rows are to be deleted or updated."""

    SAME = "it is as it was"
    DELETIONS = "rows of it were deleted"
    MOVED = "it was compacted"
    REWRITTEN = "values of its rows were changed"
    EXTENDED = "it got values of a new column"
    GONE = "its rows were deleted or written anew"

    @property
    def is_conflict(self) -> bool:
        """Whether the change has to be computed again."""
        return self in (Fate.REWRITTEN, Fate.EXTENDED, Fate.GONE)


def fate_of(before: Fragment, after: Fragment | None, live: frozenset[int], compacted: bool, updates: bool) -> Fate:
    """What became of a fragment from one version to the next.

    ``live`` are the ids of the columns that the change was computed with, ``compacted`` says whether the version
    rewrote the fragment into others, ``updates`` whether the change writes rows of it anew.
    """
    if compacted:
        return Fate.MOVED
    if after is None:
        return Fate.GONE
    if columns(before, live) != columns(after, live) or before.physical_rows != after.physical_rows:
        return Fate.REWRITTEN
    if before.row_ids != after.row_ids or before.has_overlays != after.has_overlays or after.has_overlays:
        return Fate.REWRITTEN
    if updates and _extended(before, after):
        return Fate.EXTENDED
    return Fate.SAME if same_deletion(before, after) else Fate.DELETIONS


def _extended(before: Fragment, after: Fragment) -> bool:
    """Whether there are values of columns that were not there before: rows written anew would lose them."""
    known = {field for file in before.files for field in file.fields}
    return any(field not in known for file in after.files for field in file.fields if field >= 0)


def column_conflict(before: Sequence[Field], after: Sequence[Field], writes: bool) -> str | None:
    """Why rows that were computed with the columns of one version do not fit those of a later one; None if they do.

    ``writes`` says whether the change has new rows, which lack columns that were added.
    """
    now = {field.id: _shape(field) for field in after}
    for field in before:
        if field.id not in now:
            return f"column '{field.name}' was dropped or replaced"
        if now[field.id] != _shape(field):
            return f"column '{field.name}' was altered"
    known = {field.id for field in before}
    for field in after:
        if writes and field.id not in known and not field.nullable:
            return f"column '{field.name}' was added, and cannot be null"
    return None


def _shape(field: Field) -> tuple[int, str, str, bool]:
    return field.parent_id, field.name, field.type, field.nullable


def follow(rewrite: Rewrite, offsets: Mapping[int, Offsets], deleted: Deleted) -> dict[int, Offsets] | None:
    """Where rows are after a compaction: offsets by the ids of the new fragments.

    ``offsets`` are of rows that live, by the ids of old fragments. None if the numbers or ids of rows do not agree, so
    that no position is certain.
    """
    start = [
        (fragment, of_rows(own, fragment.id << 32))
        for fragment in rewrite.old
        if (own := offsets.get(fragment.id)) is not None
    ]
    traced = trace(start, [rewrite], deleted)
    if traced.doubtful or not traced.complete:
        return None
    found = {fragment.id: rows_of(traced.labels_of(fragment)) for fragment in rewrite.new}
    return {key: own for key, own in found.items() if len(own)}


def new_fragments(before: Collection[int], after: Mapping[int, Fragment], moved: Collection[str]) -> tuple[int, ...]:
    """Ids of the fragments that a version added with rows of its own; ``moved`` are files of compacted rows."""
    return tuple(
        key
        for key, fragment in after.items()
        if key not in before and not any(file.path in moved for file in fragment.files)
    )
