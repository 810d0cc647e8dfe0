"""A pinned version in Spark's planner: what is pushed down, the planned scan, its text in EXPLAIN, and streams."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from lance_spark.core.catalog_options import OWN_NAME
from lance_spark.core.table_options import parse_stream_options, split_stream_options
from lance_spark.engine.types_spark import to_spark, wire_schema
from lance_spark.errors import InvalidOption, LanceSparkError
from lance_spark.format.kept_types import LENGTH_KEY, is_plain
from lance_spark.format.schema import ROW_ADDRESS, ROW_COLUMNS, case_pair
from lance_spark.indexes.index_segments import index_ends
from lance_spark.jvm import answers, names
from lance_spark.jvm.answers import Answer, RowBytes
from lance_spark.jvm.bridge import Bridge, aggregates, columns, expression, parsed_schema, sort_key
from lance_spark.jvm.proxies import ChosenPredicates, Implementation
from lance_spark.layout.grouping import grouping
from lance_spark.layout.grouping_rules import (
    ALWAYS,
    GROUPING,
    NEVER,
    Grouping,
    function_name,
    is_worthwhile,
    parse_grouping,
)
from lance_spark.layout.key_rules import Key
from lance_spark.native.estimates import Estimated, with_columns
from lance_spark.native.places import Place
from lance_spark.native.rows import few_rows, has_unsafe_rows, internal_rows, unsafe_rows
from lance_spark.native.tasks import ScanTask, grouped_partitions, input_partitions, reader_factory
from lance_spark.pushdown.aggregates import (
    Aggregate,
    AggregatePlan,
    answer,
    beyond,
    ends_of,
    extreme_columns,
    plan_aggregates,
    settled,
)
from lance_spark.pushdown.filters import (
    PushedFilter,
    as_spark_sends,
    conjunction,
    has_null_bytes,
    named_columns,
    translate,
)
from lance_spark.pushdown.order import Sample, SortKey, Statistics, estimate, sortable
from lance_spark.scan.fragment_reads import ScanColumns, fragment_sizes, read_batches, stored_schema
from lance_spark.scan.partition_rules import ScanPartition, plan_by_key, skip_rows, weights_by_key
from lance_spark.scan.read import (
    MeasuredRead,
    PinnedRead,
    blob_names,
    divide_read,
    measure_read,
    quick_columns,
    read_for_spark,
    read_schema,
    request_of,
)

SMALL_ROWS = 100_000
"""Maximum rows of a table that counts as a dimension."""


@dataclass(frozen=True)
class Source:
    read: PinnedRead
    given: StructType | None = None
    """The user's schema; None for the dataset's own."""
    newest: bool = False
    """Whether the newest version of a branch was meant, and no tag, version or moment."""

    @cached_property
    def arrow(self) -> pa.Schema:
        """The schema in the dataset's types."""
        return read_schema(self.read)

    @cached_property
    def stored(self) -> pa.Schema:
        """The schema that filters and aggregates refer to."""
        return stored_schema(self.read.location, self.read.pin)

    @cached_property
    def schema(self) -> StructType:
        return self.given or to_spark(self.arrow)

    @property
    def takes_more(self) -> bool:
        """Whether more than columns can be pushed down: not below a limit, nor with the user's types."""
        return self.given is None and self.read.options.limit is None

    @cached_property
    def plain_columns(self) -> list[str]:
        """The columns of which Spark compares values as their files do: no collation, and no padding of CHAR."""
        return [
            field.name
            for field in self.schema
            if not isinstance(field.dataType, StringType)
            or (field.dataType == StringType() and LENGTH_KEY not in field.metadata)
        ]

    @cached_property
    def case_pair(self) -> tuple[str, str] | None:
        """Two names that a session ignoring case takes for one: what is read can be neither narrowed nor extended."""
        return case_pair(self.arrow)

    @cached_property
    def is_small(self) -> bool:
        """Whether this might be a dimension of a star join. If so, Spark gets filters back although they were applied.

        Spark uses a visible filter to filter the table joined with this one; without one it assumes that the join keeps
        all rows. For larger tables, pushing down aggregates is worth more, and filters prevent that.
        """
        read = self.read
        return sum(each.live_rows for each in fragment_sizes(read.location, read.pin)) <= SMALL_ROWS

    @cached_property
    def key(self) -> str:
        """Distinguishes this read from every other one; contains no secret."""
        options = hashlib.sha256(repr(self.read.location.options).encode()).hexdigest()
        return f"{self.shown} {self.read!r} {self.read.pin.stamp} {options} {self.given!r}"

    @property
    def shown(self) -> str:
        """The branch and version that were the newest, for :func:`lance_spark.native.reading.reads_of`."""
        pin = self.read.pin
        return json.dumps([self.read.location.uri, pin.branch, pin.version] if self.newest else None)

    @property
    def name(self) -> str:
        return f"{self.read.location.uri}@{self.read.pin}"


