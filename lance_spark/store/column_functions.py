"""Runs a user's function over the rows of a fragment; on executors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import SchemaMismatch
from lance_spark.scan.plan import ScanPartition
from lance_spark.store.column_files import FillJob, fill_fragment
from lance_spark.store.scanning import Scan, ScanColumns, read_batches

ColumnFunction = Callable[[pa.RecordBatch], Any]
"""From a batch of rows to a batch or table of new columns, or a dict of arrays by name."""

_made: dict[type, ColumnFunction] = {}
"""The objects of classes that were given as functions: one for each worker, with the model that it loaded."""


class FunctionItem(NamedTuple):
    """A fragment that a function is applied to."""

    job: FillJob
    fragment: int
    columns: tuple[str, ...]
    batch_size: int


def fill_by_function(function: ColumnFunction | type, item: FunctionItem) -> Iterator[pa.RecordBatch]:
    """FILLED of one fragment. Raises SchemaMismatch for what the function may not return."""
    job = item.job
    scan = Scan(job.location, job.pin, ScanColumns(item.columns), batch_size=item.batch_size)
    call = callable_of(function)
    rows = read_batches(scan, ScanPartition((item.fragment,)))
    return fill_fragment(job, item.fragment, (called(call, batch, item) for batch in rows))


def callable_of(function: ColumnFunction | type) -> ColumnFunction:
    """The function to call; of a class the one object of this process."""
    if not isinstance(function, type):
        return function
    if function not in _made:
        _made[function] = function()
    return _made[function]


def called(function: ColumnFunction, batch: pa.RecordBatch, item: FunctionItem) -> pa.RecordBatch:
    """What the function returned for a batch, in the order of the columns. Raises SchemaMismatch."""
    schema = item.job.schema
    found = returned_columns(function(batch), schema)
    for name, column in zip(schema.names, found, strict=True):
        if len(column) != batch.num_rows:
            raise SchemaMismatch(
                f"The function returned {len(column)} values of '{name}' for {batch.num_rows} rows of fragment "
                f"{item.fragment}.",
                hint="It has to return one value for each row of the batch, in their order; None where there is none.",
            )
    return pa.RecordBatch.from_arrays(found, schema.names)


def returned_columns(returned: Any, schema: pa.Schema) -> list[pa.Array]:
    """What a function returned, as arrays in the order of the columns. Raises SchemaMismatch."""
    if isinstance(returned, pa.RecordBatch | pa.Table):
        columns: Mapping[str, Any] = {name: returned.column(name) for name in returned.schema.names}
    elif isinstance(returned, Mapping):
        columns = returned
    else:
        raise SchemaMismatch(
            f"The function returned {type(returned).__name__}.",
            hint="Return a pyarrow.RecordBatch or Table, or a dict of arrays by column.",
        )
    if {*columns} != {*schema.names}:
        raise SchemaMismatch(
            f"The function returned the columns {_listed(columns)}, and the schema has {_listed(schema.names)}.",
            hint="Return exactly the columns of the schema.",
        )
    return [_array(columns[field.name], field) for field in schema]


def _array(values: Any, field: pa.Field) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    if isinstance(values, pa.Array):
        return values
    try:
        if isinstance(values, np.ndarray) and values.ndim == 2 and pt.is_fixed_size_list(field.type):
            flat = pa.array(np.ascontiguousarray(values).reshape(-1), field.type.value_type)
            if values.shape[1] == field.type.list_size:
                return pa.FixedSizeListArray.from_arrays(flat, field.type.list_size)
            raise SchemaMismatch(
                f"The function returned vectors of {values.shape[1]} elements for '{field.name}', which has "
                f"{field.type.list_size}."
            )
        if isinstance(values, np.ndarray) and values.ndim == 2:
            return pa.array(list(values), field.type)
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError, OverflowError) as problem:
        raise SchemaMismatch(
            f"The function returned values for '{field.name}' that are not {field.type}: {problem}."
        ) from None


def _listed(names: Any) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"
