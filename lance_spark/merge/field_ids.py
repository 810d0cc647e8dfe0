"""Whether the id of a field still means the same column: pylance uses the id of a dropped column again."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lance_spark.merge.delta import by_file, counterpart
from lance_spark.merge.snapshot import Snapshot, columns
from lance_spark.merge.steps import Steps


def reused(base: Snapshot, side: Snapshot, steps: Steps) -> list[str]:
    """Columns of the base that a side dropped, and whose ids mean other columns there.

    Otherwise rows of the other side would have their values in the wrong column, or bytes of one type would be read as
    another type. A column that was only renamed has a new name under its id, too, but its values stay in their files. A
    cast column gets a new id.
    """
    now = {entry.id: entry for entry in side.contents.fields}
    both = [(entry, now[entry.id]) for entry in base.contents.fields if entry.id in now]
    other_type = [before.name for before, after in both if before.type != after.type]
    other_name = {
        before.id: before.name for before, after in both if before.name != after.name and before.type == after.type
    }
    return other_type + (_not_renamed(base, side, other_name) if other_name and steps.may_add_columns else [])


def _not_renamed(base: Snapshot, side: Snapshot, other: Mapping[int, str]) -> list[str]:
    """The names of those columns, by their ids, whose values are in other files now."""
    known, live = by_file(base.contents.fragments()), frozenset(other)
    same, moved = set(), set()
    for fragment in side.contents.fragments():
        origin = counterpart(fragment, known)
        before = {} if origin is None else columns(origin, live)
        after = columns(fragment, live)
        same |= {key for key, path in before.items() if after.get(key) == path}
        moved |= {key for key, path in before.items() if after.get(key) != path}
    return [name for key, name in other.items() if key in moved or key not in same]


def are_free(new: Collection[int], side: Snapshot) -> bool:
    """Whether field ids are higher than all ids in use: otherwise the values of a dropped column would come back."""
    if not new:
        return True
    files = (file for fragment in side.contents.fragments() for file in fragment.files)
    return min(new) > max((*side.live, *(key for file in files for key in file.fields)), default=-1)