@dataclass(frozen=True)
class Pushed:
    """The work that Spark leaves to the scan."""

    columns: StructType
    """The result columns, with nested fields pruned."""
    filters: tuple[PushedFilter, ...] = ()
    sample: Sample | None = None
    aggregate: AggregatePlan | None = None
    order: tuple[SortKey, ...] = ()
    """The first rows of each partition in this order, up to the limit."""
    limit: int | None = None
    offset: int = 0
    counted: bool = False
    """Whether Spark needs no column, only rows."""

    @property
    def rows_as_read(self) -> bool:
        """Whether each row that is read is also returned."""
        return self.sample is None and self.aggregate is None and not self.order


def whole_filter(source: Source, pushed: Pushed, later: tuple[PushedFilter, ...] = ()) -> str | None:
    """The user's own filter and the pushed ones, in Lance's SQL. ``later`` became known while the query ran."""
    own, others = source.read.options.filter, conjunction((*pushed.filters, *later))
    if own is None or others is None:
        return others or own
    return f"({own}) AND ({others})"


def read_of(source: Source, pushed: Pushed) -> PinnedRead:
    """The read with the pushed-down operations as its options.

    With a filter, each task has its own limit: only all tasks together could tell when it is reached.
    """
    combined = whole_filter(source, pushed)
    limit = source.read.options.limit
    if pushed.limit is not None and pushed.rows_as_read and combined is None:
        limit = pushed.limit
    return replace(source.read, options=replace(source.read.options, filter=combined, limit=limit))


# --- From pushed operations to tasks, or to the rows themselves if they are few
# No JVM access.

LOCAL_ROWS = 10_000
"""Maximum rows that the driver reads itself instead of starting a job."""
LOCAL_BYTES = 4 * 2**20
"""Maximum bytes that the driver reads itself, estimated from their types."""
LOCAL_FRAGMENTS = 64

TAKEN_ROWS = 1_000
"""Maximum rows that each task reads one by one, once it knows the first rows in an order."""


