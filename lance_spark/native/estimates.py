"""What Spark's optimizer is told of a scan: rows, bytes, and its columns if somebody has measured them.

Columns only if the session's optimizer weighs costs. Without that it would still compare the numbers of distinct values
of two tables to decide about filters at run time, and take those of a filtered table for those of the whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.layout.filter_rules import columns_of, parse_filter
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
    told = tuple(
        column_statistics(name, scan.stored.field(name).type, within(condition, name, known, kept, total))
        for name, known in found.items()
        if name in scan.columns
    )
    return Statistics(kept, max(1, sure.bytes * kept // sure.rows), told)


def column_statistics(name: str, kind: pa.DataType, known: ColumnEstimate) -> ColumnStatistics:
    """A column's statistics, with its ends as Spark has values of its type."""
    form, low, high = _form(kind), known.low, known.high
    if pt.is_timestamp(kind):
        low, high = _micros(kind, low), _micros(kind, high)
    known_ends = form is not None and all(end is not None and math.isfinite(end) for end in (low, high))
    texts = [str(end) if known_ends else None for end in (low, high)]
    return ColumnStatistics(name, known.distinct, known.nulls, known.average, known.longest, form, texts[0], texts[1])


def _form(kind: pa.DataType) -> str | None:
    """The Java class of a type's values in Spark; None for those of which it compares no ends."""
    if pt.is_boolean(kind):
        return "flag"
    if pt.is_int64(kind) or pt.is_timestamp(kind):
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
