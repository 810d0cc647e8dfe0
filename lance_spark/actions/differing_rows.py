"""Compares the rows of two versions that may differ, batch by batch, and shows some of those that do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.history.columns import common_columns, key_columns
from lance_spark.history.difference import ADDED, CHANGED, DELETED, RowExample
from lance_spark.history.rows import ADDRESS, HASHED, RowChanges, compare_hashed, hashed
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Contents, decode_contents
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import refs
from lance_spark.store.changes import ROW_ID, UPDATED, FragmentRows, RowSource, read_rows, stored_schema
from lance_spark.store.version_listing import has_version
from lance_spark.store.version_reader import read_manifest

_OFFSET_BITS = 32
_UNKNOWN_TO_OTHERS = 2**62
"""Added to version numbers after a fork: main@7 and exp@7 are two different commits."""


@dataclass(frozen=True)
class Identity:
    """How a row is recognized although its values changed."""

    key: tuple[tuple[str, str], ...] = ()
    """(column before, column after) of the table's key."""
    row_ids: bool = False
    below: int | None = None
    """Row ids from here on were given to different rows on two branches; None if all ids are reliable."""
    fork_version: int | None = None
    """The version that both descend from; None for two versions of one branch."""
    places: Mapping[int, int] = field(default_factory=dict)
    """Fragments that are in both versions: their ids before, and after. A row in one place is one row."""

    @property
    def is_known(self) -> bool:
        """Whether every row can be recognized."""
        return bool(self.key) or self.row_ids


def identity_of(
    location: DatasetLocation,
    before: tuple[PinnedVersion, Contents],
    after: tuple[PinnedVersion, Contents],
    places: Mapping[int, int],
) -> Identity:
    """Stable row ids if they are reliable, else the table's key, else only the places of rows."""
    (a, old), (b, new) = before, after
    if old.has_stable_row_ids and new.has_stable_row_ids:
        if a.branch == b.branch:
            return Identity(row_ids=True, places=places)
        fork = _fork(location, a, b)
        if fork is not None:
            return Identity(row_ids=True, below=fork.next_row_id, fork_version=fork.head.version, places=places)
    keys = set(key_columns(old.fields)) & set(key_columns(new.fields))
    both = tuple(names for names in common_columns(old.fields, new.fields) if names[1] in keys)
    return Identity(key=both if len(both) == len(key_columns(new.fields)) else (), places=places)


def _fork(location: DatasetLocation, a: PinnedVersion, b: PinnedVersion) -> Contents | None:
    """The last version that both have in their history; None where it is gone."""
    table = refs.read_ref_files(location)
    lines = []
    for pin in (a, b):
        line = {pin.branch: pin.version}
        while pin.branch is not None and (branch := table.branches.get(pin.branch)) is not None:
            pin = PinnedVersion(branch.parent_branch, branch.parent_version)
            line[pin.branch] = pin.version
        lines.append(line)
    shared = [branch for branch in lines[0] if branch in lines[1]]
    if not shared:
        return None
    fork = PinnedVersion(shared[0], min(lines[0][shared[0]], lines[1][shared[0]]))
    if not has_version(location, fork):
        return None
    return decode_contents(read_manifest(location, fork))


def compare_ids(before: RowSource, after: RowSource, identity: Identity) -> RowChanges | None:
    """Which rows were added, deleted and changed, by their ids and when they were last updated; no value is read.

    None without stable row ids.
    """
    if not identity.row_ids:
        return None
    sides = []
    for number, source in enumerate((before, after)):
        batches = [_by_id(batch, identity, number) for batch in read_rows(source, [UPDATED, ROW_ID])]
        sides.append(pa.Table.from_batches(batches, HASHED))
    return compare_hashed(*sides)


def _by_id(batch: pa.RecordBatch, identity: Identity, side: int) -> pa.RecordBatch:
    updated = pc.fill_null(batch.column(UPDATED).cast(pa.int64()), 0)
    if identity.fork_version is not None:
        late = pc.greater(updated, identity.fork_version)
        updated = pc.if_else(late, pc.add(updated, _UNKNOWN_TO_OTHERS + side * 2**61), updated)
    wide = pa.record_batch([updated, batch.column(ROW_ID), batch.column(ADDRESS)], names=[UPDATED, ROW_ID, ADDRESS])
    return _trusted(hashed(wide, [UPDATED, ROW_ID], [ROW_ID]), batch, identity)


