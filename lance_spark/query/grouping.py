"""Rows to groups, and groups of several chunks to groups, through Arrow's own aggregation.

Three shapes of tables: rows as they are prepared have a column for each key (``key0``) and for what each aggregate
takes (``in0``); groups have the keys and the aggregates so far (``out0``). ``nan0`` goes along where that matters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.query.aggregates import AggregatePlan, Partial
from lance_spark.query.types import as_spark_sends
from lance_spark.schema.conform import conform_column

WIDE = pa.decimal128(38, 0)
"""Sums of integers that int64 cannot hold."""
_FUNCTIONS = {"COUNT_STAR": "count", "COUNT": "count", "SUM": "sum", "MIN": "min", "MAX": "max"}
_MERGED = {"count": "sum"}


def key(at: int) -> str:
    """Name of the column of a group key."""
    return f"key{at}"


def result(at: int) -> str:
    """Name of the column of an aggregate."""
    return f"out{at}"


def nan_flag(at: int) -> str:
    """Name of the column that says whether a NaN was among the values: Arrow's maximum leaves it out, Spark's is it."""
    return f"nan{at}"


def needs_nan_flag(partial: Partial) -> bool:
    """Whether the aggregate goes with a flag for NaN."""
    return partial.function == "MAX" and bool(pt.is_floating(partial.input))


def integer_sums(plan: AggregatePlan) -> list[str]:
    """Prepared columns whose sums may overflow."""
    return [f"in{at}" for at, each in enumerate(plan.partials) if each.function == "SUM" and each.input == pa.int64()]


def widen(plan: AggregatePlan, rows: pa.Table) -> pa.Table:
    """Prepared rows with integers as decimals, whose sums do not overflow."""
    for name in integer_sums(plan):
        rows = rows.set_column(rows.schema.get_field_index(name), name, pc.cast(rows[name], WIDE))
    return rows


def prepare(plan: AggregatePlan, batch: pa.RecordBatch | None) -> pa.Table:
    """What the plan takes of a batch; for None, no rows.

    Raises SchemaMismatch for a value that Spark cannot hold.
    """
    count = 0 if batch is None else batch.num_rows
    read: dict[tuple[tuple[str, ...], pa.DataType], pa.Array] = {}

    def column(path: tuple[str, ...], kind: pa.DataType) -> pa.Array:
        if (path, kind) not in read:
            read[path, kind] = pa.array([], kind) if batch is None else _column(batch, path, kind)
        return read[path, kind]

    columns = {}
    for at, path in enumerate(plan.groups):
        columns[key(at)] = _normalised(column(path, plan.output.field(at).type))
    for at, partial in enumerate(plan.partials):
        taken = column(partial.path, partial.input) if partial.path else pa.nulls(count, pa.bool_()).fill_null(True)
        columns[f"in{at}"] = taken
        if needs_nan_flag(partial):
            columns[nan_flag(at)] = pc.is_nan(taken)
    return pa.table(columns)


def group(plan: AggregatePlan, rows: pa.Table) -> pa.Table:
    """Prepared rows as groups."""
    wanted = [(f"in{at}", _FUNCTIONS[each.function], result(at)) for at, each in enumerate(plan.partials)]
    return _aggregate(plan, rows, wanted)


def merge(plan: AggregatePlan, groups: pa.Table) -> pa.Table:
    """Groups as groups of which each is there once."""
    functions = [_FUNCTIONS[each.function] for each in plan.partials]
    wanted = [(result(at), _MERGED.get(function, function), result(at)) for at, function in enumerate(functions)]
    return _aggregate(plan, groups, wanted)


def _aggregate(plan: AggregatePlan, table: pa.Table, wanted: Sequence[tuple[str, str, str]]) -> pa.Table:
    flags = [nan_flag(at) for at, each in enumerate(plan.partials) if needs_nan_flag(each)]
    wanted = [*wanted, *((flag, "max", flag) for flag in flags)]
    keys = [key(at) for at in range(len(plan.groups))]
    found = table.group_by(keys, use_threads=False).aggregate([(source, function) for source, function, _ in wanted])
    names = [*keys, *(f"{source}_{function}" for source, function, _ in wanted)]
    return found.select(names).rename_columns([*keys, *(name for _, _, name in wanted)])


def _column(batch: pa.RecordBatch, path: tuple[str, ...], kind: pa.DataType) -> pa.Array:
    """A column brought to Spark's type as a scan brings it, and from there to what is aggregated."""
    found = batch.column(path[0])
    if len(path) > 1:
        found = pc.struct_field(found, list(path[1:]))
    if pt.is_null(kind):
        return pc.if_else(found.is_valid(), True, pa.scalar(None, pa.bool_()))
    sent = as_spark_sends(found.type)
    if sent is None:
        raise TypeError(f"{'.'.join(path)} is {found.type}, which the plan did not expect")
    return pc.cast(conform_column(found, pa.field(".".join(path), sent)), kind)


def _normalised(keys: pa.Array) -> pa.Array:
    """Floats of which those that Spark takes for one group are the same bits."""
    if not pt.is_floating(keys.type):
        return keys
    return pc.if_else(pc.is_nan(keys), pa.scalar(math.nan, keys.type), pc.add(keys, pa.scalar(0.0, keys.type)))
