"""Groups as the rows that Spark gets, with sums in as many parts as their type needs."""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.query.aggregates import AggregatePlan
from lance_spark.query.grouping import key, nan_flag, needs_nan_flag, result

_BATCH_ROWS = 65_536
_EXACT = decimal.Context(prec=80)


class _Carried(NamedTuple):
    """What did not fit into the sum of one group."""

    row: int
    """Which of the groups."""
    part: Decimal
    times: int
    """How often the part is to be added."""


def finished(plan: AggregatePlan, groups: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows of some groups; rows that only carry what did not fit into a sum come last."""
    keys = [groups[key(at)] for at in range(len(plan.groups))]
    values: list[pa.ChunkedArray] = []
    carried: list[tuple[int, list[_Carried]]] = []
    for at, partial in enumerate(plan.partials):
        value = groups[result(at)]
        if needs_nan_flag(partial):
            flag = pc.fill_null(groups[nan_flag(at)], False)
            value = pc.if_else(flag, pa.scalar(math.nan, value.type), value)
        if value.type != partial.output:
            value, rest = _fitting(value, partial.output)
            carried.append((at, rest))
        values.append(value)
    yield from pa.table([*keys, *values], schema=plan.output).to_batches(_BATCH_ROWS)
    for at, rest in carried:
        for some in _batched(rest):
            yield _carriers(plan, keys, at, some)


def _carriers(plan: AggregatePlan, keys: list[pa.ChunkedArray], at: int, carried: list[_Carried]) -> pa.RecordBatch:
    """Rows that add to one sum of their groups, and nothing to any other aggregate."""
    times = [each.times for each in carried]
    rows = pa.array(np.repeat([each.row for each in carried], times))
    parts = pa.array([each.part for each in carried], pa.decimal128(38, _scale(plan.partials[at].output)))
    columns = [taken.take(rows).combine_chunks() for taken in keys]
    for other, partial in enumerate(plan.partials):
        if other == at:
            columns.append(pc.cast(parts, partial.output).take(pa.array(np.repeat(range(len(parts)), times))))
        elif partial.function in ("COUNT", "COUNT_STAR"):
            columns.append(pa.array(np.zeros(len(rows), np.int64)))
        else:
            columns.append(pa.nulls(len(rows), partial.output))
    return pa.RecordBatch.from_arrays(columns, schema=plan.output)


def _batched(carried: list[_Carried]) -> Iterator[list[_Carried]]:
    """Pieces that make at most a batch of rows each."""
    some: list[_Carried] = []
    room = _BATCH_ROWS
    for row, part, left in carried:
        while left:
            now = min(left, room)
            some.append(_Carried(row, part, now))
            left, room = left - now, room - now
            if not room:
                yield some
                some, room = [], _BATCH_ROWS
    if some:
        yield some


def _fitting(sums: pa.ChunkedArray, kind: pa.DataType) -> tuple[pa.ChunkedArray, list[_Carried]]:
    """Sums in a type that may be too small for them, and what is then to be added to them."""
    limit, wide = _limit(kind), pa.decimal128(38, _scale(kind))
    sums = pc.cast(sums, wide)
    fits = pc.and_(pc.less_equal(sums, pa.scalar(limit, wide)), pc.greater_equal(sums, pa.scalar(-limit, wide)))
    carried: list[_Carried] = []
    beyond = np.flatnonzero(pc.invert(pc.fill_null(fits, True)).to_numpy())
    if len(beyond):
        rest = sums.to_pylist()
        for row in beyond.tolist():
            times, left = _EXACT.divmod(abs(rest[row]), limit)
            carried.append(_Carried(row, limit.copy_sign(rest[row]), int(times)))
            rest[row] = left.copy_sign(rest[row])
        sums = pa.chunked_array([pa.array(rest, wide)])
    return pc.cast(sums, kind), carried


def _limit(kind: pa.DataType) -> Decimal:
    """The largest number of a type whose smallest is at most as far from zero."""
    return Decimal("9" * kind.precision).scaleb(-kind.scale, _EXACT) if pt.is_decimal(kind) else Decimal(2**63 - 1)


def _scale(kind: pa.DataType) -> int:
    return int(kind.scale) if pt.is_decimal(kind) else 0
