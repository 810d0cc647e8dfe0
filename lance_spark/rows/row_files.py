"""Rows on executors: writes new ones, marks old ones as deleted, and finds rows by key through an index."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import CorruptData
from lance_spark.format.python_values import python_rows
from lance_spark.format.schema import ROW_ADDRESS, conform
from lance_spark.pushdown.filters import literal
from lance_spark.rows.action_rules import DELETE, INSERT, NEW, OPERATION, OUTCOMES, PARTS, UPDATE, checksum
from lance_spark.scan.fragment_reads import fragment_sizes
from lance_spark.storage.datasets import open_pinned
from lance_spark.storage.failures import translated
from lance_spark.write.data_files import Addresses, KeptColumns, PartsJob, StableRowIds, cut_where, not_live, write_rows

if TYPE_CHECKING:
    from pyroaring import BitMap

_NO_PART: dict[str, Any] = {"fragment": NEW, "rows": 0, "checksum": 0}
"""What is missing is null."""


def write_parts(task: PartsJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """PARTS of one task's rows of an action frame; updated and inserted rows get fragments of their own.

    Sort the rows by operation: each change of operation begins another fragment.
    """
    job = task.write
    assert job.start is not None
    found = _Found()
    row_ids = StableRowIds(job.plan.location, job.start) if task.target.stable_row_ids else None
    kept = KeptColumns(task, row_ids)
    pieces = cut_where(batches, lambda batch: batch.column(OPERATION).to_numpy(zero_copy_only=False))
    for operation, run in groupby(pieces, key=lambda piece: piece[0]):
        rows = (found.noted(operation, batch) for _, batch in run)
        if operation == DELETE:
            for _ in rows:
                pass
            continue
        addresses: list[Addresses] = []
        if operation == UPDATE:
            # With stable row ids, each row gets its own back, by its place.
            new = write_rows(kept.job, kept.completed(rows, addresses), order="free" if row_ids is None else "kept")
            written = [json.loads(entry) for entry in new]
        else:
            written = [json.loads(entry) for entry in write_rows(job, (batch for batch, _ in rows))]
        total = 0
        if operation == UPDATE:
            flat = np.concatenate(addresses) if addresses else np.zeros(0, np.int64)
            total = int(np.sum(flat, dtype=np.uint64)) if len(flat) else 0
            if row_ids is not None:
                row_ids.give(written, flat)
        for entry in written:
            part = {"metadata": json.dumps(entry), "operation": operation, "rows": entry["physical_rows"]}
            yield pa.RecordBatch.from_pylist([{**_NO_PART, **part, "checksum": checksum(total)}], schema=PARTS)
            total = 0
    yield pa.RecordBatch.from_pylist(found.parts(), schema=PARTS)


class _Found:
    """Which rows of which fragments change, as one task sees it."""

    def __init__(self) -> None:
        self._deleted: dict[int, BitMap] = {}
        self._updated: dict[int, BitMap] = {}
        self._twice: int | None = None

    def noted(self, operation: int, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Addresses]:
        if operation == INSERT:
            return batch, np.zeros(0, np.int64)
        column = batch.column(ROW_ADDRESS)
        if operation not in (DELETE, UPDATE) or column.null_count:
            raise CorruptData(f"An action frame has operation {operation}, or a row without an address.")
        addresses: Addresses = column.to_numpy().astype(np.int64)
        fragments = addresses >> 32
        order = np.argsort(fragments, kind="stable")
        keys, starts = np.unique(fragments[order], return_index=True)
        for key, part in zip(keys.tolist(), np.split(addresses[order], starts[1:]), strict=True):
            self._note(operation, key, (part & 0xFFFFFFFF).astype(np.uint32))
        return batch, addresses

    def _note(self, operation: int, fragment: int, offsets: npt.NDArray[np.uint32]) -> None:
        from pyroaring import BitMap

        own = BitMap(offsets)
        deleted, updated = (known.setdefault(fragment, BitMap()) for known in (self._deleted, self._updated))
        again = own & updated if operation == DELETE else own & (updated | deleted)
        if operation == UPDATE and len(own) < len(offsets):
            values, counts = np.unique(offsets, return_counts=True)
            again |= BitMap(values[counts > 1])
        if again and self._twice is None:
            self._twice = (fragment << 32) + again[0]
        (deleted if operation == DELETE else updated).update(own)

    def parts(self) -> list[dict[str, Any]]:
        maps = {"deleted": self._deleted, "updated": self._updated}
        parts: list[dict[str, Any]] = [
            {**_NO_PART, "fragment": key, **{name: found[key].serialize() for name, found in maps.items()}}
            for key in sorted(self._updated)
        ]
        if parts:
            parts[0]["twice"] = self._twice
        return parts


def delete_offsets(location: DatasetLocation, pin: PinnedVersion, parts: pa.Table) -> pa.Table:
    """OUTCOMES of all PARTS of one fragment. pylance writes a deletion file, which is invisible until the commit.

    Raises CorruptData unless all rows to be deleted are live in that version.
    """
    from pyroaring import BitMap

    rows = parts.to_pylist()
    key = rows[0]["fragment"]
    if key == NEW:
        blank = {"deleted": 0, "updated": 0}
        return pa.Table.from_pylist([{**row, **blank} for row in rows], schema=OUTCOMES)
    deleted, updated = BitMap(), BitMap()
    twice = next((row["twice"] for row in rows if row["twice"] is not None), None)
    for row in rows:
        removed, again = BitMap.deserialize(row["deleted"]), BitMap.deserialize(row["updated"])
        both = (removed & updated) | (again & (updated | deleted))
        if both and twice is None:
            twice = (key << 32) + both[0]
        deleted |= removed
        updated |= again
    metadata = None if twice is not None else without_rows(location, pin, key, deleted | updated)
    numbers = np.fromiter(updated, np.uint64, len(updated))
    outcome = {
        "fragment": key,
        "metadata": metadata,
        "deleted": len(deleted),
        "updated": len(updated),
        "rows": 0,
        "checksum": checksum(int(np.sum(numbers, dtype=np.uint64)) + len(updated) * (key << 32)),
        "twice": twice,
    }
    return pa.Table.from_pylist([outcome], schema=OUTCOMES)


def without_rows(location: DatasetLocation, pin: PinnedVersion, fragment: int, offsets: Iterable[int]) -> str | None:
    """A fragment without some of its live rows, as pylance's JSON; None if none is left. Writes a deletion file."""
    dataset = open_pinned(location, pin)
    gone = list(offsets)
    with translated(location, "deleting rows"):
        before = dataset.get_fragment(fragment)
        if before is None:
            raise CorruptData(f"Version {pin} of {location.uri} has no fragment {fragment}.")
        left = before.delete_rows(gone)
        live = before.count_rows()
    found = None if left is None else left.to_json()
    deletion = None if found is None else found["deletion_file"]
    after = 0 if found is None else before.physical_rows - (deletion["num_deleted_rows"] if deletion else 0)
    if live - after != len(gone):
        raise not_live(location, pin, fragment)
    return None if found is None else json.dumps(found)


