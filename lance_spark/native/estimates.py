"""What Spark's optimizer is told of a scan: rows, bytes, and its columns if somebody has measured them.

Columns only if the session's optimizer weighs costs. Without that it would still compare the numbers of distinct values
of two tables to decide about filters at run time, and take those of a filtered table for those of the whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.layout.filter_rules import columns_of, parse_filter
from lance_spark.layout.histogram_rules import bins_of
from lance_spark.layout.key_rules import plain
from lance_spark.layout.statistic_rules import ColumnEstimate, share_of, within
from lance_spark.layout.statistics import version_statistics
from lance_spark.pushdown.order import ColumnStatistics, Statistics
from lance_spark.scan.fragment_reads import fragment_sizes


@dataclass(frozen=True)
class Estimated:
    """A scan of whole rows, as it is estimated without statistics of columns."""

    location: DatasetLocation
    pin: PinnedVersion
    stored: pa.Schema
    """The dataset's own schema."""
    columns: Sequence[str]
    """Those of the result."""
    filter: str | None
    """What the scan alone applies, in Lance's SQL."""
    sure: Statistics
    final: bool
    """Whether Spark filters these rows no more. If it does, it has to know the rows before that."""
    bins: int
    """Of a histogram."""
    describes: bool
    """Whether Spark only describes a column, and estimates nothing."""


def with_columns(scan: Estimated) -> Statistics:
    """The statistics of a scan with those of its columns, as far as they are known."""
    sure = scan.sure
    condition = None if scan.filter is None else parse_filter(scan.filter, scan.stored, {})
    columns = dict.fromkeys((*scan.columns, *sorted(columns_of(condition))))
    rows = {each.fragment_id: each.live_rows for each in fragment_sizes(scan.location, scan.pin)}
    total = sum(rows.values())
    found = version_statistics(scan.location, scan.pin, [*columns], rows).columns
    if not found or not total or not sure.rows:
        return sure
    kept = max(1, math.ceil(total * share_of(condition, found, total)))
    kept = min(kept, sure.rows) if scan.final else kept
    told = []
    for name, known in found.items():
        kind = scan.stored.field(name).type
        if name in scan.columns and (scan.describes or estimable(kind, known, total)):
            known = within(condition, name, known, kept, total)
            told.append(column_statistics(name, kind, known, kept, scan.bins))
    return Statistics(kept, max(1, sure.bytes * kept // sure.rows), tuple(told))


def estimable(kind: pa.DataType, known: ColumnEstimate, rows: int) -> bool:
    """Whether Spark estimates well with a column's statistics.

    A column whose values have an order, and of which no ends are told, is one of nulls to Spark: it would estimate that
    no row of it finds another one in a join.
    """
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_binary(kind) or pt.is_large_binary(kind):
        return True
    return known.nulls >= rows or _ends(kind, known) is not None


def column_statistics(name: str, kind: pa.DataType, known: ColumnEstimate, rows: int, bins: int) -> ColumnStatistics:
    """A column's statistics, with its ends as Spark has values of its type; in ``rows`` rows."""
    ends, numbers = _ends(kind, known), (known.distinct, known.nulls, known.average, known.longest)
    if ends is None:
        return ColumnStatistics(name, *numbers, _form(kind), None, None)
    told = (str(ends[0]), str(ends[1]))
    made = _bins(kind, known, (float(ends[0]), float(ends[1])), bins)
    height = (rows - known.nulls) / len(made) if made else 0.0
    return ColumnStatistics(name, *numbers, _form(kind), *told, height, made)


def _ends(kind: pa.DataType, known: ColumnEstimate) -> tuple[Any, Any] | None:
    """The ends of a column; guessed, and rather too wide, if only a part of its values is known; None if unknown."""
    low, high = (known.low, known.high) if known.measured is None else known.measured
    if known.measured is not None and low is not None and math.isfinite(high) and math.isfinite(low):
        low, high = widened(kind, low, high)
    if pt.is_timestamp(kind):
        low, high = _micros(kind, low), _micros(kind, high)
    if _form(kind) is None or low is None or high is None or not math.isfinite(float(high) - float(low)):
        return None  # Spark divides by what is between them
    return low, high


def widened(kind: pa.DataType, low: Any, high: Any) -> tuple[Any, Any]:
    """Ends that are as far away on both sides as they are from each other, as far as the type goes.

    Rows that nobody has measured often follow the others. Outside of the ends Spark would expect none of them.
    """
    if pt.is_boolean(kind):
        return False, True
    wider = max(high - low, 1)
    if pt.is_decimal(kind):
        return low - wider, high + wider
    if pt.is_floating(kind):
        most = float(np.finfo(np.float32 if pt.is_float32(kind) else np.float64).max)
        return max(-most, low - wider), min(most, high + wider)
    bits = kind.bit_width - 1
    return max(-(2**bits), low - wider), min(2**bits - 1, high + wider)


_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def _bins(
    kind: pa.DataType, known: ColumnEstimate, ends: tuple[float, float], count: int
) -> tuple[tuple[float, float, int], ...]:
    """The bins of a histogram from one end to the other: Spark insists on these being the column's."""
    if known.distribution is None:
        return ()
    unit = 1_000_000 / _PER_SECOND[kind.unit] if pt.is_timestamp(kind) else 1
    whole = pt.is_integer(kind) or pt.is_date32(kind)
    found = bins_of(known.distribution, count, known.distinct, whole)
    fitted = [[min(max(edge * unit, ends[0]), ends[1]) for edge in each[:2]] for each in found]
    if fitted:
        fitted[0][0], fitted[-1][1] = ends
    return tuple((low, high, each.distinct) for (low, high), each in zip(fitted, found, strict=True))


def _form(kind: pa.DataType) -> str | None:
    """The Java class of a type's values in Spark; None for those of which it compares no ends.

    It cannot estimate with those of TIMESTAMP_NTZ, and would fail.
    """
    if pt.is_boolean(kind):
        return "flag"
    if pt.is_int64(kind) or (pt.is_timestamp(kind) and kind.tz is not None):
        return "long"
    if pt.is_integer(kind) or pt.is_date32(kind):
        return "int"
    if pt.is_floating(kind):
        return "double"
    return "decimal" if pt.is_decimal(kind) else None


def _micros(kind: pa.TimestampType, end: Any) -> Any:
    if end is None:
        return None
    moments = pa.array([end], pa.int64()).cast(kind).cast(pa.timestamp("us", kind.tz), safe=False)
    return plain(moments)[0]
