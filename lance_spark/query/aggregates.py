"""Which aggregates Spark can leave to the executors, as partial ones that Spark merges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.query.expressions import Column
from lance_spark.query.types import as_spark_sends, field_at, plain_field

Function = Literal["COUNT_STAR", "COUNT", "SUM", "MIN", "MAX", "AVG"]
MAX_SUMMED_DIGITS = 28
"""Digits of decimals that are summed: in 38, which Arrow's decimals have, fit the sums of ten billion of them."""


@dataclass(frozen=True)
class Aggregate:
    """One aggregate as Spark's planner asks for it."""

    function: Function
    column: Column | None = None
    """None only for COUNT_STAR. An aggregate over anything but a column has no such value: it is not possible."""
    distinct: bool = False


@dataclass(frozen=True)
class Partial:
    """One aggregate of a plan."""

    function: Function
    path: tuple[str, ...]
    """The column; empty for COUNT_STAR."""
    input: pa.DataType
    """What the column is brought to first. For COUNT of a type that Spark does not get, null."""
    output: pa.DataType


@dataclass(frozen=True)
class AggregatePlan:
    """What to read and what comes out; executors get it pickled."""

    columns: tuple[str, ...]
    """Top-level columns to read; empty for COUNT_STAR alone."""
    groups: tuple[tuple[str, ...], ...]
    """Columns whose values make a group."""
    partials: tuple[Partial, ...]
    output: pa.Schema
    """The rows that come out, in the Arrow types that Spark expects: group columns first, then one column for each
    aggregate. Names are unique and for people only."""


def plan_aggregates(
    aggregates: Sequence[Aggregate],
    groups: Sequence[Column],
    schema: pa.Schema,
    asked: Sequence[Aggregate] = (),
) -> AggregatePlan | None:
    """How to compute partial aggregates that Spark merges to its own result; None when that is not possible.

    ``aggregates`` are those of ``pushAggregation``, where Spark has split AVG into SUM and COUNT. ``asked`` are those
    of all calls of ``supportCompletePushDown`` before: of the first one, which has AVG, and of a second one, which
    has it no more. Spark's own average of bigints adds up doubles; what it makes of an average that it has split adds
    up bigints, and fails where these overflow. So averages of bigints are not possible.
    """
    keys = [_key_type(schema, group.path) for group in groups]
    found = [_partial(each, schema) for each in aggregates]
    partials = [each for each in found if each is not None]
    if len(partials) < len(found) or None in keys or not (found or keys):
        return None
    if any(each.function == "AVG" and _may_overflow(each, schema) for each in asked):
        return None
    paths = [group.path for group in groups] + [partial.path for partial in partials if partial.path]
    names = list(_unique([*(".".join(group.path) for group in groups), *map(_name, partials)]))
    kinds = [*keys, *(partial.output for partial in partials)]
    return AggregatePlan(
        columns=tuple(dict.fromkeys(path[0] for path in paths)),
        groups=tuple(group.path for group in groups),
        partials=tuple(partials),
        output=pa.schema([pa.field(name, kind) for name, kind in zip(names, kinds, strict=True)]),
    )


def _may_overflow(average: Aggregate, schema: pa.Schema) -> bool:
    """Whether sums of the column can leave int64; those of 32 bits would need two billion rows of the largest."""
    field = None if average.column is None else field_at(schema, average.column.path)
    return field is None or (field.type.value_type if pt.is_dictionary(field.type) else field.type) == pa.int64()


def _key_type(schema: pa.Schema, path: tuple[str, ...]) -> pa.DataType | None:
    field = plain_field(schema, path)
    return None if field is None else as_spark_sends(field.type)


def _partial(wanted: Aggregate, schema: pa.Schema) -> Partial | None:
    if wanted.function == "COUNT_STAR":
        return Partial("COUNT_STAR", (), pa.null(), pa.int64())
    field = None if wanted.column is None or wanted.distinct else plain_field(schema, wanted.column.path)
    if field is None or wanted.column is None:
        return None
    kind = as_spark_sends(field.type)
    if wanted.function == "COUNT":
        return Partial("COUNT", wanted.column.path, kind or pa.null(), pa.int64())
    if kind is None or wanted.function == "AVG":
        return None
    if wanted.function == "SUM":
        return _sum(wanted.column.path, kind)
    return Partial(wanted.function, wanted.column.path, kind, kind)


def _sum(path: tuple[str, ...], kind: pa.DataType) -> Partial | None:
    if pt.is_integer(kind):
        return Partial("SUM", path, pa.int64(), pa.int64())
    if pt.is_floating(kind):
        return Partial("SUM", path, pa.float64(), pa.float64())
    if pt.is_decimal(kind) and kind.precision <= MAX_SUMMED_DIGITS:
        # Spark says decimal(p + 10, s) of a sum, but casts the partial ones that it gets to the type of the column.
        return Partial("SUM", path, pa.decimal128(38, kind.scale), kind)
    return None


def _name(partial: Partial) -> str:
    return f"{partial.function.lower().removesuffix('_star')}({'.'.join(partial.path) or '*'})"


def _unique(names: Sequence[str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        while name.lower() in seen:
            name += "'"
        seen.add(name.lower())
        yield name
