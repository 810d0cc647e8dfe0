"""Columns that both sides added, alike: whether they have the same values in rows that both have.

Read only if both sides have values of such a column in the same fragments.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lance_spark.core.location import DatasetLocation
from lance_spark.format.contents import Fragment
from lance_spark.format.row_values import hash_rows
from lance_spark.format.versions import Snapshot, by_file, columns, counterpart, delta
from lance_spark.merge.change_rules import Sides, Tree, trees
from lance_spark.scan.fragment_reads import FragmentRows, RowSource, read_rows

_OFFSET = np.uint64(0xFFFF_FFFF)
Locations = tuple[DatasetLocation, DatasetLocation]
"""Where ours is, and where theirs is."""


def agreed_columns(locations: Locations, sides: Sides) -> frozenset[int]:
    """The ids of columns that both sides added with the same name, type and values."""
    if sides.is_fast_forward or sides.is_up_to_date:
        return frozenset()
    base, ours, theirs = (trees(fields) for fields in sides.fields)
    new = [tree for key, tree in ours.items() if key not in base and theirs.get(key) == tree]
    if not new:
        return frozenset()
    pairs = [*_pairs(sides)]
    return frozenset(entry.id for tree in new if _is_same(locations, sides, tree, pairs) for entry in tree)


def _pairs(sides: Sides) -> Iterator[tuple[Fragment, Fragment]]:
    """Fragments that both sides changed, as both have them."""
    here = by_file(after for _, after in delta(sides.base_ours, sides.ours).changed)
    for _, after in delta(sides.base_theirs, sides.theirs).changed:
        twin = counterpart(after, here)
        if twin is not None:
            yield twin, after


def _is_same(locations: Locations, sides: Sides, tree: Tree, pairs: list[tuple[Fragment, Fragment]]) -> bool:
    ids = frozenset(entry.id for entry in tree)
    for ours, theirs in pairs:
        mine, other = columns(ours, ids), columns(theirs, ids)
        if not mine or not other or mine == other:
            continue
        one = _values(locations[0], sides.ours, ours, tree[0].name)
        two = _values(locations[1], sides.theirs, theirs, tree[0].name)
        if any(two[row] != value for row, value in one.items() if row in two):
            return False
    return True


def _values(location: DatasetLocation, snapshot: Snapshot, fragment: Fragment, name: str) -> dict[int, int]:
    """A number for the value of each row, by its offset."""
    found: dict[int, int] = {}
    source = RowSource(location, snapshot.pin, (FragmentRows(fragment.id),))
    for batch in read_rows(source, [name]):
        offsets = batch.column("_rowaddr").to_numpy().astype(np.uint64) & _OFFSET
        hashes = hash_rows([batch.column(name)], batch.num_rows)
        found.update(zip(offsets.tolist(), hashes.tolist(), strict=True))
    return found
