"""Conflicts of a merge that only rows show: rows deleted on both sides, and rows added under the same key.

Only these rows are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.format import row_ids
from lance_spark.format import versions as format_versions
from lance_spark.format.contents import Fragment
from lance_spark.format.operations import key_columns
from lance_spark.merge import change_rules
from lance_spark.scan.pylance import FragmentRows, RowSource, deleted_offsets, read_rows

_EXAMPLES = 5
Locations = tuple[DatasetLocation, DatasetLocation]
"""Where ours is, and where theirs is."""


def other_rows(
    locations: Locations, sides: change_rules.Sides, replacement: change_rules.Replacement
) -> tuple[tuple[int, ...], list[change_rules.MergeConflict]]:
    """The rows that theirs deleted in a fragment where ours deleted rows; a conflict if both deleted the same ones."""
    here, there = locations
    base = frozenset(deleted_offsets(here, sides.base_ours, replacement.base).to_pylist())
    ours = frozenset(deleted_offsets(here, sides.ours, replacement.ours).to_pylist()) - base
    theirs_now = frozenset(deleted_offsets(there, sides.theirs, replacement.theirs).to_pylist())
    theirs = theirs_now - base
    both = sorted(ours & theirs)
    if not both and base <= theirs_now:
        return tuple(sorted(theirs)), []
    reason = change_rules.OTHER_ROWS.reason if both else "ours deleted more rows where theirs has rows back"
    rows = examples(here, sides.base_ours, replacement.base, both[:_EXAMPLES])
    return (), [sides.conflict(reason, [replacement.ours.id], rows)]


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
        base = frozenset(deleted_offsets(here, sides.base_ours, each.base).to_pylist())
        ours = base & frozenset(deleted_offsets(here, sides.ours, each.ours).to_pylist())
        theirs = base & frozenset(deleted_offsets(there, sides.theirs, each.theirs).to_pylist())
        for back, names in ((ours - theirs, written[0]), (theirs - ours, written[1])):
            if back and names:
                rows = examples(here, sides.base_ours, each.base, sorted(back)[:_EXAMPLES])
                reason = f"{change_rules.BLANK} '{names[0]}', which was written while they were deleted"
                conflicts.append(sides.conflict(reason, [each.ours.id], rows))
    return conflicts


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


def same_keys(
    locations: Locations,
    sides: change_rules.Sides,
    change: change_rules.MergeChange,
    ours_old: Mapping[int, row_ids.Runs],
) -> list[change_rules.MergeConflict]:
    """If the table declares a key: rows that both sides added or updated under the same key.

    ``ours_old``: rows of the base that ours compacted into new fragments.
    """
    mine = format_versions.delta(sides.base_ours, sides.ours).added if change.added else ()
    keys = key_columns(sides.ours.contents.fields) if mine else ()
    if not keys:
        return []
    here, there = locations
    known = set(_keys(RowSource(here, sides.ours.pin, _without(mine, ours_old)), keys))
    masks = {key: row_ids.of_rows(rows) for key, rows in change.followed.masks.items()}
    theirs = RowSource(there, sides.theirs.pin, _without(change.added, masks))
    twice = (key for key in _keys(theirs, keys) if key in known)
    rows = tuple(_shown(dict(zip(keys, key, strict=True))) for key in islice(twice, _EXAMPLES))
    return [sides.conflict("both sides have new rows with the same key", rows=rows)] if rows else []


def _without(fragments: Iterable[Fragment], rows: Mapping[int, row_ids.Runs]) -> tuple[FragmentRows, ...]:
    """The fragments without some of their rows."""
    return tuple(
        FragmentRows(entry.id, _others(entry.physical_rows, rows[entry.id]) if entry.id in rows else None)
        for entry in fragments
    )


def _others(count: int, rows: row_ids.Runs) -> pa.Array:
    return pa.array(row_ids.rows_of(row_ids.without(row_ids.run(count, 0), rows)), pa.uint32())


def _keys(source: RowSource, keys: Sequence[str]) -> Iterable[tuple[Any, ...]]:
    for batch in read_rows(source, keys):
        yield from zip(*(batch[key].to_pylist() for key in keys), strict=True)


def _shown(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in row.items())
