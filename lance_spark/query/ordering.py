"""The first rows in an order, of which Spark then takes the first of all tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

_SORTABLE = (
    pt.is_integer,
    pt.is_float32,
    pt.is_float64,
    pt.is_boolean,
    pt.is_decimal,
    pt.is_date,
    pt.is_timestamp,
    pt.is_string,
    pt.is_large_string,
    pt.is_binary,
    pt.is_large_binary,
)
"""Types whose values Arrow sorts as Spark does, NaN aside."""
_HELD = 4
"""How often the limit, and batches, are held before they are sorted again."""


@dataclass(frozen=True)
class SortKey:
    """One column that rows are sorted by."""

    column: str
    ascending: bool
    nulls_first: bool


def sortable(keys: Sequence[SortKey], schema: pa.Schema) -> bool:
    """Whether Arrow finds the same first rows as Spark."""
    return bool(keys) and all(
        schema.get_field_index(key.column) >= 0 and any(applies(schema.field(key.column).type) for applies in _SORTABLE)
        for key in keys
    )


def first_rows(keys: Sequence[SortKey], limit: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first rows in this order, as many as the limit says."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows > _HELD * (limit + batch.num_rows):
            held = _first(keys, limit, held)
            rows = sum(each.num_rows for each in held)
    if held:
        yield from _first(keys, limit, held)


def _first(keys: Sequence[SortKey], limit: int, held: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    table = pa.Table.from_batches(held)
    columns: dict[str, pa.ChunkedArray] = {}
    order: list[tuple[str, str]] = []
    for at, key in enumerate(keys):
        values, direction = table[key.column], "ascending" if key.ascending else "descending"
        # Nulls and NaN are told by columns of their own: Arrow has both at the end of whichever order.
        columns[f"null{at}"] = values.is_null()
        order.append((f"null{at}", "descending" if key.nulls_first else "ascending"))
        if pt.is_floating(values.type):
            columns[f"nan{at}"] = pc.fill_null(pc.is_nan(values), False)
            order.append((f"nan{at}", direction))  # for Spark it is larger than any other value
        columns[f"value{at}"] = values
        order.append((f"value{at}", direction))
    indices = pc.sort_indices(pa.table(columns), sort_keys=order)
    batches: list[pa.RecordBatch] = table.take(indices.slice(0, limit)).combine_chunks().to_batches()
    return batches
