"""Values of a function for the rows that a condition is true for; the others keep theirs. Runs on executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.errors import CorruptData
from lance_spark.scan.plan import ScanPartition
from lance_spark.schema.conform import conform_column
from lance_spark.schema.projection import ROW_ADDRESS
from lance_spark.store.column_files import by_fragment, fill_fragment
from lance_spark.store.column_functions import ColumnFunction, FunctionItem, callable_of, called
from lance_spark.store.datasets import open_pinned
from lance_spark.store.row_queue import RowQueue
from lance_spark.store.row_values import StableRowIds
from lance_spark.store.scanning import Scan, ScanColumns, read_batches, take_rows

CHOSEN = "__chosen"
"""Column of the rows of a version: whether the condition is true."""


class _Chosen(NamedTuple):
    mask: npt.NDArray[np.bool_]
    """Of the live rows of a fragment, in their order."""
    addresses: npt.NDArray[np.int64]
    """Of the rows that are meant."""


def fill_chosen(
    function: ColumnFunction | type, make: Callable[[int], FunctionItem], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """FILLED of all fragments that have rows in ``batches``, of addresses, in their order, and CHOSEN.

    ``make`` gives what there is to do for a fragment. The function gets the rows that were chosen, and nothing else.
    Raises SchemaMismatch for what it may not return.
    """
    call = callable_of(function)
    for number, rows in by_fragment(batches):
        item = make(number)
        yield from fill_fragment(item.job, number, _values(call, item, _chosen(rows)))


def _chosen(rows: Iterable[pa.RecordBatch]) -> _Chosen:
    masks, found = [], []
    for batch in rows:
        mask: Any = batch.column(CHOSEN).to_numpy(zero_copy_only=False)
        masks.append(mask.astype(bool))
        found.append(batch.column(ROW_ADDRESS).to_numpy(zero_copy_only=False)[masks[-1]])
    return _Chosen(np.concatenate(masks), np.concatenate(found))


def _values(call: ColumnFunction, item: FunctionItem, chosen: _Chosen) -> Iterator[pa.RecordBatch]:
    """The values of all live rows of a fragment: those that are stored, with new ones in their places."""
    schema = item.job.schema
    scan = Scan(item.job.location, item.job.pin, ScanColumns(tuple(schema.names)))
    new = RowQueue(_new_values(call, item, chosen.addresses))
    first = 0
    for old in read_batches(scan, ScanPartition((item.fragment,))):
        mask = chosen.mask[first : first + old.num_rows]
        first += old.num_rows
        if len(mask) < old.num_rows:
            break
        yield _put(old, mask, new.take(int(mask.sum())), schema) if mask.any() else old
    if first != len(chosen.mask):
        raise CorruptData(f"The condition was not computed for each row of fragment {item.fragment}.")


def _new_values(call: ColumnFunction, item: FunctionItem, addresses: npt.NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
    job = item.job
    scan = Scan(job.location, job.pin, ScanColumns(item.columns))
    stable = open_pinned(job.location, job.pin).has_stable_row_ids
    ids = StableRowIds(job.location, job.pin).at(addresses) if stable else addresses
    for start in range(0, len(ids), item.batch_size):
        wanted = ids[start : start + item.batch_size].tolist()
        rows = pa.Table.from_batches(take_rows(scan, wanted)).combine_chunks()
        if rows.num_rows != len(wanted):
            raise CorruptData(f"{len(wanted) - rows.num_rows} rows of fragment {item.fragment} cannot be read.")
        (batch,) = rows.to_batches()
        values = called(call, batch, item)
        columns = [conform_column(column, field) for field, column in zip(job.schema, values.columns, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, job.schema.names)


def _put(old: pa.RecordBatch, mask: npt.NDArray[np.bool_], new: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    places = np.arange(len(mask))
    places[mask] = len(mask) + np.arange(new.num_rows)
    columns = []
    for place, field in enumerate(schema):
        both = [old.column(place).cast(field.type), *new.column(place).chunks]
        columns.append(pa.concat_arrays(both).take(pa.array(places)))
    return pa.RecordBatch.from_arrays(columns, schema.names)
