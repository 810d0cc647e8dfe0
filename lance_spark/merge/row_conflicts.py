"""Conflicts of a merge that only deletion files show: rows deleted on both sides, and rows that come back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.format import versions as format_versions
from lance_spark.format.contents import Fragment
from lance_spark.format.operations import key_columns
from lance_spark.merge import change_rules
from lance_spark.merge.change_rules import Rows
from lance_spark.scan.fragment_reads import FragmentRows, RowSource, deleted_offsets, read_rows

_EXAMPLES = 5
Locations = tuple[DatasetLocation, DatasetLocation]
"""Where ours is, and where theirs is."""


def dead_rows(base: Rows, ours: Rows, theirs: Rows, kept: Rows | None = None) -> Rows:
    """The deleted rows of a fragment that takes what theirs deleted, and the rows that theirs has back.

    ``kept`` are those that are back in theirs, and nevertheless stay deleted.
    """
    back = np.setdiff1d(np.setdiff1d(base, theirs), _NONE if kept is None else kept)
    return np.setdiff1d(np.union1d(ours, np.setdiff1d(theirs, base)), back)


_NONE: Rows = np.zeros(0, np.int64)


class OtherRows(NamedTuple):
    """What becomes of a fragment in which both sides deleted rows, or have rows back."""

    deletions: tuple[int, ...] = ()
    """Rows to delete in ours."""
    dead: tuple[int, ...] | None = None
    """All deleted rows, if theirs has rows back; None if it has none."""
    conflicts: tuple[change_rules.MergeConflict, ...] = ()


def other_rows(locations: Locations, sides: change_rules.Sides, replacement: change_rules.Replacement) -> OtherRows:
    """The rows that theirs deleted in a fragment where ours deleted rows; a conflict if both deleted the same ones."""
    here, there = locations
    base = frozenset(deleted_offsets(here, _base(sides, replacement), replacement.base).to_pylist())
    ours_now = frozenset(deleted_offsets(here, sides.ours, replacement.ours).to_pylist())
    ours = ours_now - base
    theirs_now = frozenset(deleted_offsets(there, sides.theirs, replacement.theirs).to_pylist())
    theirs = theirs_now - base
    both = sorted(ours & theirs)
    if both:
        rows = examples(here, _base(sides, replacement), replacement.base, both[:_EXAMPLES])
        return OtherRows(conflicts=(sides.conflict(change_rules.OTHER_ROWS.reason, [replacement.ours.id], rows),))
    if base <= theirs_now:
        return OtherRows(tuple(sorted(theirs)))
    before, mine, other = (np.array(sorted(each), np.int64) for each in (base, ours_now, theirs_now))
    return OtherRows(dead=tuple(dead_rows(before, mine, other).tolist()))


def blank_rows(
    locations: Locations, sides: change_rules.Sides, replaced: Iterable[change_rules.Replacement]
) -> list[change_rules.MergeConflict]:
    """Conflicts about rows that one side has back, in fragments in which the other side wrote columns meanwhile.

    In such a file a deleted row has the values of a row beside it: pylance has to put something there. They would come
    back with the row.
    """
    here, there = locations
    conflicts = []
    for each in replaced:
        written = (_written(sides.ours, each.ours, each.base), _written(sides.theirs, each.theirs, each.base))
        if each.base.deletion is None or not any(written):
            continue
        base = frozenset(deleted_offsets(here, _base(sides, each), each.base).to_pylist())
        ours = base & frozenset(deleted_offsets(here, sides.ours, each.ours).to_pylist())
        theirs = base & frozenset(deleted_offsets(there, sides.theirs, each.theirs).to_pylist())
        for back, names in ((ours - theirs, written[0]), (theirs - ours, written[1])):
            if back and names:
                rows = examples(here, _base(sides, each), each.base, sorted(back)[:_EXAMPLES])
                reason = f"{change_rules.BLANK} '{names[0]}', which was written while they were deleted"
                conflicts.append(sides.conflict(reason, [each.ours.id], rows))
    return conflicts


def _base(sides: change_rules.Sides, each: change_rules.Replacement) -> format_versions.Snapshot:
    """The version that the fragment of the base was read in: ours itself, if ours still has all rows of the base."""
    return sides.ours if each.base == each.ours else sides.base_ours


def _written(side: format_versions.Snapshot, fragment: Fragment, base: Fragment) -> list[str]:
    """The names of the columns that a side wrote in a fragment of the base."""
    before, after = (format_versions.columns(entry, side.live) for entry in (base, fragment))
    names = {entry.id: entry.name for entry in side.contents.fields}
    return [names[key] for key, path in after.items() if before.get(key) != path]


def examples(
    location: DatasetLocation, base: format_versions.Snapshot, fragment: Fragment, offsets: Sequence[int]
) -> tuple[str, ...]:
    """The keys of some rows in the base; none if the table declares no key."""
    keys = key_columns(base.contents.fields)
    if not keys or not offsets:
        return ()
    source = RowSource(location, base.pin, (FragmentRows(fragment.id, pa.array(offsets, pa.uint32())),))
    return tuple(_shown(row) for batch in read_rows(source, keys) for row in batch.select(keys).to_pylist())


def _shown(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in row.items())
