"""Which fragments an order would help, how many rows a new one gets, and how much the order helped. Pure.

How good an order is, is measured: the *depth* is the number of fragments in whose range a row lies, on average. It is 1
if no ranges overlap, and the number of fragments if their rows are mixed. Of a curve it is the mean over its columns of
the fragments whose range of that column has the row's value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.compaction.ordering import Numbers, Ordering, Scale, cut, divided, positions, ranks, scale_of
from lance_spark.schema.projection import ROW_ADDRESS

_SAMPLE = 20_000
"""Rows that are looked at together, at least."""
_SAMPLE_OF_PART = 50
_COMPARED = 20_000_000
"""Comparisons of a fragment with a row of the sample, at most."""
_PART_BYTES = 256 * 2**20
"""The rows of one new fragment are sorted in memory."""
_WIDE = 4.0
"""So many times as wide as it has to be is the range of a fragment that is left alone, at most. New rows make ranges
wider: all rows are rewritten again once there are four times as many."""
_GAIN = 1.25
"""So many times smaller has the depth to become."""
_GAIN_OF_ALL = 1.5
"""The same where no fragment stands out: then all have another order."""


class FragmentKeys(NamedTuple):
    """What was read of one fragment."""

    id: int
    rows: int
    """Without the deleted ones."""
    sorted: bool
    """Whether its rows are in the order that is asked for. Not known of a curve."""
    ends: pa.Table
    """Two rows: the first and the last one; of a curve the least and the greatest value of each column."""
    sample: pa.Table
    """Some rows."""


@dataclass(frozen=True)
class ClusterPlan:
    """What is to be written."""

    fragments: frozenset[int]
    """Those that are rewritten."""
    scale: Scale
    bounds: pa.Table
    """Between the parts, each of which becomes a fragment."""
    depth: float
    """Of the fragments that are rewritten."""

    @property
    def parts(self) -> int:
        """How many fragments there will be."""
        return int(self.bounds.num_rows) + 1 if self.fragments else 0


def step_of(rows: int, part_rows: int) -> int:
    """Every how many rows one is looked at."""
    return max(1, rows // max(_SAMPLE, _SAMPLE_OF_PART * -(-rows // max(1, part_rows))))


def rows_of_part(target_rows: int, width: float) -> int:
    """Rows of a new fragment, from the bytes of one row."""
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


def plan_clusters(ordering: Ordering, keys: Sequence[FragmentKeys], part_rows: int) -> ClusterPlan:
    """Which fragments to rewrite, and into which parts.

    A fragment is left alone if it is large enough, its rows are in order, and its range is about as narrow as it can
    be. The others are rewritten if that makes fewer of them, or ranges that overlap less.
    """
    keys = [entry for entry in keys if entry.rows]
    nothing = ClusterPlan(frozenset(), Scale(ordering), pa.table({}), 1.0)
    if not keys:
        return nothing
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
    """Fragments that are small, not in order, or much wider than they have to be."""
    sample, ends = pa.concat_tables(entry.sample for entry in keys), pa.concat_tables(entry.ends for entry in keys)
    total = sum(entry.rows for entry in keys)
    power = 1 / len(ordering.columns) if ordering.curve else 1.0
    # Of a curve the range alone tells whether rows are in order: with few fragments it cannot be so much too wide.
    wide = min(_WIDE, 0.75 * max(1.0, total / part_rows) ** power) if ordering.curve else _WIDE
    return [
        entry
        for entry, width in zip(keys, shares(ordering, ends, sample), strict=True)
        if entry.rows * 2 < part_rows
        or not (entry.sorted or ordering.curve)
        or width > max(1.2, wide) * (max(entry.rows, total / max(1, sample.num_rows)) / total) ** power
    ]


def _plan_for(ordering: Ordering, chosen: Sequence[FragmentKeys], part_rows: int) -> tuple[ClusterPlan, float]:
    """What rewriting these fragments takes, and how many times smaller the depth becomes."""
    sample, ends = pa.concat_tables(entry.sample for entry in chosen), pa.concat_tables(entry.ends for entry in chosen)
    rows = sum(entry.rows for entry in chosen)
    scale = scale_of(ordering, sample)
    depth = depth_of(ordering, ends, sample)
    bounds = cut(scale, sample, -(-rows // part_rows))
    plan = ClusterPlan(frozenset(entry.id for entry in chosen), scale, bounds, depth)
    return plan, depth / max(1e-9, _expected(plan, sample))


def _expected(plan: ClusterPlan, sample: pa.Table) -> float:
    """The depth that the parts will have, by the sample."""
    if not sample.num_rows:
        return 0.0
    parts = ranks(plan.bounds, plan.scale.line(sample))
    # Not by a filter for each part: a large table has thousands of them, and a sample of millions of rows.
    ends = [ends_of(plan.scale.ordering, sample.take(pa.array(own)))[1] for _, own in divided(parts)]
    return depth_of(plan.scale.ordering, pa.concat_tables(ends), sample)


def depth_of(ordering: Ordering, ends: pa.Table, sample: pa.Table) -> float:
    """The depth of fragments with these ends, as seen by rows of a sample."""
    return float(shares(ordering, ends, sample).sum())


def shares(ordering: Ordering, ends: pa.Table, sample: pa.Table) -> npt.NDArray[np.float64]:
    """For each fragment the share of the rows that lie in its range; of a curve the mean of those of its columns."""
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
    """Places of low ends, rows and high ends in one order, in which equal ones come in this order."""
    numbers = np.arange(ends.num_rows)
    lows, highs = (ends.take(pa.array(numbers[at::2])) for at in (0, 1))
    order = positions(pa.concat_tables([lows, sample, highs]))
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    first, second = lows.num_rows, lows.num_rows + sample.num_rows
    return places[:first], places[first:second], places[second:]