def _trusted(rows: pa.RecordBatch, batch: pa.RecordBatch, identity: Identity) -> pa.RecordBatch:
    """The identities, without those that two branches gave to different rows."""
    if identity.below is None:
        return rows
    mine = pc.greater_equal(batch.column(ROW_ID).cast(pa.uint64()), pa.scalar(identity.below, pa.uint64()))
    known = pc.if_else(mine, pa.scalar(None, pa.uint64()), rows.column("identity"))
    return pa.record_batch([rows.column("content"), known, rows.column("address")], schema=HASHED)


def compare_rows(
    before: RowSource,
    after: RowSource,
    names: Sequence[tuple[str, str]],
    identity: Identity,
    blobs: Collection[str] = (),
) -> RowChanges:
    """Which rows were added, deleted and changed, by their values in columns of two names: before, and after."""
    sides = []
    for side, source in enumerate((before, after)):
        content = [pair[side] for pair in names]
        key = [ROW_ID] if identity.row_ids else [pair[side] for pair in identity.key]
        columns = [*content, *key]
        batches = []
        for batch in read_rows(source, list(dict.fromkeys(columns))):
            rows = hashed(batch, content, key, tuple(blobs))
            if identity.row_ids:
                rows = _trusted(rows, batch, identity)
            batches.append(_placed(rows, identity, side))
        sides.append(pa.Table.from_batches(batches, HASHED))
    return compare_hashed(*sides)


def _placed(rows: pa.RecordBatch, identity: Identity, side: int) -> pa.RecordBatch:
    """Rows of fragments that are in both versions are recognized by their places, if there is no other way."""
    if identity.is_known or not identity.places or not rows.num_rows:
        return rows
    fragments = pc.shift_right(rows.column("address"), pa.scalar(_OFFSET_BITS, pa.uint64()))
    offsets = pc.bit_wise_and(rows.column("address"), pa.scalar(2**_OFFSET_BITS - 1, pa.uint64()))
    olds = pa.array(identity.places.keys() if side == 0 else identity.places.values(), pa.uint64())
    news = pa.array(identity.places.values(), pa.uint64())
    there = pc.take(news, pc.index_in(fragments, value_set=olds))
    place = pc.add(pc.shift_left(there, pa.scalar(_OFFSET_BITS, pa.uint64())), offsets)
    return pa.record_batch([rows.column("content"), place, rows.column("address")], schema=HASHED)


def examples(before: RowSource, after: RowSource, changes: RowChanges, limit: int) -> tuple[RowExample, ...]:
    """Up to ``limit`` rows of each kind, with all their columns."""
    deleted, added = changes.deleted[:limit].to_pylist(), changes.added[:limit].to_pylist()
    old, new = changes.changed_before[:limit].to_pylist(), changes.changed_after[:limit].to_pylist()
    earlier, later = _at(before, [*deleted, *old]), _at(after, [*added, *new])
    return (
        *(RowExample(DELETED, before=earlier[address]) for address in deleted),
        *(RowExample(ADDED, after=later[address]) for address in added),
        *(RowExample(CHANGED, earlier[one], later[other]) for one, other in zip(old, new, strict=True)),
    )


def _at(source: RowSource, addresses: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Rows by address."""
    offsets: dict[int, list[int]] = {}
    for address in addresses:
        offsets.setdefault(address >> _OFFSET_BITS, []).append(address & (2**_OFFSET_BITS - 1))
    if not offsets:
        return {}
    parts = tuple(FragmentRows(number, pa.array(places, pa.uint32())) for number, places in offsets.items())
    selected = RowSource(source.location, source.pin, parts)
    rows = [row for batch in read_rows(selected, _column_names(source)) for row in batch.to_pylist()]
    return {row.pop(ADDRESS): row for row in rows}


def _column_names(source: RowSource) -> list[str]:
    """All columns of the version that is read."""
    return list(stored_schema(source.location, source.pin).names)
