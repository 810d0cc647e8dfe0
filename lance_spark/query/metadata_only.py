"""Which queries the manifest alone answers."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lance_spark.query.aggregates import AggregatePlan
from lance_spark.query.comparisons import ALWAYS, NEVER
from lance_spark.scan.plan import FragmentSize

_CONSTANT = (None, ALWAYS, NEVER)
"""Filters that say the same of all rows."""


def answer(plan: AggregatePlan, filter: str | None, fragments: Iterable[FragmentSize]) -> pa.RecordBatch | None:
    """The one row that a plan comes to, if it only counts rows; None when data has to be read.

    ``filter`` is the whole filter of the scan, in Lance's SQL.
    """
    if plan.groups or any(each.function != "COUNT_STAR" for each in plan.partials) or filter not in _CONSTANT:
        return None
    rows = 0 if filter == NEVER else sum(fragment.live_rows for fragment in fragments)
    columns = [pa.array([rows], pa.int64()) for _ in plan.partials]
    return pa.RecordBatch.from_arrays(columns, schema=plan.output)
