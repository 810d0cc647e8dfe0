"""Finds rows by their values, where no version tells to which files they were moved.

That is so after an order (``sort_by``, ``zorder``), and after compactions whose versions were cleaned up. Only rows of
files that a side no longer has are compared with rows of its new files, and only if the merge would be a conflict
otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import Engine, Work
from lance_spark.format.contents import Fragment
from lance_spark.format.operations import Steps
from lance_spark.format.row_ids import Connected, Pairs, Rewrite
from lance_spark.format.row_values import HASHED, equal_rows, hashed
from lance_spark.format.versions import Snapshot, delta
from lance_spark.merge.change_rules import Sides
from lance_spark.scan.fragment_reads import FragmentRows, RowSource, blob_columns, read_rows

Locations = tuple[DatasetLocation, DatasetLocation]
"""Where ours is, and where theirs is."""


@dataclass(frozen=True)
class HashRows:
    """Hashes the rows of fragments of versions; runs on executors."""

    location: DatasetLocation
    columns: tuple[str, ...]
    keys: tuple[str, ...] = ()
    """Columns that identify a row."""

    def table(self, engine: Engine, pin: PinnedVersion, fragments: Sequence[Fragment]) -> pa.Table:
        """HASHED of the live rows of fragments of a version: 24 bytes for each row."""
        if not fragments:
            return HASHED.empty_table()
        runner = engine.for_work("merge", Work(read_bytes=sum(file.size for one in fragments for file in one.files)))
        found = runner.flat_map("compare rows", [(pin, fragment.id) for fragment in fragments], self, HASHED)
        return runner.collect("compare rows", found).cast(HASHED)

    def __call__(self, item: tuple[PinnedVersion, int]) -> Iterator[pa.RecordBatch]:
        pin, fragment = item
        for batch in read_rows(RowSource(self.location, pin, (FragmentRows(fragment),)), self.columns):
            yield hashed(batch, self.columns, self.keys)


def with_rows_found(locations: Locations, sides: Sides, engine: Engine) -> Sides | None:
    """The sides with what the values of their rows tell; None if that is nothing."""
    ours = _found(locations[0], sides.base_ours, sides.ours, sides.our_steps, engine)
    theirs = _found(locations[1], sides.base_theirs, sides.theirs, sides.their_steps, engine)
    if ours is None and theirs is None:
        return None
    return replace(
        sides,
        our_steps=replace(sides.our_steps, found=() if ours is None else (ours,)),
        their_steps=replace(sides.their_steps, found=() if theirs is None else (theirs,)),
    )


def have_equal_rows(locations: Locations, sides: Sides, engine: Engine) -> bool:
    """Whether a new row of one side has the values of a new one of the other, or they cannot be compared."""
    ours, theirs = delta(sides.base_ours, sides.ours), delta(sides.base_theirs, sides.theirs)
    names = [_columns(side) for side in (sides.base_ours, sides.ours, sides.theirs)]
    common = [key for key in names[0] if key in names[1] and key in names[2]]
    pins = sides.base_ours.pin, sides.ours.pin, sides.theirs.pin
    places = locations[0], *locations
    if not common or any(blob_columns(place, pin) for place, pin in zip(places, pins, strict=True)):
        return True
    # Both may have rewritten rows of the base.
    before, mine, other = (
        HashRows(place, tuple(known[key] for key in common)).table(engine, pin, fragments)["content"].to_numpy()
        for place, pin, known, fragments in zip(
            places, pins, names, (ours.removed, ours.added, theirs.added), strict=True
        )
    )
    return bool(np.setdiff1d(np.intersect1d(mine, other), before).size)


def _found(location: DatasetLocation, base: Snapshot, side: Snapshot, steps: Steps, engine: Engine) -> Rewrite | None:
    """Which rows of files that a side no longer has are in its new files."""
    change = delta(base, side)
    old = Connected(steps.rewrites).lost(change.removed, change.added)
    names = _columns(base), _columns(side)
    if not old or not change.added or names[0].keys() != names[1].keys() or blob_columns(location, side.pin):
        return None  # blobs are not read, and two rows may differ in nothing else
    before = HashRows(location, tuple(names[0].values())).table(engine, base.pin, old)
    after = HashRows(location, tuple(names[1][key] for key in names[0])).table(engine, side.pin, change.added)
    matched = equal_rows(before, after)
    if not len(matched[0]):
        return None
    pairs: Pairs = np.column_stack([*_placed(matched[0], old), *_placed(matched[1], change.added)])
    return Rewrite(tuple(old), tuple(change.added), pairs=pairs)


def _columns(snapshot: Snapshot) -> dict[tuple[int, str], str]:
    return {(entry.id, entry.type): entry.name for entry in snapshot.contents.fields if entry.parent_id < 0}


def _placed(addresses: np.ndarray, fragments: Sequence[Fragment]) -> list[np.ndarray]:
    """The positions of rows' fragments, and offsets in them."""
    ids = np.array([fragment.id for fragment in fragments], np.int64)
    order = np.argsort(ids)
    owners = (addresses >> np.uint64(32)).astype(np.int64)
    positions = order[np.searchsorted(ids[order], owners)]
    return [positions, (addresses & np.uint64(0xFFFF_FFFF)).astype(np.int64)]
