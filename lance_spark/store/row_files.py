"""Writes the files of a change of rows: new rows, then which old ones are gone; runs on executors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.errors import CorruptData
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.rows.messages import NEW, OUTCOMES, PARTS, checksum
from lance_spark.rows.model import DELETE, INSERT, OPERATION, UPDATE
from lance_spark.schema.projection import ROW_ADDRESS
from lance_spark.store.datasets import open_pinned
from lance_spark.store.failures import translated
from lance_spark.store.row_values import Addresses, KeptColumns, PartsJob, StableRowIds, not_live
from lance_spark.store.writing import write_rows

if TYPE_CHECKING:
    from pyroaring import BitMap

_NO_PART: dict[str, Any] = {
    "fragment": NEW,
    "deleted": None,
    "updated": None,
    "metadata": None,
    "operation": None,
    "rows": 0,
    "checksum": 0,
    "twice": None,
}


def write_parts(task: PartsJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """PARTS of one task's rows of an action frame; updated and inserted rows get fragments of their own.

    The rows should come sorted by operation: each change of it begins another fragment.
    """
    job = task.write
    assert job.start is not None
    found = _Found()
    row_ids = StableRowIds(job.plan.location, job.start) if task.target.stable_row_ids else None
    kept = KeptColumns(task, row_ids)
    for operation, run in groupby(_pieces(batches), key=lambda piece: piece[0]):
        rows = (found.noted(operation, batch) for _, batch in run)
        if operation == DELETE:
            for _ in rows:
                pass
            continue
        addresses: list[Addresses] = []
        if operation == UPDATE:
            written = [json.loads(entry) for entry in write_rows(kept.job, kept.completed(rows, addresses))]
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
            yield _parts([{**_NO_PART, **part, "checksum": checksum(total)}])
            total = 0
    yield _parts(found.parts())


def _parts(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=PARTS)


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows, cut wherever the operation changes."""
    for batch in batches:
        operations = batch.column(OPERATION).to_numpy(zero_copy_only=False)
        cuts = [0, *(np.flatnonzero(np.diff(operations)) + 1).tolist(), batch.num_rows]
        for start, end in pairwise(cuts):
            if end > start:
                yield int(operations[start]), batch.slice(start, end - start)


class _Found:
    """Which rows of which fragments change, as one task sees it."""

    def __init__(self) -> None:
        self._deleted: dict[int, BitMap] = {}
        self._updated: dict[int, BitMap] = {}
        self._twice: int | None = None

    def noted(self, operation: int, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Addresses]:
        """The batch, with the addresses of its rows."""
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
        """PARTS of the fragments of the table."""
        parts = [
            {
                **_NO_PART,
                "fragment": key,
                "deleted": self._deleted[key].serialize(),
                "updated": self._updated[key].serialize(),
            }
            for key in sorted(self._updated)
        ]
        if parts:
            parts[0]["twice"] = self._twice
        return parts


def delete_offsets(location: DatasetLocation, pin: PinnedVersion, parts: pa.Table) -> pa.Table:
    """OUTCOMES of all PARTS of one fragment; pylance writes a deletion file, which nobody reads before the commit.

    Raises CorruptData unless all rows to be deleted live in that version.
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
        "operation": None,
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
    after = 0 if found is None else before.physical_rows - _number_deleted(found)
    if live - after != len(gone):
        raise not_live(location, pin, fragment)
    return None if found is None else json.dumps(found)


def _number_deleted(fragment: dict[str, Any]) -> int:
    deletion = fragment["deletion_file"]
    return int(deletion["num_deleted_rows"]) if deletion else 0


def take_row(location: DatasetLocation, pin: PinnedVersion, address: int, columns: tuple[str, ...]) -> dict[str, Any]:
    """Some columns of one row."""
    dataset = open_pinned(location, pin)
    names = [name for name in columns if name in dataset.schema.names] or dataset.schema.names[:3]
    with translated(location, "reading a row"):
        fragment = dataset.get_fragment(address >> 32)
        rows = fragment.scanner(columns=names, filter=f"_rowaddr = {address}").to_table().to_pylist()
    return dict(rows[0]) if rows else {}
