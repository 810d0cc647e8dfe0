"""Pushed-down aggregates: partial ones that Spark merges, or full answers from indexes or the manifest."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.format.schema import conform_column
from lance_spark.pushdown import filters
from lance_spark.pushdown.filters import Call, Column, Expression, PushedFilter
from lance_spark.scan.partition_rules import FragmentSize

Function = Literal["COUNT_STAR", "COUNT", "SUM", "MIN", "MAX", "AVG"]
MAX_SUMMED_DIGITS = 28
"""Maximum digits of decimals to sum: the 38 digits of Arrow's decimals hold the sums of ten billion of them."""


@dataclass(frozen=True)
class Aggregate:
    function: Function
    column: Column | None = None
    """None only for COUNT_STAR. An aggregate over anything but a column cannot be represented, and is not pushed."""
    distinct: bool = False


@dataclass(frozen=True)
class Partial:
    function: Function
    path: tuple[str, ...]
    """The column; empty for COUNT_STAR."""
    input: pa.DataType
    """The type that the column is converted to first. For COUNT of a type that Spark does not get, null."""
    output: pa.DataType


@dataclass(frozen=True)
class AggregatePlan:
    """The inputs and outputs of an aggregation; executors get it pickled."""

    columns: tuple[str, ...]
    """Top-level columns to read; empty for COUNT_STAR alone."""
    groups: tuple[tuple[str, ...], ...]
    partials: tuple[Partial, ...]
    output: pa.Schema
    """The result, in the Arrow types that Spark expects: group columns first, then one column per aggregate. Names are
    unique, and for display only."""


def plan_aggregates(
    aggregates: Sequence[Aggregate],
    groups: Sequence[Column],
    schema: pa.Schema,
    asked: Sequence[Aggregate] = (),
) -> AggregatePlan | None:
    """How to compute partial aggregates that Spark merges to its own result; None if that is not possible.

    ``aggregates`` are those of ``pushAggregation``, where Spark has split AVG into SUM and COUNT. ``asked`` are those
    of all previous calls of ``supportCompletePushDown``: a first one with AVG, and a second one without it. Spark's own
    average of bigints sums doubles. Its split average sums bigints, and fails if these overflow. So averages of bigints
    are not pushed down.
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
    field = None if average.column is None else filters.field_at(schema, average.column.path)
    return field is None or (field.type.value_type if pt.is_dictionary(field.type) else field.type) == pa.int64()


def _key_type(schema: pa.Schema, path: tuple[str, ...]) -> pa.DataType | None:
    field = filters.plain_field(schema, path)
    return None if field is None else filters.as_spark_sends(field.type)


def _partial(wanted: Aggregate, schema: pa.Schema) -> Partial | None:
    if wanted.function == "COUNT_STAR":
        return Partial("COUNT_STAR", (), pa.null(), pa.int64())
    field = None if wanted.column is None or wanted.distinct else filters.plain_field(schema, wanted.column.path)
    if field is None or wanted.column is None:
        return None
    kind = filters.as_spark_sends(field.type)
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
        # Spark declares a sum as decimal(p + 10, s), but casts the partial sums that it gets to the column's type.
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


# --- Grouping rows, and merging groups of several chunks, through Arrow's own aggregation
# Tables have two shapes: prepared rows have a column for each key (``key0``) and for each aggregate's input
# (``in0``); groups have the keys and the aggregates so far (``out0``). ``nan0`` goes along if it matters.

WIDE = pa.decimal128(38, 0)
"""Type for sums of integers beyond int64."""
_FUNCTIONS = {"COUNT_STAR": "count", "COUNT": "count", "SUM": "sum", "MIN": "min", "MAX": "max"}
_MERGED = {"count": "sum"}


def key(at: int) -> str:
    return f"key{at}"


def result(at: int) -> str:
    return f"out{at}"


def nan_flag(at: int) -> str:
    """Name of the flag column for NaN among the values: Arrow's maximum ignores NaN, in Spark NaN is the maximum."""
    return f"nan{at}"


def needs_nan_flag(partial: Partial) -> bool:
    return partial.function == "MAX" and bool(pt.is_floating(partial.input))


def integer_sums(plan: AggregatePlan) -> list[str]:
    """Prepared columns whose sums can overflow."""
    return [f"in{at}" for at, each in enumerate(plan.partials) if each.function == "SUM" and each.input == pa.int64()]


def widen(plan: AggregatePlan, rows: pa.Table) -> pa.Table:
    """Prepared rows with integers as decimals, whose sums do not overflow."""
    for name in integer_sums(plan):
        rows = rows.set_column(rows.schema.get_field_index(name), name, pc.cast(rows[name], WIDE))
    return rows


