"""Top rows, samples and estimates: the first rows in an order, random parts of a table, and the size of a read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.format.kept_types import is_plain
from lance_spark.format.schema import row_width
from lance_spark.scan.partition_rules import FragmentSize

_SORTABLE = (
    pt.is_integer,
    pt.is_float32,
    pt.is_float64,
    pt.is_boolean,
    pt.is_decimal,
    pt.is_date,
    pt.is_timestamp,
    pt.is_string,
    pt.is_large_string,
    pt.is_binary,
    pt.is_large_binary,
)
"""Types whose values Arrow sorts like Spark, except NaN."""
_HELD = 4
"""Multiple of the limit, and number of batches, to hold before sorting again."""


@dataclass(frozen=True)
class SortKey:
    column: str
    ascending: bool
    nulls_first: bool


def sortable(keys: Sequence[SortKey], schema: pa.Schema) -> bool:
    """Whether Arrow finds the same first rows as Spark."""
    if not keys or any(schema.get_field_index(key.column) < 0 for key in keys):
        return False
    fields = [schema.field(key.column) for key in keys]
    return all(is_plain(field) and any(applies(field.type) for applies in _SORTABLE) for field in fields)


def first_rows(keys: Sequence[SortKey], limit: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows > _HELD * (limit + batch.num_rows):
            held = _first(keys, limit, held)
            rows = sum(each.num_rows for each in held)
    if held:
        yield from _first(keys, limit, held)


def _first(keys: Sequence[SortKey], limit: int, held: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    table = pa.Table.from_batches(held)
    columns: dict[str, pa.ChunkedArray] = {}
    order: list[tuple[str, str]] = []
    for at, key in enumerate(keys):
        values, direction = table[key.column], "ascending" if key.ascending else "descending"
        # Nulls and NaN get columns of their own: Arrow puts both at the end of either order.
        columns[f"null{at}"] = values.is_null()
        order.append((f"null{at}", "descending" if key.nulls_first else "ascending"))
        if pt.is_floating(values.type):
            columns[f"nan{at}"] = pc.fill_null(pc.is_nan(values), False)
            order.append((f"nan{at}", direction))  # Spark sorts it after any other value
        columns[f"value{at}"] = values
        order.append((f"value{at}", direction))
    indices = pc.sort_indices(pa.table(columns), sort_keys=order)
    batches: list[pa.RecordBatch] = table.take(indices.slice(0, limit)).combine_chunks().to_batches()
    return batches


# --- A random sample of the rows, the same each time and on every executor


@dataclass(frozen=True)
class Sample:
    """The rows whose random number, from 0 to 1, is in a range."""

    lower: float
    """Inclusive lower bound."""
    upper: float
    """Exclusive upper bound."""
    seed: int


def sample(wanted: Sample, batches: Iterable[pa.RecordBatch], addresses: str) -> Iterator[pa.RecordBatch]:
    """The chosen rows. A row's number derives from the seed and its address: the division of a read does not matter."""
    for batch in batches:
        drawn = _numbers(batch.column(addresses).to_numpy(zero_copy_only=False), wanted.seed)
        yield batch.filter(pa.array((drawn >= wanted.lower) & (drawn < wanted.upper)))


def _numbers(addresses: np.ndarray, seed: int) -> np.ndarray:
    """SplitMix64 of each address, as numbers from 0 to 1."""
    with np.errstate(over="ignore"):
        mixed = addresses.astype(np.uint64) + np.uint64(seed & 0xFFFFFFFFFFFFFFFF) * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
    drawn: np.ndarray = (mixed >> np.uint64(11)) / float(2**53)
    return drawn


# --- The size of a read, which Spark's choice of joins depends on


@dataclass(frozen=True)
class ColumnStatistics:
    """About a column, for Spark's choice of plans."""

    name: str
    distinct: int
    nulls: int
    average: int
    """Bytes of a value."""
    longest: int
    form: str | None
    """The Java class of the ends: ``flag``, ``int``, ``long``, ``double`` or ``decimal``; None without ends."""
    low: str | None
    high: str | None
    height: float = 0.0
    """Rows in each bin of the histogram."""
    bins: tuple[tuple[float, float, int], ...] = ()
    """Those of an equi-height histogram: lower end, upper end, distinct values; none without one."""


@dataclass(frozen=True)
class Statistics:
    rows: int
    """Rows that are not deleted."""
    bytes: int
    """Estimated size of the columns that are read; at least 1, because Spark multiplies sizes."""
    columns: tuple[ColumnStatistics, ...] = ()
    """Those of which something is known."""


def estimate(fragments: Iterable[FragmentSize], read: pa.Schema, whole: pa.Schema) -> Statistics:
    """Rows and bytes of these fragments. ``read`` are the fields that are read, ``whole`` is the dataset's schema.

    The larger of two guesses counts, from the types and from the stored bytes: long strings are wider than their type
    suggests, and data that compresses well is larger in memory than in its files. Spark broadcasts a table whose
    estimate is too small.
    """
    width, all_widths = row_width(read), row_width(whole)
    share = min(1.0, width / all_widths) if all_widths else 1.0
    rows, stored = 0, 0.0
    for fragment in fragments:
        rows += fragment.live_rows
        stored += fragment.stored_bytes * share * fragment.live_rows / max(1, fragment.physical_rows)
    return Statistics(rows, max(1, int(rows * width), int(stored)))
