"""Rows that a caller decides: the table that is shown, and the check of the one that comes back. Pure.

In: cells of contested rows in three versions. Out: one row for each, with the common version, ours and theirs; later,
the cells that the caller gave, or what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark.errors import InvalidOption
from lance_spark.format.python_values import python_rows, python_values
from lance_spark.merge.cell_rules import CellColumn, Cells, Given, Mask
from lance_spark.merge.change_rules import Rows

Resolve = Callable[[pa.Table], Any]
"""A caller's function: contested rows to rows."""
ROW, DELETE = "_row", "_delete"
SIDES = ("base", "ours", "theirs")
_NAMED = 5


class RowQuestion(NamedTuple):
    table: pa.Table
    """``_row``, the key, and the row in each version: null in one that does not have it."""
    names: Rows
    """The addresses of the rows: see :class:`~lance_spark.merge.cell_rules.Given`."""
    open: Mapping[int, Mask]
    """By the places of columns, which rows need a value."""
    types: Mapping[int, pa.DataType]
    """Of the columns that may be given."""
    keys: tuple[str, ...]
    """Columns by which rows may be given, instead of ``_row``."""


def asked(
    columns: Sequence[CellColumn], keys: Sequence[str], parts: Iterable[tuple[Cells, Mapping[int, Mask]]]
) -> RowQuestion:
    """The question about some rows; each part has its cells, and where nothing is decided."""
    tables, names, opened = [], [], []
    places: tuple[int, ...] = ()
    for cells, masks in parts:
        places = tuple(sorted({*cells.base, *cells.ours, *cells.theirs}))
        lacks = (cells.new, cells.only_theirs, cells.only_ours)
        sides = [
            _struct(columns, places, values, cells, missing)
            for values, missing in zip((cells.base, cells.ours, cells.theirs), lacks, strict=True)
        ]
        known = [_either(cells.base, cells.ours, cells, at) for at in _keys(columns, keys, places)]
        tables.append(pa.Table.from_arrays([*known, *sides], names=[*_shown(columns, keys, places), *SIDES]))
        names.append(cells.names if cells.names is not None else np.zeros(0, np.int64))
        opened.append({at: masks.get(at, np.zeros(cells.rows, bool)) for at in places})
    order = np.argsort(np.concatenate(names), kind="stable")
    table = pa.concat_tables(tables).take(pa.array(order)).combine_chunks()
    table = table.add_column(0, ROW, pa.array(np.arange(table.num_rows)))
    mine, theirs = table.schema.field("ours").type, table.schema.field("theirs").type
    types = {at: _field(mine, theirs, columns[at].name) for at in places}
    masks = {at: np.concatenate([each[at] for each in opened])[order] for at in places}
    return RowQuestion(table, np.concatenate(names)[order], masks, types, tuple(_shown(columns, keys, places)))


def _keys(columns: Sequence[CellColumn], keys: Sequence[str], places: Sequence[int]) -> list[int]:
    found = [at for at in places if columns[at].base in keys and columns[at].name not in (ROW, DELETE, *SIDES)]
    return found if len(found) == len(keys) else []


def _shown(columns: Sequence[CellColumn], keys: Sequence[str], places: Sequence[int]) -> list[str]:
    return [columns[at].name for at in _keys(columns, keys, places)]


def _field(mine: pa.StructType, theirs: pa.StructType, name: str) -> pa.DataType:
    at = mine.get_field_index(name)
    return mine.field(at).type if at >= 0 else theirs.field(theirs.get_field_index(name)).type


def _struct(
    columns: Sequence[CellColumn],
    places: Sequence[int],
    values: Mapping[int, pa.Array],
    cells: Cells,
    missing: Mask | None,
) -> pa.Array:
    here = [at for at in places if at in values]
    lacks = np.zeros(cells.rows, bool) if missing is None else missing
    fields = [pa.field(columns[at].name, values[at].type) for at in here]
    return pa.StructArray.from_arrays([values[at] for at in here], fields=fields, mask=pa.array(lacks))


def _either(base: Mapping[int, pa.Array], ours: Mapping[int, pa.Array], cells: Cells, at: int) -> pa.Array:
    """The key of each row: that of the base or, without it, of ours."""
    if cells.new is None or not cells.new.any():
        return base[at]
    both = pa.concat_arrays([base[at], ours[at].cast(base[at].type)])
    places = np.arange(cells.rows) + np.where(cells.new, cells.rows, 0)
    return both.take(pa.array(places))


