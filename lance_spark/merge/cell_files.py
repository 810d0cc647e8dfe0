"""Cells through pylance: reads the same rows in three versions, and writes the files of patches; runs on executors.

In: a patch with the addresses of its rows. Out: their values, in batches; or a data file with the patch's columns for
all rows of its home, with field ids of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import CorruptData
from lance_spark.format.blobs import without_rows
from lance_spark.format.row_values import ADDRESS
from lance_spark.format.schema import row_width
from lance_spark.format.storable import safe_batches
from lance_spark.merge.cell_rules import NOWHERE, CellColumn, CellRule, Cells, Form, Mask, aligned, decide_cells
from lance_spark.merge.change_rules import Patch, Rows
from lance_spark.scan.fragment_reads import ROW_ID, Scan, ScanColumns, read_batches, take_rows
from lance_spark.scan.partition_rules import ScanPartition, batch_rows
from lance_spark.storage.credentials import for_pylance
from lance_spark.storage.datasets import open_pinned
from lance_spark.storage.failures import translated
from lance_spark.write.data_files import StableRowIds

if TYPE_CHECKING:
    from lance.fragment import FragmentMetadata

_MOST = 8192
_BLOBS = 8


class PatchPlace(NamedTuple):
    here: DatasetLocation
    there: DatasetLocation
    base: PinnedVersion
    """In the chain of ours."""
    ours: PinnedVersion
    theirs: PinnedVersion


class _RowsOf:
    """Rows of one version, taken by address."""

    def __init__(
        self, location: DatasetLocation, pin: PinnedVersion, names: Mapping[int, str], blobs: Mapping[int, str]
    ) -> None:
        """``names`` and ``blobs`` are columns by their places."""
        self._location, self._pin, self._names, self._blobs = location, pin, names, blobs
        stable = open_pinned(location, pin).has_stable_row_ids
        self._ids = StableRowIds(location, pin) if stable else None

    def take(self, addresses: Rows) -> dict[int, pa.Array]:
        """The columns by place, with nulls for NOWHERE. Raises CorruptData for an address without a row."""
        if not (self._names or self._blobs):
            return {}
        missing = addresses == NOWHERE
        if missing.any():
            return self._with_nulls(missing, self.take(addresses[~missing]))
        names = tuple(dict.fromkeys(self._names.values()))
        ids = addresses if self._ids is None else self._ids.at(addresses)
        # In order, since pylance reads ascending rows faster; a deleted row of the same id is no longer found.
        values, places = np.unique(ids, return_inverse=True)
        if not len(values):
            schema = open_pinned(self._location, self._pin).schema
            none = dict.fromkeys(self._blobs, pa.array([], pa.string()))
            return {
                at: without_rows(pa.schema([schema.field(name)]))[0].combine_chunks()
                for at, name in self._names.items()
            } | none
        held = {at: self._held(name, values.tolist()).take(pa.array(places)) for at, name in self._blobs.items()}
        if not names:
            return held
        taken = pa.Table.from_batches(take_rows(Scan(self._location, self._pin, ScanColumns(names)), values.tolist()))
        if taken.num_rows != len(values):
            raise CorruptData(f"{len(values) - taken.num_rows} rows of {self._pin} cannot be read.")
        found = taken.take(pa.array(places)).combine_chunks()
        return {at: _whole(found[name]) for at, name in self._names.items()} | held

    def _held(self, name: str, ids: Sequence[int]) -> pa.Array:
        """What blobs hold, in a form that can be compared and shown."""
        dataset = open_pinned(self._location, self._pin)
        with translated(self._location, f"reading blobs of column '{name}'"):
            # take_blobs() of pylance looks for the marked bytes of inherited files in the branch's own directory.
            batches = dataset.scanner(
                columns=[name],
                filter=f"{ROW_ID} IN ({', '.join(map(str, ids))})",
                with_row_id=True,
                blob_handling="all_binary",
                batch_size=_BLOBS,
            ).to_batches()
            known = {
                key: None if blob is None else f"{len(blob):,} bytes with SHA-256 {sha256(blob).hexdigest()}"
                for batch in batches
                for key, blob in zip(batch[ROW_ID].to_pylist(), batch[name].to_pylist(), strict=True)
            }
        if len(known) != len(ids):
            raise CorruptData(f"{len(ids) - len(known)} blobs of column '{name}' of {self._pin} cannot be read.")
        return pa.array([known[key] for key in ids], pa.string())

    def _with_nulls(self, missing: Mask, taken: Mapping[int, pa.Array]) -> dict[int, pa.Array]:
        places = pa.array(np.cumsum(~missing) - 1, pa.int64(), mask=missing)
        return {at: values.take(places) for at, values in taken.items()}


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks() if column.num_chunks else pa.array([], column.type)


class _CellReader:
    """Reads the rows of a patch in all three versions."""

    def __init__(self, place: PatchPlace, columns: Sequence[CellColumn], patch: Patch) -> None:
        def rows_of(location: DatasetLocation, pin: PinnedVersion, names: Sequence[str | None]) -> _RowsOf:
            known = {at: name for at in patch.compared if (name := names[at]) is not None}
            blobs = {at: name for at, name in known.items() if columns[at].form is Form.BYTES}
            return _RowsOf(location, pin, {at: name for at, name in known.items() if at not in blobs}, blobs)

        self._patch = patch
        self._base = rows_of(place.here, place.base, [column.base for column in columns])
        self._ours = rows_of(place.here, place.ours, [column.ours for column in columns])
        self._theirs = rows_of(place.there, place.theirs, [column.theirs for column in columns])
        self._inner = {at: columns[at].inner for at in patch.compared if columns[at].inner}
        schema = open_pinned(place.here, place.ours).schema
        self.most = min(_MOST, batch_rows(3 * row_width(schema)))

    def cells(self, part: Patch) -> Cells:
        home = (part.home.id << 32) + part.rows
        ours, theirs = (home, part.other) if part.of_ours else (part.other, home)
        found = self._base.take(part.base), self._ours.take(ours), self._theirs.take(theirs)
        for at, inner in self._inner.items():
            for version, values in zip(found, aligned(inner, [each.get(at) for each in found]), strict=True):
                if values is not None:
                    version[at] = values
        named = np.where(part.base == NOWHERE, ours, part.base)
        return Cells(
            *found,
            len(part.rows),
            new=part.base == NOWHERE,
            names=named,
            only_ours=theirs == NOWHERE,
            only_theirs=ours == NOWHERE,
        )


def _slices(patch: Patch, most: int) -> Iterator[Patch]:
    for start in range(0, len(patch.rows), most):
        yield patch.part(slice(start, start + most))


def read_cells(place: PatchPlace, columns: Sequence[CellColumn], patch: Patch) -> Iterator[tuple[Cells, Patch]]:
    """The values of a patch's rows, batch by batch, each with its part of the patch."""
    reader = _CellReader(place, columns, patch)
    for part in _slices(patch, reader.most):
        yield reader.cells(part), part


