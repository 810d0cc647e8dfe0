"""From what is pushed down to tasks, or to rows where those are few. No JVM in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from lance_spark.actions.read import MeasuredRead, blob_names, divide_read, measure_read, read_for_spark
from lance_spark.errors import LanceSparkError
from lance_spark.query.extremes import beyond, ends_of, extreme_columns, settled
from lance_spark.query.filters import PushedFilter
from lance_spark.query.metadata_only import answer
from lance_spark.query.statistics import Statistics, estimate
from lance_spark.scan.offset import skip_rows
from lance_spark.scan.plan import ScanPartition
from lance_spark.schema.projection import ROW_ADDRESS, ROW_COLUMNS
from lance_spark.spark.jvm.source import Pushed, Source, read_of, whole_filter
from lance_spark.spark.jvm.tasks import ScanTask
from lance_spark.spark.types import wire_schema
from lance_spark.store.index_ends import index_ends

LOCAL_ROWS = 10_000
"""Rows that the driver reads itself at most, rather than start a job."""
LOCAL_BYTES = 4 * 2**20
"""Bytes that the driver reads itself at most, as far as their types tell."""
LOCAL_FRAGMENTS = 64
"""Fragments that the driver opens at most."""

TAKEN_ROWS = 1_000
"""Rows that each task reads one by one at most, once it knows which are the first in an order."""


@dataclass(frozen=True)
class PlannedScan:
    """A scan whose fragments are known."""

    source: Source
    pushed: Pushed
    measured: MeasuredRead
    task: ScanTask

    @cached_property
    def statistics(self) -> Statistics:
        """Rows and bytes, for Spark to choose its joins by."""
        estimated = estimate(self.measured.fragments, self.task.output, self.source.stored)
        rows = min(estimated.rows, self.measured.rows if self.pushed.limit is None else self.pushed.limit)
        return Statistics(rows, max(1, estimated.bytes * rows // max(1, estimated.rows)))

    @cached_property
    def local(self) -> tuple[pa.RecordBatch, ...] | None:
        """The rows, where the driver has or gets them sooner than a job would; else None."""
        pushed, measured = self.pushed, self.measured
        if pushed.aggregate is not None and pushed.sample is None:
            unknown = None if measured.exact else measured.options.filter
            known = answer(pushed.aggregate, unknown, measured.fragments)
            if known is not None:
                return (known,)
        few = measured.rows <= LOCAL_ROWS and len(measured.fragments) <= LOCAL_FRAGMENTS
        if few and measured.rows * measured.row_width <= LOCAL_BYTES:
            return self._read_here()
        try:
            return self._at_the_ends()
        except LanceSparkError:
            return None  # an index that cannot be read must not fail a query that can do without

    @property
    def is_final(self) -> bool:
        """Whether the aggregates are what Spark would come to, with nothing left to merge."""
        plan = self.pushed.aggregate
        if plan is None or self.local is None or any(each.function == "SUM" for each in plan.partials):
            return False  # the type of a sum of decimals is another one in the end, and a sum may come in parts
        return bool(plan.groups) or sum(batch.num_rows for batch in self.local) == 1

    def _at_the_ends(self) -> tuple[pa.RecordBatch, ...] | None:
        """Minima and maxima, by the rows at the ends of indexes; None where those do not tell."""
        plan, read, options = self.pushed.aggregate, self.source.read, self.measured.options
        whole = self.pushed.sample is None and options.filter is None and options.limit is None
        columns = extreme_columns(plan) if plan is not None and whole else ()
        if plan is None or not columns:
            return None
        told = index_ends(read.location, read.pin, columns)
        if told is None:
            return None
        ends = {name: ends_of(told[name], self.source.stored.field(name).type) for name in columns}
        outermost = beyond(plan, ends, self.source.stored)
        found = None if outermost is None else narrowed(self, (outermost,)).local
        answered = None if found is None else settled(plan, ends, found, self.measured.rows)
        return None if answered is None else (answered,)

    def _read_here(self) -> tuple[pa.RecordBatch, ...] | None:
        """All rows, unless they turn out to be larger than their types tell."""
        batches: list[pa.RecordBatch] = []
        size = 0
        for part in self.in_one:
            for batch in self.task.rows(part):
                batches.append(batch)
                size += batch.nbytes
                if size > 4 * LOCAL_BYTES:
                    return None
        return tuple(batches)

    @property
    def in_one(self) -> tuple[ScanPartition, ...]:
        """Everything as one partition, or as two where the first rows are left out."""
        ids = tuple(each.fragment_id for each in self.measured.fragments)
        whole = (ScanPartition(ids, limit=self.measured.options.limit),)
        return skip_rows(whole, self.measured.fragments, self.pushed.offset) if self.pushed.offset else whole

    def parts(self, cores: int) -> tuple[ScanPartition, ...]:
        """The partitions."""
        partitions = divide_read(self.measured, cores)
        if self.pushed.offset:
            partitions = skip_rows(partitions, self.measured.fragments, self.pushed.offset)
        if not partitions and self.pushed.aggregate is not None:
            return (ScanPartition(()),)  # Spark adds up the counts of all partitions: of none, that would be null
        return partitions


def plan_scan(source: Source, pushed: Pushed) -> PlannedScan:
    """Look at what has to be read. Raises InvalidOption for a filter that pylance cannot parse or bind."""
    output = wire_schema(pushed.columns)
    measured = measure_read(read_of(source, pushed), _needed(source, pushed, output))
    order = pushed.order if pushed.limit is not None else ()
    first = pushed.limit if order or (pushed.limit is not None and measured.options.limit is None) else None
    late = bool(order) and _worth_taking_late(source, pushed)
    task = ScanTask(measured.scan, output, pushed.aggregate, pushed.sample, order, first, late, pushed.counted)
    return PlannedScan(source, pushed, measured, task)


def narrowed(planned: PlannedScan, later: tuple[PushedFilter, ...]) -> PlannedScan:
    """The scan with further filters, which became known while the query ran."""
    source, pushed = planned.source, planned.pushed
    options = replace(planned.measured.options, filter=whole_filter(source, pushed, later))
    measured = measure_read(replace(source.read, options=options), _needed(source, pushed, planned.task.output))
    return replace(planned, measured=measured, task=replace(planned.task, scan=measured.scan))


def _worth_taking_late(source: Source, pushed: Pushed) -> bool:
    """Whether rows of an order are better found first and read then: few of them, with plain columns beside those."""
    output = set(pushed.columns.names)
    plain = output.isdisjoint(ROW_COLUMNS) and output.isdisjoint(blob_names(source.read))
    beside = output - {key.column for key in pushed.order}
    return plain and bool(beside) and pushed.sample is None and (pushed.limit or 0) <= TAKEN_ROWS


def _needed(source: Source, pushed: Pushed, output: pa.Schema) -> pa.Schema:
    """What is read, in the dataset's types."""
    if pushed.aggregate is not None:
        needed = pa.schema([source.arrow.field(name) for name in pushed.aggregate.columns])
    elif pushed.counted:
        needed = pa.schema([])
    else:
        needed = read_for_spark(source.read, output)
    if pushed.sample is not None and needed.get_field_index(ROW_ADDRESS) < 0:
        needed = needed.append(pa.field(ROW_ADDRESS, pa.int64()))
    return needed
