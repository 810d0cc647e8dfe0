"""Minima and maxima of whole tables, from the few rows at the ends of an index.

What an index says its ends are is only a guess: those rows may be deleted, and others may have come. So all rows that
are as far out as the guess are read. If there are any, the smallest or largest of them is that of the table, whatever
the guess was worth; if not, the query has to read the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.query.aggregates import AggregatePlan, Partial
from lance_spark.query.expressions import Call, Column, Expression, Literal
from lance_spark.query.filters import PushedFilter, translate
from lance_spark.query.types import spark_name

IndexEnds: TypeAlias = "tuple[str, str]"
"""The smallest and the largest value of an index, or of one segment of it, in pylance's words."""
Ends: TypeAlias = "tuple[int | None, int | None]"
"""The same as numbers, as Spark holds the values inside; None where the words are not understood."""

_OPERATORS = {"MIN": "<=", "MAX": ">="}


def extreme_columns(plan: AggregatePlan) -> tuple[str, ...]:
    """The columns whose ends answer a plan; empty for one that asks for anything but minima, maxima and the count."""
    asked = [partial for partial in plan.partials if partial.function != "COUNT_STAR"]
    if plan.groups or any(partial.function not in _OPERATORS or len(partial.path) != 1 for partial in asked):
        return ()
    return plan.columns


def ends_of(segments: Iterable[IndexEnds], kind: pa.DataType) -> Ends:
    """The ends of an index with these segments on a column of this type."""
    lowest, highest = zip(*segments, strict=True) if segments else ((), ())
    read = _reader(kind)
    lows = [None if read is None else _number(read, text) for text in lowest]
    highs = [None if read is None else _number(read, text) for text in highest]
    return _known(lows, min), _known(highs, max)


def beyond(plan: AggregatePlan, ends: Mapping[str, Ends], schema: pa.Schema) -> PushedFilter | None:
    """Keeps the rows that are as far out as the ends, for any of the aggregates; None where an end is not known."""
    conditions: list[Expression] = []
    for partial in _extremes(plan):
        name, guess = partial.path[0], _guess(partial, ends)
        kind = spark_name(schema.field(name).type)
        if guess is None or kind is None:
            return None
        conditions.append(Call(_OPERATORS[partial.function], (Column(partial.path), Literal(guess, kind))))
    whole = conditions[0] if len(conditions) == 1 else Call("OR", tuple(conditions))
    found = translate(whole, schema) if conditions else None
    return found if found is not None and found.exact else None


def settled(
    plan: AggregatePlan, ends: Mapping[str, Ends], batches: Iterable[pa.RecordBatch], rows: int
) -> pa.RecordBatch | None:
    """What the plan comes to over the whole table, of ``rows`` rows; None if the guesses were too far out.

    ``batches`` are what it comes to over the rows that ``beyond`` keeps.
    """
    found = pa.Table.from_batches(batches, plan.output)
    if found.num_rows != 1:
        return None
    columns = []
    for partial, column in zip(plan.partials, found.columns, strict=True):
        if partial.function == "COUNT_STAR":
            columns.append(pa.array([rows], pa.int64()))
            continue
        value, guess = column.cast(_numbers(column.type))[0].as_py(), _guess(partial, ends)
        if value is None or guess is None or (value > guess if partial.function == "MIN" else value < guess):
            return None
        columns.append(column.combine_chunks())
    return pa.RecordBatch.from_arrays(columns, schema=plan.output)


def _extremes(plan: AggregatePlan) -> list[Partial]:
    return [partial for partial in plan.partials if partial.function in _OPERATORS]


def _guess(partial: Partial, ends: Mapping[str, Ends]) -> int | None:
    low, high = ends.get(partial.path[0], (None, None))
    return low if partial.function == "MIN" else high


def _reader(kind: pa.DataType) -> Callable[[str], int] | None:
    """What makes a number of pylance's words for a value. Not for floats: Spark and Lance order them differently."""
    if pt.is_date32(kind):
        return lambda text: (date.fromisoformat(text) - date(1970, 1, 1)).days
    whole = pt.is_integer(kind) and not pt.is_uint64(kind)  # Spark has decimals for those
    return int if whole or (pt.is_timestamp(kind) and kind.unit == "us") else None


def _number(read: Callable[[str], int], text: str) -> int | None:
    try:
        return read(text)
    except ValueError:  # "NULL", for the column of an index that has nulls; a year that Python does not know
        return None


def _known(values: list[int | None], choose: Callable[[list[int]], int]) -> int | None:
    known = [value for value in values if value is not None]
    return choose(known) if known and len(known) == len(values) else None


def _numbers(kind: pa.DataType) -> pa.DataType:
    """The type in which values of another one are numbers."""
    return pa.int32() if pt.is_date32(kind) else pa.int64()