@dataclass(frozen=True)
class PlannedScan:
    source: Source
    pushed: Pushed
    measured: MeasuredRead
    task: ScanTask

    @cached_property
    def statistics(self) -> Statistics:
        """Rows and bytes, for Spark's choice of joins."""
        estimated = estimate(self.measured.fragments, self.task.output, self.source.stored)
        rows = min(estimated.rows, self.measured.rows if self.pushed.limit is None else self.pushed.limit)
        return Statistics(rows, max(1, estimated.bytes * rows // max(1, estimated.rows)))

    @cached_property
    def local(self) -> tuple[pa.RecordBatch, ...] | None:
        """The rows, if the driver has or gets them sooner than a job would; otherwise None."""
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
            return None  # an unreadable index must not fail a query that does not depend on it

    @property
    def is_final(self) -> bool:
        """Whether the aggregates are Spark's final results, with nothing left to merge."""
        plan = self.pushed.aggregate
        if plan is None or self.local is None or any(each.function == "SUM" for each in plan.partials):
            return False  # a sum of decimals has another type in the end, and a sum can come in parts
        return bool(plan.groups) or sum(batch.num_rows for batch in self.local) == 1

    def _at_the_ends(self) -> tuple[pa.RecordBatch, ...] | None:
        """Minima and maxima, from the rows at the ends of indexes; None if those are not conclusive."""
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
        """All rows, unless they are larger than their types suggest."""
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
        """Everything as one partition, or as two if the first rows are skipped."""
        ids = tuple(each.fragment_id for each in self.measured.fragments)
        whole = (ScanPartition(ids, limit=self.measured.options.limit),)
        return skip_rows(whole, self.measured.fragments, self.pushed.offset) if self.pushed.offset else whole

    def parts(self, cores: int) -> tuple[ScanPartition, ...]:
        partitions = divide_read(self.measured, cores)
        if self.pushed.offset:
            partitions = skip_rows(partitions, self.measured.fragments, self.pushed.offset)
        if not partitions and self.pushed.aggregate is not None:
            return (ScanPartition(()),)  # Spark adds up the counts of all partitions: without any, the sum is null
        return partitions


def plan_scan(source: Source, pushed: Pushed) -> PlannedScan:
    """Determine what to read. Raises InvalidOption for a filter that pylance cannot parse or bind."""
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
    """Whether to find an order's first rows first and read them then: if they are few, with other plain columns."""
    output = set(pushed.columns.names)
    plain = output.isdisjoint(ROW_COLUMNS) and output.isdisjoint(blob_names(source.read))
    beside = output - {key.column for key in pushed.order}
    return plain and bool(beside) and pushed.sample is None and (pushed.limit or 0) <= TAKEN_ROWS


def _needed(source: Source, pushed: Pushed, output: pa.Schema) -> pa.Schema:
    """The columns to read, in the dataset's types."""
    if pushed.aggregate is not None:
        needed = pa.schema([source.arrow.field(name) for name in pushed.aggregate.columns])
    elif pushed.counted:
        needed = pa.schema([])
    else:
        needed = read_for_spark(source.read, output)
    if pushed.sample is not None and needed.get_field_index(ROW_ADDRESS) < 0:
        needed = needed.append(pa.field(ROW_ADDRESS, pa.int64()))
    return needed


# --- The settings of the session that a plan follows, read once for each table of a query

_BUCKETING = "spark.sql.sources.v2.bucketing.enabled"
_COSTS = "spark.sql.cbo.enabled"
_BINS = "spark.sql.statistics.histogram.numBins"
_UNSOUND = (
    "spark.sql.sources.v2.bucketing.shuffle.enabled",
    "spark.sql.sources.v2.bucketing.partiallyClusteredDistribution.enabled",
)
"""With one of these, some Sparks lose rows or have them twice where more than two tables join, or groups follow."""


@dataclass(frozen=True)
class Settings:
    grouping: str | None
    """As it was given."""
    bucketing: bool
    """Whether Spark makes use of keys."""
    weighs_costs: bool
    """Whether its optimizer uses statistics of columns."""
    unsound: bool
    """Whether Spark's answers with keys may be wrong."""
    bins: int
    """Those of a histogram."""


def settings_of(bridge: Bridge) -> Settings:
    grouping, bins, *given = bridge.settings((GROUPING, _BINS, _BUCKETING, _COSTS, *_UNSOUND))
    bucketing, costs, *unsound = (str(each).lower() == "true" for each in given)
    return Settings(grouping, bucketing, costs, any(unsound) and not bridge.groups_soundly, int(bins or 0))


# --- The interface for Spark's planner while it decides what to push down
# It calls in this order: sample, filters, aggregates, limit or top rows, offset, columns, build.


class NativeScanBuilder(Implementation):
    """Spark's ``ScanBuilder``: one for each occurrence of a table in a query."""

    interfaces: ClassVar = (
        names.PUSH_FILTERS,
        names.PUSH_AGGREGATES,
        names.PUSH_COLUMNS,
        names.PUSH_LIMIT,
        names.PUSH_TOP_N,
        names.PUSH_OFFSET,
        names.PUSH_SAMPLE,
    )
    told: ClassVar = frozenset(
        {
            "pushTableSample",
            "pushPredicates",
            "supportCompletePushDown",
            "pushAggregation",
            "pushTopN",
            "pruneColumns",
        }
    )

    def __init__(self, bridge: Bridge, source: Source, stream: TableStream | None = None) -> None:
        super().__init__(bridge)
        self._source, self._stream = source, stream
        self._pushed = Pushed(source.schema)
        self._asked: list[Aggregate] = []
        self._named: set[str] = set()
        self._partial = True
        self._groups: frozenset[str] | None = None
        """The columns of a GROUP BY, if Spark has asked about one."""
        self._pruned = False
        """Whether Spark has chosen columns, as for every query; to describe one column it builds a scan at once."""
        self._divided = False
        """Whether Spark aggregates better without this scan's help: no row has to be moved, and groups are small."""
        self._last: PlannedScan | None = None

    @cached_property
    def _settings(self) -> Settings:
        return settings_of(self.bridge)

    def push_table_sample(self, lower: float, upper: float, replacement: bool, seed: int, method: Any = None) -> bool:
        """Take a sample of single rows. Spark handles blocks of rows, and sampling with replacement."""
        if replacement or not self._source.takes_more or method not in (None, "BERNOULLI"):
            return False
        self._pushed = replace(self._pushed, sample=Sample(lower, upper, seed))
        return True

    def push_predicates(self, predicates: list[Any]) -> ChosenPredicates:
        """Take what Lance can filter by; the rest, and what Spark must apply again, is left to Spark.

        Spark prints what it is told was taken, and Spark 4.0 fails to print a NULL of bytes (SPARK-58782): the query
        ended with an internal error. A predicate with one is applied but not reported to Spark.
        """
        if not self._source.takes_more:
            return ChosenPredicates((), tuple(range(len(predicates))))
        taken, left = [], []
        for place, predicate in enumerate(predicates):
            condition = expression(predicate)
            pushed = None if condition is None else translate(condition, self._source.stored)
            if pushed is not None and condition is not None:
                self._named |= set(named_columns(condition))
                self._pushed = replace(self._pushed, filters=(*self._pushed.filters, pushed))
                if not has_null_bytes(condition):
                    taken.append(place)
            if pushed is None or not pushed.exact or self._source.is_small:
                left.append(place)
        return ChosenPredicates(tuple(taken), tuple(left))

    def support_complete_push_down(self, aggregation: Any) -> bool:
        """Whether nothing is left to merge, because the driver has the answer. Spark then needs no job.

        Called with averages, which otherwise become sums and counts.
        """
        self._asked += aggregates(aggregation[0]) or []
        return self._aggregated(aggregation) and self._planned().is_final

    def push_aggregation(self, aggregation: Any) -> bool:
        """Take aggregates; unless the answer is complete, partial ones that Spark merges."""
        return self._aggregated(aggregation)

    def _aggregated(self, aggregation: Any) -> bool:
        asked, groups = aggregates(aggregation[0]), columns(aggregation[1])
        if asked is None or groups is None or not self._source.takes_more:
            return False
        if self._groups is None and groups:
            self._groups = frozenset(each.path[0] for each in groups if len(each.path) == 1)
            self._divided = needs_no_shuffle(self.bridge, self._settings, self._source, self._pushed, self._groups)
        if self._divided:
            return False
        plan = plan_aggregates(asked, groups, self._source.stored, self._asked)
        if plan is None:
            return False
        self._pushed = replace(self._pushed, aggregate=plan, columns=to_spark(plan.output))
        return True

    def push_limit(self, limit: int) -> bool:
        """Take a limit. Without a filter, no more rows are returned; with one, no more per task.

        Not after aggregates, although Spark tries once their answer is complete: it would limit the groups by omitting
        rows that they consist of.
        """
        if not self._source.takes_more or self._pushed.sample is not None or self._pushed.aggregate is not None:
            return False
        self._pushed = replace(self._pushed, limit=limit)
        self._partial = whole_filter(self._source, self._pushed) is not None
        return True

    def push_top_n(self, orders: Any, limit: int) -> bool:
        """Take the first rows of an order, but not of groups. Spark sorts those of all tasks again."""
        if self._pushed.aggregate is not None:
            return False
        keys = [sort_key(*order) for order in orders]
        known = [key for key in keys if key is not None]
        if len(known) < len(keys) or not self._source.takes_more or not sortable(known, self._source.arrow):
            return False
        self._pushed = replace(self._pushed, order=tuple(known), limit=limit)
        self._partial = True
        return True

    def is_partially_pushed(self) -> bool:
        """Whether Spark must apply the limit again."""
        return self._partial

    def push_offset(self, offset: int) -> bool:
        """Skip the first rows, which is possible only if all rows that are read are also returned."""
        pushed = self._pushed
        if not self._source.takes_more or not pushed.rows_as_read or whole_filter(self._source, pushed) is not None:
            return False
        self._pushed = replace(pushed, offset=offset)
        return True

    def prune_columns(self, schema: str) -> None:
        """Keep these columns, and these fields of structs."""
        pruned, self._pruned = parsed_schema(schema), True
        if pruned.names:
            self._pushed = replace(self._pushed, columns=pruned)
        else:
            self._pushed = replace(self._pushed, **_counted(self._source.schema, self._named))

    def _planned(self) -> PlannedScan:
        """The scan of the operations pushed so far. Checking whether an answer is complete reads its rows, once."""
        if self._last is None or self._last.pushed != self._pushed:
            self._last = plan_scan(self._source, self._pushed)
        return self._last

    def build(self) -> Any:
        """The scan; or its rows, if they are few."""
        planned = self._planned()
        if planned.local is not None:
            return self._described(NativeLocalScan(self.bridge, planned, self._stream))
        known = grouping_of_scan(self.bridge, self._settings, planned, self._groups if self._divided else None)
        if known is not None:
            return self._described(GroupedScan(self.bridge, planned, known, self._stream))
        return self._described(NativeScan(self.bridge, planned, self._stream))

    def _described(self, scan: _Scan) -> Any:
        scan.tells_columns = scan.is_whole and (not self._pruned or self._settings.weighs_costs)
        scan.describes, scan.bins = not self._pruned, self._settings.bins
        return scan.java()


class WholeScanBuilder(Implementation):
    """Spark's ``ScanBuilder`` of all columns and rows, for names that the session takes for one.

    Spark looks up the columns that a scan says it returns by their names, ignoring case: both would get the type, and
    the values, of one of them.
    """

    interfaces: ClassVar = (names.SCAN_BUILDER,)

    def __init__(self, bridge: Bridge, source: Source, stream: TableStream | None = None) -> None:
        super().__init__(bridge)
        self._source, self._stream = source, stream

    def build(self) -> Any:
        """The scan; or its rows, if they are few."""
        planned = plan_scan(self._source, Pushed(self._source.schema))
        kind = NativeScan if planned.local is None else NativeLocalScan
        return kind(self.bridge, planned, self._stream).java()


def scan_builder(bridge: Bridge, source: Source, stream: TableStream | None = None) -> Any:
    """The builder that can plan this read in this session."""
    kind = WholeScanBuilder if confuses_names(bridge, source) else NativeScanBuilder
    return kind(bridge, source, stream).java()


def confuses_names(bridge: Bridge, source: Source) -> bool:
    """Whether the session ignores the case of names, and the table has two that differ only in that."""
    return source.case_pair is not None and str(bridge.spark.conf.get("spark.sql.caseSensitive")).lower() != "true"


def _counted(schema: StructType, named: set[str]) -> dict[str, Any]:
    """The columns to read to count rows: one, because a batch without columns reaches Spark as one without rows.

    Its values are never looked at, so they can be nulls. If filters name every column, one is really read: Spark might
    apply the pushed filters once more.
    """
    free = [field for field in schema if field.name not in named]
    field = (free or schema.fields)[0]
    return {"columns": StructType([StructField(field.name, field.dataType, True)]), "counted": bool(free)}


# --- A planned scan: its schema, size, text and partitions


def in_batches(bridge: Bridge, columns: StructType) -> bool:
    """Whether Spark gets the columns as batches. Its batches have bytes where a geometry has two fields."""
    return bridge.batches and not any(name in columns.simpleString() for name in ("geometry(", "geography("))


MAX_RUNTIME_FILTER = 2**16
"""Maximum characters of a filter that became known while the query ran: every task receives it."""


class _Scan(Implementation):
    kept: ClassVar = frozenset({"description"})

    def __init__(self, bridge: Bridge, planned: PlannedScan, stream: TableStream | None = None) -> None:
        super().__init__(bridge)
        self.planned, self._stream, self._streams = planned, stream, False
        self.tells_columns, self.describes, self.bins = False, False, 0
        """Whether Spark is told statistics of columns: its optimizer weighs costs, or it only describes a column."""

    @property
    def columns(self) -> StructType:
        return self.planned.pushed.columns

    @property
    def is_whole(self) -> bool:
        """Whether rows are those of the table, of which statistics tell."""
        pushed = self.planned.pushed
        return pushed.aggregate is None and pushed.sample is None and self.planned.source.given is None

    def to_string(self) -> str:
        return self.description()

    def description(self) -> str:
        raise NotImplementedError

    @property
    def text(self) -> str | None:
        """None, because the description requires planning the partitions."""
        return None

    def answered(self) -> dict[str, Answer]:
        """The answers for every scan.

        Spark gets rows and bytes for its choice of joins. These account for filters: otherwise Spark 4.3 would apply
        filters again to estimate the rest. Whether there are batches is not left to the partitions, which would then be
        planned before runtime filters are known. Spark's own reader reads a stream, as rows.
        """
        return {
            "readSchema": answers.schema(self.columns),
            "estimateStatistics": answers.statistics(self._statistics()),
            "reflectsFullyPushedDownFilters": answers.flag(True),
            "supportedCustomMetrics": answers.PYTHON_METRICS,
            "columnarSupportMode": answers.columnar(in_batches(self.bridge, self.columns) and not self._streams),
        }

    def _statistics(self) -> Statistics:
        sure, source, pushed = self.planned.statistics, self.planned.source, self.planned.pushed
        if not self.tells_columns:
            return sure
        applied = tuple(each for each in pushed.filters if each.exact and not source.is_small)
        final = len(applied) == len(pushed.filters) or pushed.limit is not None
        filtered = whole_filter(source, replace(pushed, filters=applied))
        read, columns = source.read, pushed.columns.names
        told = filtered, sure, final, self.bins, self.describes
        return with_columns(Estimated(read.location, read.pin, source.stored, columns, *told))

    def to_micro_batch_stream(self, checkpoint: str) -> Any:
        """The stream of a table by its name."""
        if self._stream is None:
            return self.default("toMicroBatchStream", checkpoint)
        self._streams = True
        return self._stream.micro_batches(self.planned.source.schema, checkpoint)


class NativeLocalScan(_Scan):
    """Spark's ``LocalScan``: rows that the driver already has."""

    interfaces: ClassVar = (names.LOCAL_SCAN, names.REPORT_STATISTICS)

    def description(self) -> str:
        rows = sum(batch.num_rows for batch in self.planned.local or ())
        return f"{described(self.planned)}, read by the driver: {rows} rows"

    def answered(self) -> dict[str, Answer]:
        """The answers for every scan, and the rows, if they are few."""
        few = few_rows(self.planned.local or (), self.columns, self.bridge.maker is not None)
        return super().answered() if few is None else {**super().answered(), "rows": few}

    def rows(self) -> Any:
        return internal_rows(self.bridge, self.planned.local or (), self.columns)


class NativeScan(_Scan):
    """Spark's ``Scan`` of partitions."""

    interfaces: ClassVar[tuple[str, ...]] = (names.SCAN, names.REPORT_STATISTICS, names.RUNTIME_FILTERING)
    told: ClassVar = frozenset({"filter"})

    def __init__(self, bridge: Bridge, planned: PlannedScan, stream: TableStream | None = None) -> None:
        super().__init__(bridge, planned, stream)
        self._runtime: tuple[PushedFilter, ...] = ()

    def description(self) -> str:
        return f"{described(self.planned)}, partitions: {len(self._parts)}"

    def answered(self) -> dict[str, Answer]:
        """The answers for every scan; and the columns of runtime filters: those by which a read leaves out rows early.

        For each of them that a join names, Spark puts the plan of the join's other side into this scan's plan, with its
        own filters of that kind inside: where every column counted, plans of five joins took seconds to make.
        """
        source, pushed = self.planned.source, self.planned.pushed
        usable = []
        if source.takes_more and pushed.aggregate is None and pushed.limit is None and not pushed.offset:
            quick = quick_columns(source.read)
            known = {field.name for field in source.stored if is_plain(field) and as_spark_sends(field.type)} & quick
            usable = [name for name in pushed.columns.names if name in known]
        return {**super().answered(), "filterAttributes": answers.references(usable)}

    def filter(self, predicates: Any) -> None:
        """Omit rows that a join does not need. The join itself handles what Lance cannot express."""
        taken = []
        for predicate in predicates:
            condition = expression(predicate)
            pushed = None if condition is None else translate(condition, self.planned.source.stored)
            if pushed is not None and len(pushed.sql) <= MAX_RUNTIME_FILTER:
                taken.append(pushed)
        self._runtime = tuple(taken)

    def to_batch(self) -> Any:
        """The partitions. Spark calls again after it has filtered."""
        if not self._runtime:
            return NativeBatch(self.bridge, self.planned, self._parts).java()
        planned = narrowed(self.planned, self._runtime)
        parts = planned.parts(self.bridge.cores)
        if len(self._parts) <= 1 < len(parts):
            parts = planned.in_one  # Spark has planned for one partition, and does not exchange rows between several
        return NativeBatch(self.bridge, planned, parts).java()

    @cached_property
    def _parts(self) -> tuple[ScanPartition, ...]:
        return self.planned.parts(self.bridge.cores)


# --- A scan whose partitions have one key each, for joins and aggregates without a shuffle


def grouping_of_scan(
    bridge: Bridge, settings: Settings, planned: PlannedScan, groups: frozenset[str] | None = None
) -> Grouping | None:
    """The functions of columns that have one value in each partition; None if Spark is not to know of any.

    Only where each row of a fragment is returned or not by itself: a limit or an offset divides fragments, and partial
    aggregates are other columns to Spark. With ``groups``, functions of these columns: Spark aggregates without a
    shuffle only if it knows of no others. Raises InvalidOption for an invalid setting.
    """
    source, pushed = planned.source, planned.pushed
    whole = pushed.limit is None and not pushed.offset and pushed.aggregate is None and not pushed.counted
    wanted = parse_grouping(settings.grouping)
    able = bridge.groups and bridge.maker is not None
    if not (able and settings.bucketing and whole and source.takes_more) or settings.unsound or wanted == NEVER:
        return None
    columns = pushed.columns.names if groups is None else groups
    ids = [each.fragment_id for each in planned.measured.fragments]
    found = grouping(source.read.location, source.read.pin, ids, columns, source.plain_columns)
    if found is None or not has_unsafe_rows(to_spark(key_schema(found))):
        return None
    request = request_of(planned.measured, bridge.cores)
    weights = weights_by_key(planned.measured.fragments, found.keys, request)
    eager = not bridge.groups_where_needed
    worth = wanted == ALWAYS or is_worthwhile(weights, request.split_size, bridge.cores, eager)
    return found if worth else None


_PROBED = 16_384
"""Rows by which to tell whether groups are small."""


def needs_no_shuffle(
    bridge: Bridge, settings: Settings, source: Source, pushed: Pushed, groups: frozenset[str]
) -> bool:
    """Whether rows of one group are in one partition, and most groups are small.

    Then partial aggregates are nearly as many as rows, and Spark would shuffle them. Large groups become few of them.
    """
    stored = source.stored
    if not groups or not groups.issubset(stored.names):
        return False
    planned = plan_scan(source, pushed)
    if grouping_of_scan(bridge, settings, planned, groups) is None or planned.local is not None:
        return False
    names = tuple(sorted(name for name in groups if not pa.types.is_nested(stored.field(name).type)))
    scan = replace(planned.measured.scan, columns=ScanColumns(names), filter=None)
    first = planned.measured.fragments[0]
    part = ScanPartition((first.fragment_id,), 0, min(_PROBED, first.live_rows))
    rows = pa.Table.from_batches(read_batches(scan, part), pa.schema([stored.field(name) for name in names]))
    return bool(2 * rows.group_by(rows.column_names).aggregate([]).num_rows > rows.num_rows)


def key_schema(known: Grouping) -> pa.Schema:
    return pa.schema([pa.field(f"k{at}", kind) for at, kind in enumerate(known.kinds)])


GROUPED = "grouped by"
"""In the text of a scan that reports its keys."""


class GroupedScan(NativeScan):
    """A scan that reports its keys. Runtime filters leave out partitions, and give none another key."""

    interfaces: ClassVar = (*NativeScan.interfaces, names.REPORT_PARTITIONING)

    def __init__(self, bridge: Bridge, planned: PlannedScan, known: Grouping, stream: TableStream | None) -> None:
        super().__init__(bridge, planned, stream)
        self._known = known

    def description(self) -> str:
        by = ", ".join(str(each) for each in self._known.transforms)
        return f"{super().description()}, {GROUPED}: [{by}]"

    def answered(self) -> dict[str, Answer]:
        functions = [(function_name(each), each.column, each.argument or 0) for each in self._known.transforms]
        return {**super().answered(), "outputPartitioning": answers.grouping(functions, len(self._keyed))}

    def to_batch(self) -> Any:
        """The partitions. Spark calls again after it has filtered."""
        if not self._runtime:
            return self._batch(self.planned, self._keyed)
        planned = narrowed(self.planned, self._runtime)
        return self._batch(planned, self._divided(planned, Counter(key for _, key in self._keyed)))

    def _batch(self, planned: PlannedScan, keyed: tuple[tuple[ScanPartition, Key], ...]) -> Any:
        rows = zip(*(key for _, key in keyed), strict=True) if keyed else [() for _ in self._known.kinds]
        fields = key_schema(self._known)
        values = [
            pa.array(column, _stored_as(field.type)).cast(field.type)
            for column, field in zip(rows, fields, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(values, schema=fields)
        keys = RowBytes(len(fields), tuple(unsafe_rows([batch], to_spark(fields))))
        return NativeBatch(self.bridge, planned, tuple(part for part, _ in keyed), keys).java()

    @property
    def _parts(self) -> tuple[ScanPartition, ...]:
        return tuple(part for part, _ in self._keyed)

    @cached_property
    def _keyed(self) -> tuple[tuple[ScanPartition, Key], ...]:
        return self._divided(self.planned)

    def _divided(
        self, planned: PlannedScan, most: Mapping[Key, int] | None = None
    ) -> tuple[tuple[ScanPartition, Key], ...]:
        measured = planned.measured
        return plan_by_key(measured.fragments, self._known.keys, request_of(measured, self.bridge.cores), most)


def _stored_as(kind: pa.DataType) -> pa.DataType:
    """The type of a key's plain values, see :data:`lance_spark.layout.key_rules.Key`."""
    if pa.types.is_date32(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(kind) else kind


class NativeBatch(Implementation):
    """Spark's ``Batch``. Equal to another one of the same read, so that Spark can share one exchange."""

    interfaces: ClassVar = (names.BATCH,)
    same: ClassVar = True

    def __init__(
        self,
        bridge: Bridge,
        planned: PlannedScan,
        parts: tuple[ScanPartition, ...],
        keys: RowBytes | None = None,
    ) -> None:
        """``keys`` are those of the parts, in the form of Spark's rows."""
        super().__init__(bridge)
        self._planned, self._parts, self._keys = planned, parts, keys

    def to_string(self) -> str:
        """Java's toString; equal batches have equal texts."""
        return self._key

    @cached_property
    def _key(self) -> str:
        text = f"{self._planned.source.key} {self._planned.pushed!r} {self._planned.measured.options.filter}"
        text += "" if self._keys is None else f" {self._keys!r}"
        return f"NativeBatch {hashlib.sha256(text.encode()).hexdigest()}"

    def answered(self) -> dict[str, Answer]:
        """A partition per task, and the factory of the readers on executors."""
        planned = self._planned
        scan_filter = planned.measured.options.filter
        parts = (
            input_partitions(self._parts, scan_filter)
            if self._keys is None
            else grouped_partitions(self._parts, scan_filter, self._keys)
        )
        return {
            "planInputPartitions": parts,
            "createReaderFactory": reader_factory(
                planned.task, planned.pushed.columns, in_batches(self.bridge, planned.pushed.columns)
            ),
        }


# --- Text of a scan in EXPLAIN


def described(planned: PlannedScan) -> str:
    """A scan in one line: the table, the ref and version, and the pushed operations."""
    source, pushed = planned.source, planned.pushed
    columns = [] if pushed.counted else pushed.columns.names
    facts = [f"lance {source.name}"]
    if pushed.aggregate is None:
        facts.append(f"columns: [{', '.join(columns)}]")
    else:
        groups = len(pushed.aggregate.groups)
        facts.append(f"aggregate: [{', '.join(columns[groups:])}]")
        facts += [f"group by: [{', '.join(columns[:groups])}]"] if groups else []
    if planned.measured.options.filter is not None:
        facts.append(f"filter: {_short(planned.measured.options.filter)}")
    measured = planned.measured
    if measured.left_out:
        facts.append(f"fragments: {len(measured.fragments)} of {len(measured.fragments) + measured.left_out}")
    if pushed.sample is not None:
        facts.append(f"sample: {pushed.sample.upper - pushed.sample.lower:g}")
    if pushed.order:
        facts.append(
            "order by: " + ", ".join(f"{key.column} {'asc' if key.ascending else 'desc'}" for key in pushed.order)
        )
    if pushed.limit is not None:
        facts.append(f"limit: {pushed.limit}")
    if pushed.offset:
        facts.append(f"offset: {pushed.offset}")
    return ", ".join(facts)


def _short(text: str) -> str:
    return text if len(text) <= 1000 else f"{text[:1000]}..."


# --- Streams from a table by its name: Spark's own stream of Python data sources, with options that name the table


@dataclass(frozen=True)
class TableStream:
    """The inputs of a stream from a table, in case a scan turns out to be one. Spark requests a scan first."""

    bridge: Bridge
    place: Place
    given: Mapping[str, str]

    def micro_batches(self, schema: StructType, checkpoint: str) -> Any:
        """Spark's ``MicroBatchStream``. Raises Refused for immutable versions, and InvalidOption."""
        branch = self.place.branch_to_change("follow it")
        own, rest = split_stream_options(self.given)
        if parse_stream_options(own, rest).changes:
            named = {name: value for name, value in self.place.options.items() if name in ("catalog", "path")}
            load = "".join(f".option({name!r}, {value!r})" for name, value in named.items() if name != "path")
            load += "" if branch is None else f".option('branch', {branch!r})"
            raise InvalidOption(
                "A change feed has more columns than its table, and cannot be read by the table's name.",
                hint=f"spark.readStream.format('lance'){load}.option('changes', 'true').load({named['path']!r}).",
            )
        return self._followed(branch, schema, checkpoint)

    def feed(self, schema: StructType, checkpoint: str) -> Any:
        """The same of a change feed, whose options are given."""
        return self._followed(self.place.branch_to_change("follow it"), schema, checkpoint)

    def _followed(self, branch: str | None, schema: StructType, checkpoint: str) -> Any:
        bridge = self.bridge
        options = {**self.given, **self.place.options, **({} if branch is None else {"branch": branch})}
        source = bridge.new(names.PYTHON_SOURCE_V2)
        source.setShortName(OWN_NAME)
        table = source.getTable(bridge.schema(schema), bridge.empty(names.TRANSFORM), bridge.map({}))
        return table.newScanBuilder(bridge.options(options)).build().toMicroBatchStream(checkpoint)
