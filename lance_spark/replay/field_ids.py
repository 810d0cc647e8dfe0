"""Whether the id of a field still means the column it meant: pylance gives the id of a dropped column away again."""

from __future__ import annotations

from collections.abc import Collection

from lance_spark.replay.delta import by_file, counterpart
from lance_spark.replay.history import Steps
from lance_spark.replay.snapshot import Snapshot, columns


def reused(base: Snapshot, side: Snapshot, steps: Steps) -> list[str]:
    """Columns of the base that a side dropped, and whose ids mean other columns there.

    Rows of the other side would have their values in the wrong column. A column that was only renamed has another
    name under its id as well, but its values are in the files they were in.
    """
    names = {entry.id: entry.name for entry in side.contents.fields}
    other = {entry.id: entry.name for entry in base.contents.fields if names.get(entry.id, entry.name) != entry.name}
    if not other or not steps.may_add_columns:
        return []
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
    """Whether field ids are higher than all that were ever used: a dropped column must not come back to life."""
    if not new:
        return True
    files = (file for fragment in side.contents.fragments() for file in fragment.files)
    return min(new) > max((*side.live, *(key for file in files for key in file.fields)), default=-1)