def take_row(location: DatasetLocation, pin: PinnedVersion, address: int, columns: tuple[str, ...]) -> dict[str, Any]:
    dataset = open_pinned(location, pin)
    names = [name for name in columns if name in dataset.schema.names] or dataset.schema.names[:3]
    with translated(location, "reading a row"):
        fragment = dataset.get_fragment(address >> 32)
        rows = python_rows(fragment.scanner(columns=names, filter=f"_rowaddr = {address}").to_table())
    return dict(rows[0]) if rows else {}


# --- Finding rows by key through an index; runs on executors

_KEYS = 4096
"""How many keys one lookup takes."""
_EXACT = frozenset({"BTree", "BTREE", "Bitmap", "BITMAP"})


class Lookup(NamedTuple):
    location: DatasetLocation
    pin: PinnedVersion
    key: str
    wire: pa.Schema
    """The columns to return, the key among them, in Spark's types, and the row's address."""


def rows_outside(location: DatasetLocation, pin: PinnedVersion, key: str) -> tuple[int, int] | None:
    """(rows, rows in fragments that no index on the column covers); None if there is no such index."""
    dataset = open_pinned(location, pin)
    with translated(location, "describing the indexes"):
        known = [
            fragment
            for index in dataset.describe_indices()
            if list(index.field_names) == [key] and index.index_type in _EXACT
            for segment in index.segments
            for fragment in segment.fragment_ids
        ]
    if not known:
        return None
    sizes = fragment_sizes(location, pin)
    covered = frozenset(known)
    return (
        sum(size.live_rows for size in sizes),
        sum(size.live_rows for size in sizes if size.fragment_id not in covered),
    )


def with_matches(lookup: Lookup, names: tuple[str, str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each row next to each row of the table that has its key, as two structs of these names.

    A row without a match appears once, with nulls beside it.
    """
    for batch in batches:
        for start in range(0, batch.num_rows, _KEYS):
            part = batch.slice(start, _KEYS)
            keys = part.column(lookup.key).to_pylist()
            found = _rows(lookup, sorted({key for key in keys if key is not None}))
            mine, theirs = _pairs(keys, found.column(lookup.key).to_pylist())
            given, other = part.take(pa.array(mine, pa.int64())), found.take(pa.array(theirs, pa.int64()))
            sides = [_struct(given), _struct(other)]
            yield pa.RecordBatch.from_arrays(sides, list(names))


def _pairs(keys: list[object], found: list[object]) -> tuple[list[int], list[int | None]]:
    places: dict[object, list[int]] = {}
    for place, key in enumerate(found):
        places.setdefault(key, []).append(place)
    mine: list[int] = []
    theirs: list[int | None] = []
    for position, key in enumerate(keys):
        matches: list[int | None] = [*places.get(key, ())] if key is not None else []
        matches = matches or [None]
        mine += [position] * len(matches)
        theirs += matches
    return mine, theirs


def _struct(batch: pa.RecordBatch) -> pa.StructArray:
    return pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))


def _rows(lookup: Lookup, keys: list[object]) -> pa.RecordBatch:
    """The rows of the table that have one of the keys."""
    dataset = open_pinned(lookup.location, lookup.pin)
    kind = dataset.schema.field(lookup.key).type
    texts = [text for key in keys if isinstance(text := literal(key, kind), str)]
    names = [name for name in lookup.wire.names if name != "_rowaddr"]
    empty = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in lookup.wire], schema=lookup.wire)
    if not texts:
        return empty
    quoted = "`" + lookup.key + "`"
    with translated(lookup.location, "looking up keys"):
        scanner = dataset.scanner(
            columns=names, with_row_address=True, filter=f"{quoted} IN ({', '.join(texts)})", prefilter=True
        )
        found = [conform(batch, lookup.wire) for batch in scanner.to_batches() if batch.num_rows]
    whole = pa.Table.from_batches([empty, *found]).combine_chunks().to_batches()
    return whole[0] if whole else empty
