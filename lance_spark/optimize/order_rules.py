"""Sort orders: by columns, or along a z-curve through several of them; and which fragments to rewrite. Pure.

Values are compared by sorting, never by arithmetic: a z-order uses the ranks of values among a sample. So it works for
strings and dates as well as for numbers, and for columns where a few values make up most rows. Nulls come last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.core.options import names_of
from lance_spark.errors import InvalidOption
from lance_spark.format.schema import ROW_ADDRESS

_MOST_BITS = 10
"""Bits per column in a z-value: 1,024 steps per column exceed the number of fragments."""
_CURVE = "z"
_SORTABLE = (
    pt.is_integer,
    pt.is_float32,
    pt.is_float64,
    pt.is_decimal,
    pt.is_boolean,
    pt.is_string,
    pt.is_large_string,
    pt.is_binary,
    pt.is_large_binary,
    pt.is_date,
    pt.is_time,
    pt.is_timestamp,
    pt.is_duration,
)
Numbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Ordering:
    columns: tuple[str, ...]
    curve: bool = False
    """Along a z-curve, so that ranges of every column are cheap; otherwise by the first column, then the next."""

    def __str__(self) -> str:
        """``day, carrier`` or ``z-order of day, carrier``."""
        listed = ", ".join(self.columns)
        return f"z-order of {listed}" if self.curve else listed


def ordering_of(sort_by: Sequence[str] | str | None, zorder: Sequence[str] | str | None) -> Ordering | None:
    """The order from arguments; None if none is given. Raises InvalidOption for invalid names."""
    if sort_by is not None and zorder is not None:
        raise InvalidOption("sort_by and zorder cannot both be given.", hint="Choose one of them.")
    name, given = ("sort_by", sort_by) if zorder is None else ("zorder", zorder)
    if given is None:
        return None
    columns = names_of(given)
    if not columns or not all(str(column).strip() for column in columns):
        raise InvalidOption(f"{name} must be a list of columns.", hint=f"For example {name}=['day', 'carrier'].")
    if len(set(columns)) < len(columns):
        raise InvalidOption(f"{name} names a column twice: {', '.join(columns)}.")
    if zorder is not None and len(columns) < 2:
        raise InvalidOption("zorder takes at least two columns.", hint=f"Use sort_by=['{columns[0]}'].")
    return Ordering(columns, zorder is not None)


def check_columns(ordering: Ordering, schema: pa.Schema) -> None:
    """Raise InvalidOption for a column that the table lacks, or whose values have no order."""
    for name in ordering.columns:
        if name not in schema.names:
            raise InvalidOption(f"There is no column '{name}'.", hint=f"There are {', '.join(schema.names)}.")
        kind = schema.field(name).type
        if not any(fits(kind) for fits in _SORTABLE):
            raise InvalidOption(f"Column '{name}' of type {kind} has no order.", hint="Choose another column.")


def positions(rows: pa.Table) -> Numbers:
    """Indices that sort rows by all columns; equal rows keep their order."""
    keys = [(name, "ascending") for name in rows.column_names]
    found: Numbers = pc.sort_indices(rows, sort_keys=keys).to_numpy().astype(np.int64)
    return found


def together(tables: Iterable[pa.Table]) -> pa.Table:
    """The rows of tables with the same columns, whether or not these are NOT NULL.

    A fragment's keys have the dataset's schema, while bounds and ends, which Arrow computes, may always be null.
    """
    return pa.concat_tables(tables, promote_options="default")


def ranks(bounds: pa.Table, rows: pa.Table) -> Numbers:
    """For each row, the number of bounds at or before it."""
    order = positions(together([bounds, rows]))
    is_bound = order < bounds.num_rows
    before = np.cumsum(is_bound)
    found = np.empty(rows.num_rows, np.int64)
    found[order[~is_bound] - bounds.num_rows] = before[~is_bound]
    return found


def divided(parts: Numbers) -> list[tuple[int, Numbers]]:
    """The numbers of the parts that rows belong to, each with its rows in order."""
    order = np.argsort(parts, kind="stable")
    found, starts = np.unique(parts[order], return_index=True)
    return list(zip(found.tolist(), np.split(order, starts[1:]), strict=True)) if len(parts) else []


def quantiles(rows: pa.Table, count: int) -> pa.Table:
    """At most ``count`` distinct rows that cut the sorted rows into parts of equal size."""
    distinct = rows.group_by(rows.column_names).aggregate([([], "count_all")])
    order = positions(distinct.select(rows.column_names))
    ordered = distinct.take(pa.array(order))
    ends = np.cumsum(ordered["count_all"].to_numpy())
    wanted = rows.num_rows * np.arange(1, count + 1) / (count + 1)
    # A value belongs to the bound equal to it, so the first one cuts nothing.
    at = np.unique(np.searchsorted(ends, wanted, side="right"))
    return ordered.select(rows.column_names).take(pa.array(at[(at > 0) & (at < len(ends))]))


def interleaved(codes: Sequence[Numbers], bits: int) -> npt.NDArray[np.uint64]:
    """Merge numbers below ``2 ** bits`` into one: the first bit of each, then the second bit of each, and so on."""
    found = np.zeros(len(codes[0]), np.uint64)
    for bit in range(bits - 1, -1, -1):
        for code in codes:
            found = (found << np.uint64(1)) | ((code >> bit) & 1).astype(np.uint64)
    return found


@dataclass(frozen=True)
class Scale:
    """Places rows on the line along which they are written."""

    ordering: Ordering
    cuts: tuple[pa.Table, ...] = ()
    """For a curve: the bounds that divide the values of each column into parts with equally many rows."""

    @property
    def bits(self) -> int:
        return min(_MOST_BITS, 63 // len(self.ordering.columns))

    def line(self, rows: pa.Table) -> pa.Table:
        """The sort keys of rows. The address tells equal rows apart, so that they can be divided evenly."""
        address = rows[ROW_ADDRESS]
        if not self.ordering.curve:
            return rows.select([*self.ordering.columns, ROW_ADDRESS])
        codes = []
        for name, cuts in zip(self.ordering.columns, self.cuts, strict=True):
            # Stretch few values over the high bits; otherwise the column with many values would dominate.
            codes.append(ranks(cuts, rows.select([name])) * 2**self.bits // (cuts.num_rows + 1))
        return pa.table({_CURVE: interleaved(codes, self.bits), ROW_ADDRESS: address})


def scale_of(ordering: Ordering, sample: pa.Table) -> Scale:
    plain = Scale(ordering)
    if not ordering.curve:
        return plain
    return Scale(ordering, tuple(quantiles(sample.select([name]), 2**plain.bits - 1) for name in ordering.columns))


def cut(scale: Scale, sample: pa.Table, parts: int) -> pa.Table:
    """Bounds that divide the line into ``parts`` of about equally many rows, estimated from a sample."""
    line = scale.line(sample)
    ordered = line.take(pa.array(positions(line)))
    at = np.unique(ordered.num_rows * np.arange(1, parts) // parts)
    return ordered.take(pa.array(at[at > 0], pa.int64()))


# --- Choosing fragments to rewrite
# Pure.
#
# The quality of an order is its *depth*: the average number of fragments whose range contains a row. It is 1 if no
# ranges overlap, and the number of fragments if their rows are mixed. For a curve, it is the mean over its columns of
# the number of fragments whose range of that column contains the row's value.

_SAMPLE = 20_000
"""Minimum number of rows that are examined together."""
_SAMPLE_OF_PART = 50
_COMPARED = 20_000_000
"""Maximum number of comparisons of a fragment with a row of the sample."""
_PART_BYTES = 256 * 2**20
"""Bytes of rows of a new fragment, which are sorted in memory."""
_WIDE = 4.0
"""A fragment is left alone if its range is at most this many times as wide as necessary. New rows widen ranges: all
rows are rewritten once there are four times as many."""
_GAIN = 1.25
"""Factor by which the depth must shrink."""
_GAIN_OF_ALL = 1.5
"""The same if no fragment stands out: then all rows are in another order."""


class FragmentKeys(NamedTuple):
    id: int
    rows: int
    """Without deleted rows."""
    sorted: bool
    """Whether its rows are in the requested order. Unknown for a curve."""
    ends: pa.Table
    """Two rows: the first and the last; for a curve, the minimum and maximum of each column."""
    sample: pa.Table


@dataclass(frozen=True)
class ClusterPlan:
    fragments: frozenset[int]
    scale: Scale
    bounds: pa.Table
    """Bounds between the parts, each of which becomes a fragment."""
    depth: float

    @property
    def parts(self) -> int:
        return int(self.bounds.num_rows) + 1 if self.fragments else 0


def step_of(rows: int, part_rows: int) -> int:
    """The sampling interval: one row in this many is examined."""
    return max(1, rows // max(_SAMPLE, _SAMPLE_OF_PART * -(-rows // max(1, part_rows))))


def rows_of_part(target_rows: int, width: float) -> int:
    """Rows of a new fragment, from the width of a row in bytes."""
    return max(1, min(target_rows, int(_PART_BYTES / max(1.0, width))))


def ends_of(ordering: Ordering, rows: pa.Table) -> tuple[bool, pa.Table]:
    """Whether rows are in order, and their FragmentKeys.ends."""
    if not ordering.curve:
        order = positions(rows.select([*ordering.columns, ROW_ADDRESS]))
        return bool((np.diff(order) > 0).all()), rows.take(pa.array(order[[0, -1]]))
    columns = []
    for name in ordering.columns:
        order = positions(rows.select([name]))
        columns.append(rows[name].take(pa.array(order[[0, -1]])))
    addresses = rows[ROW_ADDRESS].slice(0, 1)
    return False, pa.table(
        [*columns, pa.chunked_array([*addresses.chunks, *addresses.chunks])], [*ordering.columns, ROW_ADDRESS]
    )


def plan_clusters(ordering: Ordering, keys: Sequence[FragmentKeys], part_rows: int, every: bool = False) -> ClusterPlan:
    """Choose the fragments to rewrite and the resulting parts; ``every`` is for all of them.

    A fragment is left alone if it is large enough, its rows are in order, and its range is about as narrow as possible.
    The others are rewritten if that reduces their number or the overlap of their ranges.
    """
    keys = [entry for entry in keys if entry.rows]
    nothing = ClusterPlan(frozenset(), Scale(ordering), pa.table({}), 1.0)
    if not keys:
        return nothing
    if every:
        return _plan_for(ordering, keys, part_rows)[0]
    chosen = _standing_out(ordering, keys, part_rows)
    plan, gain = _plan_for(ordering, chosen, part_rows) if chosen else (nothing, 0.0)
    fewer = len(chosen) > plan.parts
    inside = not ordering.curve and not all(entry.sorted for entry in chosen)
    if fewer or inside or gain > _GAIN:
        return plan
    if ordering.curve:
        plan, gain = _plan_for(ordering, keys, part_rows)
    return plan if ordering.curve and gain > _GAIN_OF_ALL else nothing


def _standing_out(ordering: Ordering, keys: Sequence[FragmentKeys], part_rows: int) -> list[FragmentKeys]:
    """Fragments that are small, unsorted, or much wider than necessary."""
    sample, ends = together(entry.sample for entry in keys), together(entry.ends for entry in keys)
    total = sum(entry.rows for entry in keys)
    power = 1 / len(ordering.columns) if ordering.curve else 1.0
    # For a curve, only the range shows whether rows are in order: with few fragments it cannot be that much too wide.
    wide = min(_WIDE, 0.75 * max(1.0, total / part_rows) ** power) if ordering.curve else _WIDE
    return [
        entry
        for entry, width in zip(keys, shares(ordering, ends, sample), strict=True)
        if entry.rows * 2 < part_rows
        or not (entry.sorted or ordering.curve)
        or width > max(1.2, wide) * (max(entry.rows, total / max(1, sample.num_rows)) / total) ** power
    ]


def _plan_for(ordering: Ordering, chosen: Sequence[FragmentKeys], part_rows: int) -> tuple[ClusterPlan, float]:
    """The plan to rewrite these fragments, and the factor by which the depth shrinks."""
    sample, ends = together(entry.sample for entry in chosen), together(entry.ends for entry in chosen)
    rows = sum(entry.rows for entry in chosen)
    scale = scale_of(ordering, sample)
    depth = depth_of(ordering, ends, sample)
    bounds = cut(scale, sample, -(-rows // part_rows))
    plan = ClusterPlan(frozenset(entry.id for entry in chosen), scale, bounds, depth)
    return plan, depth / max(1e-9, _expected(plan, sample))


def _expected(plan: ClusterPlan, sample: pa.Table) -> float:
    """The depth that the parts will have, estimated from the sample."""
    if not sample.num_rows:
        return 0.0
    parts = ranks(plan.bounds, plan.scale.line(sample))
    # Not with a filter for each part: a large table has thousands of parts, and a sample of millions of rows.
    ends = [ends_of(plan.scale.ordering, sample.take(pa.array(own)))[1] for _, own in divided(parts)]
    return depth_of(plan.scale.ordering, together(ends), sample)


def depth_of(ordering: Ordering, ends: pa.Table, sample: pa.Table) -> float:
    """The depth of fragments with these ends, measured with a sample."""
    return float(shares(ordering, ends, sample).sum())


def shares(ordering: Ordering, ends: pa.Table, sample: pa.Table) -> npt.NDArray[np.float64]:
    """For each fragment, the share of rows within its range; for a curve, the mean over its columns."""
    count = ends.num_rows // 2
    most = max(1, _COMPARED // max(1, count))
    if sample.num_rows > most:
        sample = sample.take(pa.array(np.linspace(0, sample.num_rows - 1, most).astype(np.int64)))
    names = [[name] for name in ordering.columns] if ordering.curve else [list(ordering.columns)]
    inside = [_places(ends.select(each), sample.select(each)) for each in names]
    found = np.empty(count, np.float64)
    for number in range(count):
        hits = [(rows > lows[number]) & (rows < highs[number]) for lows, rows, highs in inside]
        found[number] = np.mean(hits) if sample.num_rows else 0.0
    return found


def _places(ends: pa.Table, sample: pa.Table) -> tuple[Numbers, Numbers, Numbers]:
    """Positions of low ends, rows and high ends in one order; equal ones sort in this sequence."""
    numbers = np.arange(ends.num_rows)
    lows, highs = (ends.take(pa.array(numbers[at::2])) for at in (0, 1))
    order = positions(together([lows, sample, highs]))
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    first, second = lows.num_rows, lows.num_rows + sample.num_rows
    return places[:first], places[first:second], places[second:]