# --- Writing a patch: one file with its columns, for all rows of its home


def write_patch(place: PatchPlace, columns: Sequence[CellColumn], patch: Patch, rule: CellRule) -> dict[str, Any]:
    """Write the file below the root of ours; returns pylance's JSON of it, with field ids of its own.

    Rows that are not contested keep what they have; in new columns they have nulls.
    """
    from lance.fragment import write_fragments

    schema = _schema(place, columns, patch)
    ours = open_pinned(place.here, place.ours)
    batches = safe_batches(_batches(place, columns, patch, rule, schema), max(1, patch.home.physical_rows))
    with translated(place.here, "writing merged columns"):
        # As if for a new table: the commit gives its fields the ids that the columns have in the merged one.
        written: Sequence[FragmentMetadata] = write_fragments(
            pa.RecordBatchReader.from_batches(schema, batches),
            ours,
            schema=schema,
            mode="overwrite",
            data_storage_version=str(ours.data_storage_version),
            max_rows_per_file=max(1, patch.home.physical_rows),
            max_rows_per_group=max(1, min(1024, patch.home.physical_rows)),
            max_bytes_per_file=2**62,
            **for_pylance(place.here),
        )
    found = [entry.to_json() for entry in written]
    if len(found) != 1 or found[0]["physical_rows"] != patch.home.physical_rows:
        raise CorruptData(f"The merged columns of fragment {patch.home.id} have other rows than it.")
    file: dict[str, Any] = found[0]["files"][0]
    return file