def prepare(plan: AggregatePlan, batch: pa.RecordBatch | None) -> pa.Table:
    """The plan's inputs from a batch; for None, no rows.

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
    wanted = [(f"in{at}", _FUNCTIONS[each.function], result(at)) for at, each in enumerate(plan.partials)]
    return _aggregate(plan, rows, wanted)


def merge(plan: AggregatePlan, groups: pa.Table) -> pa.Table:
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
    """A column converted to Spark's type as in a scan, and then to the type that is aggregated."""
    found = batch.column(path[0])
    if len(path) > 1:
        found = pc.struct_field(found, list(path[1:]))
    if pt.is_null(kind):
        return pc.if_else(found.is_valid(), True, pa.scalar(None, pa.bool_()))
    sent = filters.as_spark_sends(found.type)
    if sent is None:
        raise TypeError(f"{'.'.join(path)} is {found.type}, which the plan did not expect")
    return pc.cast(conform_column(found, pa.field(".".join(path), sent)), kind)


def _normalised(keys: pa.Array) -> pa.Array:
    """Floats with equal bits if Spark puts them into one group."""
    if not pt.is_floating(keys.type):
        return keys
    return pc.if_else(pc.is_nan(keys), pa.scalar(math.nan, keys.type), pc.add(keys, pa.scalar(0.0, keys.type)))


# --- Computing partial aggregates over Arrow batches, in bounded memory
# Several output rows can belong to one group: Spark merges them. That makes both hard parts simple. If there are too
# many groups to keep, the current ones are emitted. A sum that its type cannot hold is emitted in parts, so that Spark,
# at the end, determines whether the whole sum overflows.

MAX_GROUPS = 2**18
"""Maximum groups to keep; with more, partial rows are emitted."""
MAX_BYTES = 64 * 2**20
CHUNK_ROWS = 2**18
"""Rows to group at once: grouping each batch of 65,536 on its own takes twice the time."""
CHUNK_BYTES = 32 * 2**20
"""Bytes of rows to group at once."""
_LARGEST = 2**63 - 1
_ROWS = 2**31
"""Rows after which partial rows are emitted: up to there, no sum of decimals can exceed Arrow's 128 bits."""


