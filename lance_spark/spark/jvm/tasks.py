"""What runs on executors: the rows of one partition. Nothing here reaches for the JVM."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.types import StructType

from lance_spark.query.aggregates import AggregatePlan
from lance_spark.query.ordering import SortKey, first_rows
from lance_spark.query.partials import aggregate
from lance_spark.query.sampling import Sample, sample
from lance_spark.scan.plan import ScanPartition
from lance_spark.schema.conform import conform
from lance_spark.schema.projection import ROW_ADDRESS, ROW_ID
from lance_spark.spark.failures import plainly
from lance_spark.spark.worker_socket import send_at_once
from lance_spark.store.scanning import Scan, read_batches, take_rows


@dataclass(frozen=True)
class ScanTask:
    """What every partition of a scan has in common."""

    scan: Scan
    output: pa.Schema
    """The batches that Spark gets, to the letter."""
    aggregate: AggregatePlan | None = None
    sample: Sample | None = None
    order: tuple[SortKey, ...] = ()
    first: int | None = None
    """Of each partition no more rows than these: the first in the order, where there is one."""
    taken_late: bool = False
    """Whether the first rows in the order are found by the columns that they are sorted by, and read then."""
    counted: bool = False
    """Whether Spark needs no column, only the number of rows: then the one of the output holds nulls."""

    def rows(self, part: ScanPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition."""
        if self.first is not None and not self.order and self.sample is None:
            part = replace(part, limit=self.first if part.limit is None else min(part.limit, self.first))
        batches: Iterable[pa.RecordBatch] = read_batches(self._first_scan, part) if part.fragment_ids else ()
        if self.sample is not None:
            batches = sample(self.sample, batches, ROW_ADDRESS)
        if self.aggregate is not None:
            batches = aggregate(self.aggregate, batches)
        if self.order and self.first is not None:
            batches = first_rows(self.order, self.first, batches)
            if self.taken_late:
                batches = self._whole_rows(batches)
        if self.counted:
            batches = (self._nulls(batch.num_rows) for batch in batches)
        for batch in batches:
            yield conform(batch, self.output)

    @property
    def _first_scan(self) -> Scan:
        if not self.taken_late:
            return self.scan
        names = tuple(dict.fromkeys(key.column for key in self.order))
        return replace(self.scan, columns=replace(self.scan.columns, names=names, with_row_id=True))

    def _whole_rows(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        row_ids = [row_id for batch in batches for row_id in batch.column(ROW_ID).to_pylist()]
        return take_rows(self.scan, row_ids) if row_ids else ()

    def _nulls(self, count: int) -> pa.RecordBatch:
        # A batch without columns reaches Spark as one without rows.
        return pa.RecordBatch.from_arrays([pa.nulls(count, field.type) for field in self.output], schema=self.output)


@dataclass(frozen=True)
class TaskPart:
    """What one task reads, as Spark carries it there."""

    part: ScanPartition
    scan_filter: str | None
    """The filter of the scan, with what became known while the query ran."""


def read_part(task: ScanTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Called by Spark's worker with the part, pickled, in the only cell of the only batch."""
    send_at_once()
    for batch in batches:
        given: TaskPart = pickle.loads(batch.column(0)[0].as_py())
        with plainly():
            yield from replace(task, scan=replace(task.scan, filter=given.scan_filter)).rows(given.part)


def pickled_function(task: ScanTask, schema: StructType) -> bytes:
    """The function as Spark's worker takes it: with the schema of what it returns.

    The filter comes with the part: Spark may make the function before it knows what it filters by.
    """
    shared = replace(task, scan=replace(task.scan, filter=None))
    pickled: bytes = cloudpickle.dumps((partial(read_part, shared), schema))  # type: ignore[no-untyped-call]
    return pickled
