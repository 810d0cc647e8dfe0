"""In which order rows are rewritten: by columns, or along a z-curve through several of them. Pure.

Values are compared by sorting, never by arithmetic: a z-order takes the ranks of values among a sample. So it works for
strings and dates as for numbers, and for columns in which a few values make up most rows. Nulls come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.errors import InvalidOption
from lance_spark.options.text import names_of
from lance_spark.schema.projection import ROW_ADDRESS

_MOST_BITS = 10
"""Of each column in a z-value: 1,024 parts of a column are more than there are fragments."""
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
    """The order that is asked for."""

    columns: tuple[str, ...]
    curve: bool = False
    """Along a z-curve, so that ranges of each of the columns are cheap; otherwise by the first one, then the next."""

    def __str__(self) -> str:
        """``day, carrier`` or ``z-order of day, carrier``."""
        listed = ", ".join(self.columns)
        return f"z-order of {listed}" if self.curve else listed


def ordering_of(sort_by: Sequence[str] | str | None, zorder: Sequence[str] | str | None) -> Ordering | None:
    """The order from arguments; None for none. Raises InvalidOption for names that cannot be."""
    if sort_by is not None and zorder is not None:
        raise InvalidOption("sort_by and zorder cannot both be given.", hint="Choose one of them.")
    name, given = ("sort_by", sort_by) if zorder is None else ("zorder", zorder)
    if given is None:
        return None
    columns = names_of(given)
    if not columns or not all(str(column).strip() for column in columns):
        raise InvalidOption(f"{name} is a list of columns.", hint=f"For example {name}=['day', 'carrier'].")
    if len(set(columns)) < len(columns):
        raise InvalidOption(f"{name} names a column twice: {', '.join(columns)}.")
    if zorder is not None and len(columns) < 2:
        raise InvalidOption("zorder takes at least two columns.", hint=f"Use sort_by=['{columns[0]}'].")
    return Ordering(columns, zorder is not None)


def check_columns(ordering: Ordering, schema: pa.Schema) -> None:
    """Raise InvalidOption for a column that the table does not have, or whose values have no order."""
    for name in ordering.columns:
        if name not in schema.names:
            raise InvalidOption(f"There is no column '{name}'.", hint=f"There are {', '.join(schema.names)}.")
        kind = schema.field(name).type
        if not any(fits(kind) for fits in _SORTABLE):
            raise InvalidOption(f"Column '{name}' of type {kind} has no order.", hint="Choose another column.")


def positions(rows: pa.Table) -> Numbers:
    """The order of rows by all columns, as indices; equal rows keep theirs."""
    keys = [(name, "ascending") for name in rows.column_names]
    found: Numbers = pc.sort_indices(rows, sort_keys=keys).to_numpy().astype(np.int64)
    return found


def ranks(bounds: pa.Table, rows: pa.Table) -> Numbers:
    """For each row, how many of the bounds are not behind it."""
    order = positions(pa.concat_tables([bounds, rows]))
    is_bound = order < bounds.num_rows
    before = np.cumsum(is_bound)
    found = np.empty(rows.num_rows, np.int64)
    found[order[~is_bound] - bounds.num_rows] = before[~is_bound]
    return found


def divided(parts: Numbers) -> list[tuple[int, Numbers]]:
    """The numbers of the parts that rows belong to, each with its rows in their order."""
    order = np.argsort(parts, kind="stable")
    found, starts = np.unique(parts[order], return_index=True)
    return list(zip(found.tolist(), np.split(order, starts[1:]), strict=True)) if len(parts) else []


def quantiles(rows: pa.Table, count: int) -> pa.Table:
    """At most so many rows that cut the rows, in their order, into parts of the same size; none of them twice."""
    distinct = rows.group_by(rows.column_names).aggregate([([], "count_all")])
    order = positions(distinct.select(rows.column_names))
    ordered = distinct.take(pa.array(order))
    ends = np.cumsum(ordered["count_all"].to_numpy())
    wanted = rows.num_rows * np.arange(1, count + 1) / (count + 1)
    # A value belongs to the bound that it is equal to, so the first one cuts nothing.
    at = np.unique(np.searchsorted(ends, wanted, side="right"))
    return ordered.select(rows.column_names).take(pa.array(at[(at > 0) & (at < len(ends))]))


def interleaved(codes: Sequence[Numbers], bits: int) -> npt.NDArray[np.uint64]:
    """Numbers below ``2 ** bits`` as one: the first bit of each, then the second one of each, and so on."""
    found = np.zeros(len(codes[0]), np.uint64)
    for bit in range(bits - 1, -1, -1):
        for code in codes:
            found = (found << np.uint64(1)) | ((code >> bit) & 1).astype(np.uint64)
    return found


@dataclass(frozen=True)
class Scale:
    """What places rows on the one line along which they are written."""

    ordering: Ordering
    cuts: tuple[pa.Table, ...] = ()
    """Of a curve: the bounds that divide the values of each column into parts with the same number of rows."""

    @property
    def bits(self) -> int:
        """Of each column in a z-value."""
        return min(_MOST_BITS, 63 // len(self.ordering.columns))

    def line(self, rows: pa.Table) -> pa.Table:
        """What rows are to be sorted by. The address tells equal rows apart, so that they can be divided evenly."""
        address = rows[ROW_ADDRESS]
        if not self.ordering.curve:
            return rows.select([*self.ordering.columns, ROW_ADDRESS])
        codes = []
        for name, cuts in zip(self.ordering.columns, self.cuts, strict=True):
            # Few values take the high bits as well: else the column with many would count alone.
            codes.append(ranks(cuts, rows.select([name])) * 2**self.bits // (cuts.num_rows + 1))
        return pa.table({_CURVE: interleaved(codes, self.bits), ROW_ADDRESS: address})


def scale_of(ordering: Ordering, sample: pa.Table) -> Scale:
    """The scale that a sample of rows gives."""
    plain = Scale(ordering)
    if not ordering.curve:
        return plain
    return Scale(ordering, tuple(quantiles(sample.select([name]), 2**plain.bits - 1) for name in ordering.columns))


def cut(scale: Scale, sample: pa.Table, parts: int) -> pa.Table:
    """Bounds that divide the line into so many parts with about the same number of rows, by a sample."""
    line = scale.line(sample)
    ordered = line.take(pa.array(positions(line)))
    at = np.unique(ordered.num_rows * np.arange(1, parts) // parts)
    return ordered.take(pa.array(at[at > 0], pa.int64()))
