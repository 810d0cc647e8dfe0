"""Writes the values of new columns into data files of their own, fragment by fragment; runs on executors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark.backfill.model import FILLED, FilledFile, FillOrder, temporary_schema
from lance_spark.errors import CorruptData, LanceSparkError, SchemaMismatch
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.schema.align import align
from lance_spark.schema.conform import conform_column
from lance_spark.schema.projection import ROW_ADDRESS
from lance_spark.store.column_nulls import keeping
from lance_spark.store.column_records import write_record
from lance_spark.store.datasets import open_pinned
from lance_spark.store.failures import translated

if TYPE_CHECKING:
    from lance.fragment import LanceFragment
    from lance.schema import LanceField

_DOING = "writing the values of new columns"


class FillJob(NamedTuple):
    """Which version gets which columns."""

    location: DatasetLocation
    pin: PinnedVersion
    schema: pa.Schema
    """The columns, as they are stored."""
    order: FillOrder


def fill_fragment(job: FillJob, number: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """FILLED of one fragment, whose live rows have the values of ``batches``, in their order.

    The columns are taken by their place. Raises SchemaMismatch for another number of rows than the fragment has, or
    for values that do not fit; CorruptData if the file lacks rows.
    """
    with translated(job.location, _DOING):
        fragment = open_pinned(job.location, job.pin).get_fragment(number)
        if fragment is None:
            raise CorruptData(f"pylance does not find fragment {number} of {job.pin}.")
        if job.order.keep and {*job.schema.names} <= {*fragment.schema.names}:
            batches = keeping(job.location, job.pin, number, batches, job.schema)
        rows = _Values(batches, job.schema, number, fragment.count_rows())
    written = _write(job.location, fragment, rows)
    check_whole(job.location, job.pin.branch, written)
    if job.order.records is not None:
        write_record(job.location, job.pin.branch, job.order.records, written)
    yield pa.RecordBatch.from_pylist([written._asdict()], FILLED)


def fill_fragments(job: FillJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """FILLED of all fragments that have rows in ``batches``: the row addresses first, in their order, then values."""
    for number, rows in by_fragment(batches):
        yield from fill_fragment(job, number, map(_without_addresses, rows))


def by_fragment(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
    """The rows of each fragment, to be read before those of the next one.

    Raises SchemaMismatch for another order than that of their addresses.
    """
    for number, parts in groupby(_parts(batches), key=lambda part: part[0]):
        yield number, _in_order(number, (part for _, part in parts))


def _write(location: DatasetLocation, fragment: LanceFragment, rows: _Values) -> FilledFile:
    """The file, with blanks for deleted rows, which pylance puts in."""
    before = {file.path for file in fragment.metadata.files}
    reader = pa.RecordBatchReader.from_batches(rows.schema, rows)
    try:
        with translated(location, _DOING):
            made, schema = fragment.merge_columns(reader)
    except LanceSparkError as problem:
        # pylance wraps what the stream raised into its own text; the original says it better.
        raise rows.failure or problem from None
    rows.check_end()
    (file,) = [entry for entry in made.to_json()["files"] if entry["path"] not in before]
    columns = {entry.name(): preorder(entry) for entry in schema.fields()}
    ids = [columns[name] for name in rows.schema.names]
    size = int(file["file_size_bytes"] or 0)
    return FilledFile(fragment.fragment_id, json.dumps(file), json.dumps(ids), fragment.physical_rows, size)


def check_whole(location: DatasetLocation, branch: str | None, written: FilledFile) -> None:
    """Raise CorruptData unless a file holds all physical rows: pylance commits a shorter one, and cannot read it."""
    from lance.file import LanceFileReader

    path = f"{location.branch_uri(branch)}/data/{json.loads(written.file)['path']}"
    with translated(location, "reading the file of new columns"):
        rows = LanceFileReader(path, storage_options=location.storage_options).num_rows()
    if rows != written.rows:
        raise CorruptData(
            f"The file of new columns of fragment {written.fragment} has {rows} rows of {written.rows}.",
            hint="Run it again.",
        )


def preorder(field: LanceField) -> list[int]:
    """The id of a field, and of all fields inside it."""
    return [field.id(), *(key for child in field.children() for key in preorder(child))]


class _Values(Iterator[pa.RecordBatch]):
    """Values brought to the stored types, and counted; remembers what went wrong."""

    def __init__(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, fragment: int, rows: int) -> None:
        self.schema = temporary_schema(schema)
        self._stored = schema
        self._columns = ", ".join(f"'{name}'" for name in schema.names)
        self._batches = iter(batches)
        self._fragment = fragment
        self._rows = rows
        self._seen = 0
        self.failure: Exception | None = None

    def __next__(self) -> pa.RecordBatch:
        try:
            batch = next(self._batches)
            while not batch.num_rows:
                batch = next(self._batches)
            self._seen += batch.num_rows
            if self._seen > self._rows:
                self._wrong_count("more than ")
            columns = [conform_column(column, field) for field, column in zip(self._stored, batch.columns, strict=True)]
            return align(pa.RecordBatch.from_arrays(columns, schema=self.schema))
        except StopIteration:
            self.check_end()
            raise
        except Exception as failure:
            self.failure = self.failure or failure
            raise

    def check_end(self) -> None:
        if self._seen != self._rows:
            self._wrong_count("")

    def _wrong_count(self, more: str) -> None:
        least = self._rows if more else self._seen
        self.failure = SchemaMismatch(
            f"Fragment {self._fragment} has {self._rows} rows, and {more}{least} values came for {self._columns}.",
            hint="Give each row one value: what is computed for a row may not depend on how rows are grouped. For "
            "values that do, make a DataFrame with a key: add_columns(df, on=key).",
        )
        raise self.failure


def _parts(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches cut where another fragment begins."""
    for batch in batches:
        fragments = batch.column(ROW_ADDRESS).to_numpy(zero_copy_only=False) >> 32
        cuts = [0, *(np.flatnonzero(np.diff(fragments)) + 1).tolist(), batch.num_rows]
        for first, end in pairwise(cuts):
            if end > first:
                yield int(fragments[first]), batch.slice(first, end - first)


def _in_order(number: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows, after a look at the addresses. Raises SchemaMismatch for a row that comes twice or out of turn."""
    last = -1
    for batch in batches:
        addresses: Any = batch.column(ROW_ADDRESS).to_numpy(zero_copy_only=False)
        if addresses[0] <= last or (np.diff(addresses) <= 0).any():
            raise SchemaMismatch(
                f"The values for fragment {number} came in another order than its rows.",
                hint="Give each row one value by an expression over its own columns; for others make a DataFrame "
                "with a key: add_columns(df, on=key).",
            )
        last = addresses[-1]
        yield batch


def _without_addresses(batch: pa.RecordBatch) -> pa.RecordBatch:
    place = batch.schema.get_field_index(ROW_ADDRESS)
    return batch.select([name for at, name in enumerate(batch.schema.names) if at != place])
