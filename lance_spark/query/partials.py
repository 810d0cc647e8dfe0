"""Computing partial aggregates over Arrow batches, in bounded memory.

Several rows may come out for one group: Spark merges them. That makes both hard parts simple. Where groups are too
many to keep, what is there is handed on; and a sum that its type cannot hold is handed on in parts, so that it is
Spark, at the end, that finds out whether the whole sum overflows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.query.aggregates import AggregatePlan
from lance_spark.query.grouping import group, integer_sums, merge, prepare, widen
from lance_spark.query.parts import finished

MAX_GROUPS = 2**18
"""Groups that are kept; with more, partial rows are handed on."""
MAX_BYTES = 64 * 2**20
"""Bytes of groups that are kept."""
CHUNK_ROWS = 2**18
"""Rows that are grouped at once: grouping each batch of 65,536 on its own takes twice the time."""
CHUNK_BYTES = 32 * 2**20
"""Bytes of rows that are grouped at once."""
_LARGEST = 2**63 - 1
_ROWS = 2**31
"""Rows after which partial rows are handed on: up to there, no sum of decimals can leave Arrow's 128 bits."""


def aggregate(plan: AggregatePlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of ``plan.output``; several may belong to one group, Spark merges them.

    ``batches`` have the columns of the plan in the dataset's own types, and maybe others. Without groups at least one
    row comes out, also without any batch: Spark adds up the counts that it gets, and says null where there is none.
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
    """The groups found so far, and how far their sums can be from what int64 holds."""

    def __init__(self, plan: AggregatePlan) -> None:
        self._plan = plan
        self._kept: pa.Table | None = None
        self._rows = 0
        self._reach = 0
        self._sent = False

    def add(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Take further rows in; what comes out is done with."""
        reach = max((_reach(rows[name]) for name in integer_sums(self._plan)), default=0)
        if reach > _LARGEST:
            yield from self._send(group(self._plan, widen(self._plan, rows)))
            return
        if self._rows + rows.num_rows > _ROWS or self._reach + reach > _LARGEST:
            yield from self._flush()
        found = group(self._plan, rows)
        if found.num_rows > MAX_GROUPS // 4 and 2 * found.num_rows > rows.num_rows:
            # Nearly every row is a group of its own: merging gains nothing.
            yield from self._send(found)
            return
        self._kept = found if self._kept is None else merge(self._plan, pa.concat_tables([self._kept, found]))
        self._rows += rows.num_rows
        self._reach += reach
        if self._kept.num_rows > MAX_GROUPS or self._kept.nbytes > MAX_BYTES:
            yield from self._flush()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """What is left, or the one row that says that there was nothing."""
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
    """How far from zero the sum of any of these values can be."""
    found = pc.min_max(values).as_py()
    return int(len(values) * max(abs(found["min"] or 0), abs(found["max"] or 0)))