def _schema(place: PatchPlace, columns: Sequence[CellColumn], patch: Patch) -> pa.Schema:
    ours = open_pinned(place.here, place.ours).schema
    theirs = open_pinned(place.there, place.theirs).schema
    fields = []
    for at in patch.columns:
        column = columns[at]
        field = ours.field(column.ours) if column.ours is not None else theirs.field(column.theirs)
        fields.append(field.with_name(column.name))
    return pa.schema(fields)


def _batches(
    place: PatchPlace, columns: Sequence[CellColumn], patch: Patch, rule: CellRule, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """All physical rows of the home, in order. Deleted rows repeat a neighbor, as no column may lack a value."""
    reader = _CellReader(place, columns, patch)
    decided = tuple(patch.columns)
    location, pin = (place.here, place.ours) if patch.of_ours else (place.there, place.theirs)
    own = {at: columns[at].ours if patch.of_ours else columns[at].theirs for at in decided}
    names = tuple(name for name in own.values() if name is not None)
    scan = Scan(location, pin, ScanColumns(names, with_row_address=True), batch_size=reader.most)
    reached = 0
    last: pa.RecordBatch | None = None
    for batch in read_batches(scan, ScanPartition((patch.home.id,))):
        offsets: Rows = np.asarray(batch.column(ADDRESS).to_numpy(zero_copy_only=False), np.int64) & 0xFFFFFFFF
        values = [
            pa.nulls(batch.num_rows, field.type) if own[at] is None else batch.column(own[at])
            for at, field in zip(decided, schema, strict=True)
        ]
        low, high = np.searchsorted(patch.rows, [offsets[0], offsets[-1] + 1])
        if high > low:
            part = patch.part(slice(low, high))
            found = decide_cells(columns, decided, reader.cells(part), rule).values
            places = np.searchsorted(offsets, part.rows)
            values = [_put(old, places, found[at]) for old, at in zip(values, decided, strict=True)]
        last = pa.RecordBatch.from_arrays(values, schema=schema)
        end = int(offsets[-1]) + 1
        yield _spread(last, offsets, reached, end)
        reached = end
    if last is not None and reached < patch.home.physical_rows:
        gap = np.full(patch.home.physical_rows - reached, last.num_rows - 1)
        yield last.take(pa.array(gap))


def _put(old: pa.Array, places: Rows, new: pa.Array) -> pa.Array:
    """The column with new values at some places."""
    at = np.arange(len(old), dtype=np.int64)
    at[places] = len(old) + np.arange(len(places))
    return pa.concat_arrays([old, new.cast(old.type)]).take(pa.array(at))


def _spread(batch: pa.RecordBatch, offsets: Rows, start: int, end: int) -> pa.RecordBatch:
    """The rows at their offsets, and in between repetitions of the next one."""
    if end - start == batch.num_rows:
        return batch
    return batch.take(pa.array(np.searchsorted(offsets, np.arange(start, end))))


def numbered(file: Mapping[str, Any], ids: Sequence[Sequence[int]]) -> dict[str, Any]:
    """A written file with the ids that its columns have in the merged table; fields inside a column follow it."""
    flat = [key for column in ids for key in column]
    return {**file, "fields": [flat[key] for key in file["fields"]]}
