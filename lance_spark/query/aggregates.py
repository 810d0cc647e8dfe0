"""Partial aggregates: which Spark can leave to its executors' Arrow, and computing them batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from lance_spark.query.expressions import Column

Function = Literal["COUNT_STAR", "COUNT", "SUM", "MIN", "MAX", "AVG"]


@dataclass(frozen=True)
class Aggregate:
    """One aggregate as Spark's planner asks for it."""

    function: Function
    column: Column | None = None
    """None only for COUNT_STAR. An aggregate over anything but a column has no such value: it is not possible."""
    distinct: bool = False


@dataclass(frozen=True)
class AggregatePlan:
    """What to read and what comes out; executors get it pickled."""

    columns: tuple[str, ...]
    """Top-level columns to read; empty for COUNT_STAR alone."""
    output: pa.Schema
    """The rows that come out, as Spark's Arrow types: group columns first, then one column for each aggregate. Names
    are unique."""


def plan_aggregates(
    aggregates: Sequence[Aggregate],
    groups: Sequence[Column],
    schema: pa.Schema,
    asked: Sequence[Aggregate] = (),
    ansi: bool = True,
) -> AggregatePlan | None:
    """How to compute partial aggregates that Spark merges to its own result; None when that is not possible.

    ``aggregates`` are those of ``pushAggregation``, where Spark has split AVG into SUM and COUNT. ``asked`` are those
    of ``supportCompletePushDown`` before, with AVG among them: an average does not overflow where a sum does.
    """
    return None


def aggregate(plan: AggregatePlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of ``plan.output``; several may belong to one group, Spark merges them.

    ``batches`` have the columns of the plan in the dataset's own types. Without groups at least one row comes out.
    """
    yield from ()