def given_cells(question: RowQuestion, columns: Sequence[CellColumn], answer: object) -> Given:
    """The cells that a caller gave. Raises InvalidOption for rows, columns or values that do not fit."""
    table = _as_table(answer)
    places = _places(question, table)
    table = table.take(pa.array(np.argsort(places)))
    deleted = np.zeros(table.num_rows, bool)
    if DELETE in table.column_names:
        column = table[DELETE]
        if not pa.types.is_boolean(column.type):
            raise _wrong(f"'{DELETE}' is {column.type} and not boolean")
        deleted = np.asarray(column.fill_null(False).to_numpy(zero_copy_only=False), bool)
    known = {columns[at].name: at for at in question.types}
    own = {ROW, DELETE, *SIDES, *question.keys}
    strange = [name for name in table.column_names if name not in known and name not in own]
    if strange:
        raise _wrong(f"the table has no column '{strange[0]}', or its values cannot be given")
    values = {
        known[name]: _typed(table[name], question.types[known[name]], columns[known[name]], deleted)
        for name in table.column_names
        if name in known and name not in own
    }
    for at, mask in question.open.items():
        left = mask & ~deleted
        if at not in values and left.any():
            raise _wrong(
                f"column '{columns[at].name}' is not in it, although both sides changed it in {int(left.sum()):,} rows"
            )
    return Given(question.names, values, deleted)


def _as_table(answer: object) -> pa.Table:
    if isinstance(answer, pa.Table):
        return answer.combine_chunks()
    try:
        if isinstance(answer, pa.RecordBatch):
            return pa.Table.from_batches([answer])
        if isinstance(answer, list):
            names = dict.fromkeys(name for row in answer for name in row)  # from_pylist takes those of the first row
            return pa.table({name: [row.get(name) for row in answer] for name in names})
        return pa.Table.from_pandas(answer, preserve_index=False).combine_chunks()
    except (TypeError, AttributeError, ValueError, pa.ArrowInvalid, pa.ArrowTypeError) as problem:
        raise _wrong(f"it is {type(answer).__name__}, which is no table: {problem}") from None


def _places(question: RowQuestion, table: pa.Table) -> Rows:
    """The number of each row that came back: each one that was asked, once."""
    asked_rows = question.table
    if ROW in table.column_names:
        found = table[ROW].to_pylist()
    elif question.keys and set(question.keys) <= set(table.column_names):
        wanted = zip(*(python_values(asked_rows[name]) for name in question.keys), strict=True)
        numbers = {key: number for number, key in enumerate(wanted)}
        found = [
            numbers.get(key, f"with {question.keys} = {key}")
            for key in zip(*(python_values(table[name]) for name in question.keys), strict=True)
        ]
    else:
        names = f"'{ROW}'" + (f" or {list(question.keys)}" if question.keys else "")
        raise _wrong(f"it has no column {names}, which says which rows are meant")
    extra = [row for row in found if not isinstance(row, int) or not 0 <= row < asked_rows.num_rows]
    if extra:
        raise _wrong(f"{len(extra)} rows were not asked, such as row {extra[0]}")
    if len({*found}) < len(found):
        raise _wrong(f"{len(found) - len({*found})} rows are in it twice")
    missing = sorted({*range(asked_rows.num_rows)} - {*found})
    if missing:
        shown = python_rows(asked_rows.select([ROW, *question.keys]).take(missing[:_NAMED]))
        raise _wrong(f"{len(missing)} of {asked_rows.num_rows} rows are missing, such as {shown}")
    return np.array(found, np.int64)


def _typed(values: pa.ChunkedArray, kind: pa.DataType, column: CellColumn, deleted: Mask) -> pa.Array:
    try:
        found = values.cast(kind).combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as problem:
        raise _wrong(f"column '{column.name}' has values that are no {kind}: {problem}") from None
    array = found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)
    if not column.nullable and (np.asarray(array.is_null()) & ~deleted).any():
        raise _wrong(f"column '{column.name}' cannot be null, and has nulls")
    return array


def _wrong(what: str) -> InvalidOption:
    return InvalidOption(
        f"What resolve returned cannot be taken: {what}. Nothing was changed.",
        hint="Return a row for each row of the table that it gets, with '_row' or the key, the columns to set, and "
        "'_delete' for rows to delete.",
    )
