"""Values of rows that are written anew: columns that stay as they are, and stable row ids; runs on executors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.errors import CorruptData, LanceSparkError, NotCommittable
from lance_spark.location import DatasetLocation
from lance_spark.merge.row_ids import read_row_ids
from lance_spark.refs.model import PinnedVersion
from lance_spark.scan.plan import batch_rows
from lance_spark.schema.blobs import is_blob
from lance_spark.schema.width import row_width
from lance_spark.store.datasets import open_pinned
from lance_spark.store.failures import translated
from lance_spark.store.scanning import Scan, ScanColumns, take_rows
from lance_spark.write.plan import WriteJob, WriteTarget

Addresses = npt.NDArray[np.int64]


class PartsJob(NamedTuple):
    """What a task needs to write the rows of an action frame."""

    write: WriteJob
    """With the columns that the frame has."""
    target: WriteTarget
    kept: tuple[str, ...] = ()
    """Columns of which updated rows keep their values; they are read from the table."""


def kept_columns(schema: pa.Schema, sets: frozenset[str] | None) -> tuple[str, ...]:
    """The columns that an update of some columns leaves as they are. Blobs have to be handed over as bytes."""
    return tuple(field.name for field in schema if sets is not None and field.name not in sets and not is_blob(field))


class KeptColumns:
    """Completes rows that are written anew by the columns that stay as they are."""

    def __init__(self, task: PartsJob, row_ids: StableRowIds | None) -> None:
        given = task.write.plan.schema.names
        names = [name for name in task.target.schema.names if name in given or name in task.kept]
        schema = pa.schema([task.target.schema.field(name) for name in names], metadata=task.target.schema.metadata)
        self.job = replace(task.write, plan=replace(task.write.plan, schema=schema))
        self._names = task.kept
        self._row_ids = row_ids
        self._most = batch_rows(row_width(schema))

    def completed(
        self, rows: Iterable[tuple[pa.RecordBatch, Addresses]], addresses: list[Addresses]
    ) -> Iterator[pa.RecordBatch]:
        """The rows with all of their columns; their addresses are added to the list."""
        for batch, own in rows:
            addresses.append(own)
            if not self._names:
                yield batch
                continue
            for start in range(0, batch.num_rows, self._most):
                part = batch.slice(start, self._most)
                yield self._with_kept(part, own[start : start + self._most])

    def _with_kept(self, batch: pa.RecordBatch, addresses: Addresses) -> pa.RecordBatch:
        """Raises CorruptData for an address at which there is no row."""
        plan, start = self.job.plan, self.job.start
        assert start is not None
        ids = addresses if self._row_ids is None else self._row_ids.at(addresses)
        values, places = np.unique(ids, return_inverse=True)
        scan = Scan(plan.location, start, ScanColumns(self._names))
        taken = pa.Table.from_batches(take_rows(scan, values.tolist()))
        if taken.num_rows != len(values):
            raise not_live(plan.location, start, int(addresses[0]) >> 32)
        (old,) = taken.take(pa.array(places)).combine_chunks().to_batches()
        known = {name: old.column(name) for name in self._names}
        columns = [known[name] if name in known else batch.column(name) for name in plan.schema.names]
        return pa.RecordBatch.from_arrays(columns, plan.schema.names)


class StableRowIds:
    """Stable row ids of the table's rows, by their addresses."""

    def __init__(self, location: DatasetLocation, pin: PinnedVersion) -> None:
        self._location, self._pin = location, pin
        self._known: dict[int, npt.NDArray[np.int64]] = {}

    def give(self, written: list[dict[str, Any]], addresses: Addresses) -> None:
        """Let rows that were written anew, in this order, keep their row ids."""
        if len(np.unique(addresses)) < len(addresses):
            return  # a row that would change twice: the whole change is refused
        with_row_ids(self._location, written, self.at(addresses))

    def at(self, addresses: Addresses) -> npt.NDArray[np.int64]:
        """The row ids of rows."""
        ids = np.empty(len(addresses), np.int64)
        fragments = addresses >> 32
        for key in np.unique(fragments).tolist():
            mask = fragments == key
            ids[mask] = self._of(key)[addresses[mask] & 0xFFFFFFFF]
        return ids

    def _of(self, fragment: int) -> npt.NDArray[np.int64]:
        if fragment not in self._known:
            found = open_pinned(self._location, self._pin).get_fragment(fragment).metadata.to_json()["row_id_meta"]
            inline = next((value for key, value in (found or {}).items() if key.lower() == "inline"), None)
            if inline is None:
                raise NotCommittable(
                    "The row ids of the table are kept in files of their own, which this release cannot read.",
                    hint="Compact the table first.",
                )
            self._known[fragment] = np.array(read_row_ids(bytes(inline)), np.int64)
        return self._known[fragment]


def with_row_ids(location: DatasetLocation, written: list[dict[str, Any]], ids: Addresses) -> None:
    """Give the rows of new fragments, as pylance's JSON, these stable row ids, in their order."""
    from lance.fragment import FragmentMetadata, RowIdSequence

    start = 0
    for entry in written:
        end = start + entry["physical_rows"]
        with translated(location, "writing row ids"):
            metadata = FragmentMetadata.from_json(json.dumps(entry))
            metadata.row_id_meta = RowIdSequence(ids[start:end].tolist()).to_inline_metadata()
            entry.update(metadata.to_json())
        start = end


def not_live(location: DatasetLocation, pin: PinnedVersion, fragment: int) -> LanceSparkError:
    """The error for addresses at which no row lives."""
    return CorruptData(
        f"Rows to be changed are not in fragment {fragment} of version {pin} of {location.uri}; nothing was changed.",
        hint="Addresses of rows belong to one version: read them from the version that is changed.",
    )