def aggregate(plan: AggregatePlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of ``plan.output``; several can belong to one group, Spark merges them.

    ``batches`` have the columns of the plan in the dataset's own types, and possibly others. Without groups, at least
    one row is emitted, even without any batch: Spark adds up the counts that it gets, and no row would give null.
    Raises SchemaMismatch for a value that Spark cannot hold.
    """
    state = _State(plan)
    for rows in _chunks(prepare(plan, batch) for batch in batches):
        yield from state.add(rows)
    yield from state.finish()


def _chunks(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows in larger tables, none of them empty."""
    held: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        held.append(table)
        rows, size = rows + table.num_rows, size + table.nbytes
        if rows >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield pa.concat_tables(held)
            held, rows, size = [], 0, 0
    if rows:
        yield pa.concat_tables(held)


class _State:
    """The groups so far, and a bound on how far their sums are from zero."""

    def __init__(self, plan: AggregatePlan) -> None:
        self._plan = plan
        self._kept: pa.Table | None = None
        self._rows = 0
        self._reach = 0
        self._sent = False

    def add(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Add rows; emits rows that are finished."""
        reach = max((_reach(rows[name]) for name in integer_sums(self._plan)), default=0)
        if reach > _LARGEST:
            yield from self._send(group(self._plan, widen(self._plan, rows)))
            return
        if self._rows + rows.num_rows > _ROWS or self._reach + reach > _LARGEST:
            yield from self._flush()
        found = group(self._plan, rows)
        if found.num_rows > MAX_GROUPS // 4 and 2 * found.num_rows > rows.num_rows:
            # Nearly every row is its own group: merging gains nothing.
            yield from self._send(found)
            return
        self._kept = found if self._kept is None else merge(self._plan, pa.concat_tables([self._kept, found]))
        self._rows += rows.num_rows
        self._reach += reach
        if self._kept.num_rows > MAX_GROUPS or self._kept.nbytes > MAX_BYTES:
            yield from self._flush()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The remaining rows, or the one row that reports an empty input."""
        yield from self._flush()
        if not self._sent and not self._plan.groups:
            yield from self._send(group(self._plan, prepare(self._plan, None)))

    def _flush(self) -> Iterator[pa.RecordBatch]:
        if self._kept is not None:
            yield from self._send(self._kept)
        self._kept, self._rows, self._reach = None, 0, 0

    def _send(self, found: pa.Table) -> Iterator[pa.RecordBatch]:
        self._sent = True
        return finished(self._plan, found)


def _reach(values: pa.ChunkedArray) -> int:
    """The maximum distance from zero of a sum of any of these values."""
    found = pc.min_max(values).as_py()
    return int(len(values) * max(abs(found["min"] or 0), abs(found["max"] or 0)))


# --- Groups as Spark's rows, with sums in as many parts as their type needs

_BATCH_ROWS = 65_536
_EXACT = decimal.Context(prec=80)


class _Carried(NamedTuple):
    """The part of one group's sum that did not fit."""

    row: int
    """Index of the group."""
    part: Decimal
    times: int
    """How often to add the part."""


def finished(plan: AggregatePlan, groups: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows of some groups; rows that only carry the rest of a sum come last."""
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
    """Pieces of at most one batch of rows each."""
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
    """Sums in a type that might be too small for them, and the rest to add to them."""
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


# --- Minima and maxima of whole tables, from the few rows at the ends of an index
# The ends that an index reports are only a guess: their rows might be deleted, and others might have been added. So all
# rows at least as far out as the guess are read. If there are any, the smallest or largest of them is the table's,
# however good the guess was; if not, the query reads the table.

IndexEnds: TypeAlias = "tuple[str, str]"
"""The smallest and the largest value of an index, or of one segment of it, as pylance's text."""
Ends: TypeAlias = "tuple[int | None, int | None]"
"""The same as numbers, in Spark's internal form; None if the text cannot be parsed."""

_OPERATORS = {"MIN": "<=", "MAX": ">="}


def extreme_columns(plan: AggregatePlan) -> tuple[str, ...]:
    """The columns whose ends answer a plan; empty if it has anything but minima, maxima and the count."""
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
    """A filter for the rows at least as far out as the ends, for any of the aggregates; None if an end is unknown."""
    conditions: list[Expression] = []
    for partial in plan.partials:
        if partial.function not in _OPERATORS:
            continue
        name, guess = partial.path[0], _guess(partial, ends)
        kind = filters.spark_name(schema.field(name).type)
        if guess is None or kind is None:
            return None
        conditions.append(Call(_OPERATORS[partial.function], (Column(partial.path), filters.Literal(guess, kind))))
    whole = conditions[0] if len(conditions) == 1 else Call("OR", tuple(conditions))
    found = filters.translate(whole, schema) if conditions else None
    return found if found is not None and found.exact else None


def settled(
    plan: AggregatePlan, ends: Mapping[str, Ends], batches: Iterable[pa.RecordBatch], rows: int
) -> pa.RecordBatch | None:
    """The plan's result over the whole table, of ``rows`` rows; None if the guesses were too far out.

    ``batches`` are the results over the rows that ``beyond`` keeps.
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


def _guess(partial: Partial, ends: Mapping[str, Ends]) -> int | None:
    low, high = ends.get(partial.path[0], (None, None))
    return low if partial.function == "MIN" else high


def _reader(kind: pa.DataType) -> Callable[[str], int] | None:
    """Parses pylance's text of a value to a number. Not for floats: Spark and Lance order them differently."""
    if pt.is_date32(kind):
        return lambda text: (date.fromisoformat(text) - date(1970, 1, 1)).days
    whole = pt.is_integer(kind) and not pt.is_uint64(kind)  # Spark reads those as decimals
    return int if whole or (pt.is_timestamp(kind) and kind.unit == "us") else None


def _number(read: Callable[[str], int], text: str) -> int | None:
    try:
        return read(text)
    except ValueError:  # "NULL", if the column of an index has nulls; or a year outside Python's range
        return None


def _known(values: list[int | None], choose: Callable[[list[int]], int]) -> int | None:
    known = [value for value in values if value is not None]
    return choose(known) if known and len(known) == len(values) else None


def _numbers(kind: pa.DataType) -> pa.DataType:
    """The type that represents a type's values as numbers."""
    return pa.int32() if pt.is_date32(kind) else pa.int64()


# --- Queries that the manifest alone answers

_CONSTANT = (None, filters.ALWAYS, filters.NEVER)
"""Filters that give the same result for all rows."""


def answer(plan: AggregatePlan, filter: str | None, fragments: Iterable[FragmentSize]) -> pa.RecordBatch | None:
    """The one result row of a plan, if it only counts rows; None if data must be read.

    ``filter`` is the whole filter of the scan, in Lance's SQL.
    """
    if plan.groups or any(each.function != "COUNT_STAR" for each in plan.partials) or filter not in _CONSTANT:
        return None
    rows = 0 if filter == filters.NEVER else sum(fragment.live_rows for fragment in fragments)
    columns = [pa.array([rows], pa.int64()) for _ in plan.partials]
    return pa.RecordBatch.from_arrays(columns, schema=plan.output)
