"""One pinned version as Spark's planner sees it, and what is pushed down to it. No JVM in it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from lance_spark.core.options import OWN_NAME
from lance_spark.core.table_options import parse_stream_options, split_stream_options
from lance_spark.engine.types_spark import to_spark, wire_schema
from lance_spark.errors import InvalidOption, LanceSparkError
from lance_spark.format.schema import ROW_ADDRESS, ROW_COLUMNS
from lance_spark.indexes.lance import index_ends
from lance_spark.jvm import answers, names
from lance_spark.jvm.bridge import aggregates, columns, expression, parsed_schema, sort_key
from lance_spark.jvm.proxies import ChosenPredicates, Implementation
from lance_spark.native.rows import few_rows, internal_rows
from lance_spark.native.tasks import ScanTask, input_partitions, reader_factory
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
from lance_spark.pushdown.filters import PushedFilter, as_spark_sends, conjunction, named_columns, translate
from lance_spark.pushdown.order import Sample, SortKey, Statistics, estimate, sortable
from lance_spark.scan.lance import fragment_sizes, stored_schema
from lance_spark.scan.read import (
    MeasuredRead,
    PinnedRead,
    blob_names,
    divide_read,
    measure_read,
    read_for_spark,
    read_schema,
)
from lance_spark.scan.rules import ScanPartition, skip_rows

if TYPE_CHECKING:
    from lance_spark.jvm.answers import Answer
    from lance_spark.jvm.bridge import Bridge
    from lance_spark.native.places import Place

SMALL_ROWS = 100_000
"""Rows of a table that is taken for a dimension."""


@dataclass(frozen=True)
class Source:
    """A read whose version is resolved."""

    read: PinnedRead
    given: StructType | None = None
    """The schema that the user gave; None for the dataset's own."""

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
        """The schema in Spark's types."""
        return self.given or to_spark(self.arrow, blob_names(self.read))

    @property
    def takes_more(self) -> bool:
        """Whether more than columns may be pushed down: not below a limit, nor where types are the user's."""
        return self.given is None and self.read.options.limit is None

    @cached_property
    def is_small(self) -> bool:
        """Whether this may be a dimension of a star join. Then Spark gets filters back although they were applied.

        A filter that Spark sees is what lets it filter the table that this one is joined with: without one it takes
        the join for one that keeps all rows. For larger tables it is worth more that aggregates are pushed down, which
        filters are in the way of.
        """
        read = self.read
        return sum(each.live_rows for each in fragment_sizes(read.location, read.pin)) <= SMALL_ROWS

    @cached_property
    def key(self) -> str:
        """Tells this read from every other one; holds no secret."""
        options = hashlib.sha256(repr(self.read.location.options).encode()).hexdigest()
        return f"{self.read!r} {self.read.pin.stamp} {options} {self.given!r}"

    @property
    def name(self) -> str:
        """Where it is and which version, for people."""
        return f"{self.read.location.uri}@{self.read.pin}"


@dataclass(frozen=True)
class Pushed:
    """What Spark leaves to the scan."""

    columns: StructType
    """The columns that come out, with nested fields pruned."""
    filters: tuple[PushedFilter, ...] = ()
    sample: Sample | None = None
    aggregate: AggregatePlan | None = None
    order: tuple[SortKey, ...] = ()
    """Of each partition the first rows in this order, as many as the limit says."""
    limit: int | None = None
    offset: int = 0
    counted: bool = False
    """Whether Spark needs no column, only rows."""

    @property
    def rows_as_read(self) -> bool:
        """Whether each row that is read comes out."""
        return self.sample is None and self.aggregate is None and not self.order


def whole_filter(source: Source, pushed: Pushed, later: tuple[PushedFilter, ...] = ()) -> str | None:
    """The user's own filter and those pushed down, in Lance's SQL. ``later`` became known while the query ran."""
    own, others = source.read.options.filter, conjunction((*pushed.filters, *later))
    if own is None or others is None:
        return others or own
    return f"({own}) AND ({others})"


def read_of(source: Source, pushed: Pushed) -> PinnedRead:
    """The read with what is pushed down as its options.

    With a filter a limit is for each task: only all of them together could tell when it is reached.
    """
    combined = whole_filter(source, pushed)
    limit = source.read.options.limit
    if pushed.limit is not None and pushed.rows_as_read and combined is None:
        limit = pushed.limit
    return replace(source.read, options=replace(source.read.options, filter=combined, limit=limit))


# --- From what is pushed down to tasks, or to rows where those are few
# No JVM in it.

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


# --- What Spark's planner talks to while it decides what to leave to a scan
# It asks in this order: sample, filters, aggregates, limit or top rows, offset, columns, build.


class NativeScanBuilder(Implementation):
    """Spark's ``ScanBuilder``: one for each time a table is in a query."""

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
        self._last: PlannedScan | None = None

    def push_table_sample(self, lower: float, upper: float, replacement: bool, seed: int, method: Any = None) -> bool:
        """Take a sample of rows, each on its own. Blocks of rows, and rows that come twice, are for Spark."""
        if replacement or not self._source.takes_more or method not in (None, "BERNOULLI"):
            return False
        self._pushed = replace(self._pushed, sample=Sample(lower, upper, seed))
        return True

    def push_predicates(self, predicates: list[Any]) -> ChosenPredicates:
        """Take what Lance can filter by; what Spark has to apply, also again, is left."""
        if not self._source.takes_more:
            return ChosenPredicates((), tuple(range(len(predicates))))
        taken, left = [], []
        for place, predicate in enumerate(predicates):
            condition = expression(predicate)
            pushed = None if condition is None else translate(condition, self._source.stored)
            if pushed is not None and condition is not None:
                self._named |= set(named_columns(condition))
                self._pushed = replace(self._pushed, filters=(*self._pushed.filters, pushed))
                taken.append(place)
            if pushed is None or not pushed.exact or self._source.is_small:
                left.append(place)
        return ChosenPredicates(tuple(taken), tuple(left))

    def support_complete_push_down(self, aggregation: Any) -> bool:
        """Whether nothing is left to merge: where the driver has the answer. Then Spark needs no job.

        Asked with averages, which otherwise become sums and counts.
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
        plan = plan_aggregates(asked, groups, self._source.stored, self._asked)
        if plan is None:
            return False
        self._pushed = replace(self._pushed, aggregate=plan, columns=to_spark(plan.output))
        return True

    def push_limit(self, limit: int) -> bool:
        """Take a limit. Without a filter no more rows come out; with one, no more of each task.

        Not behind aggregates, of which Spark asks once their answer is complete: the groups would be limited by
        leaving out rows that they are made of.
        """
        if not self._source.takes_more or self._pushed.sample is not None or self._pushed.aggregate is not None:
            return False
        self._pushed = replace(self._pushed, limit=limit)
        self._partial = whole_filter(self._source, self._pushed) is not None
        return True

    def push_top_n(self, orders: Any, limit: int) -> bool:
        """Take the first rows of an order, though not of groups. Spark sorts those of all tasks again."""
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
        """Whether Spark has to apply the limit again."""
        return self._partial

    def push_offset(self, offset: int) -> bool:
        """Leave out the first rows, which can only be told where all rows that are read come out."""
        pushed = self._pushed
        if not self._source.takes_more or not pushed.rows_as_read or whole_filter(self._source, pushed) is not None:
            return False
        self._pushed = replace(pushed, offset=offset)
        return True

    def prune_columns(self, schema: str) -> None:
        """Keep these columns, and of structs these fields."""
        pruned = parsed_schema(schema)
        if pruned.names:
            self._pushed = replace(self._pushed, columns=pruned)
        else:
            self._pushed = replace(self._pushed, **_counted(self._source.schema, self._named))

    def _planned(self) -> PlannedScan:
        """The scan of what was pushed so far. To see whether an answer is complete, its rows are read: only once."""
        if self._last is None or self._last.pushed != self._pushed:
            self._last = plan_scan(self._source, self._pushed)
        return self._last

    def build(self) -> Any:
        """The scan; or its rows, where these are few."""
        planned = self._planned()
        kind = NativeScan if planned.local is None else NativeLocalScan
        return kind(self.bridge, planned, self._stream).java()


def _counted(schema: StructType, named: set[str]) -> dict[str, Any]:
    """What is read where only rows are counted: one column, as a batch without any reaches Spark as one without rows.

    Its values are never looked at, so they can be nulls. Where each column is named by a filter, one is read: Spark may
    apply what was pushed down once more.
    """
    free = [field for field in schema if field.name not in named]
    field = (free or schema.fields)[0]
    return {"columns": StructType([StructField(field.name, field.dataType, True)]), "counted": bool(free)}


# --- A scan that Spark has planned: its schema, size, text and partitions

MAX_RUNTIME_FILTER = 2**16
"""Characters of a filter that became known while the query ran: it goes to every task."""


class _Scan(Implementation):
    """What scans have in common."""

    kept: ClassVar = frozenset({"description"})

    def __init__(self, bridge: Bridge, planned: PlannedScan, stream: TableStream | None = None) -> None:
        super().__init__(bridge)
        self.planned, self._stream, self._streams = planned, stream, False

    @property
    def columns(self) -> StructType:
        """The columns that come out."""
        return self.planned.pushed.columns

    def to_string(self) -> str:
        """Java's toString."""
        return self.description()

    def description(self) -> str:
        """What EXPLAIN shows of the scan."""
        raise NotImplementedError

    @property
    def text(self) -> str | None:
        """As the description, which takes planning the partitions."""
        return None

    def answered(self) -> dict[str, Answer]:
        """What Spark asks of every scan.

        It gets rows and bytes to choose its joins by. These know of filters: if they did not, Spark 4.3 would apply
        filters again to estimate what is left. Whether there are batches is not asked of the partitions, as these would
        be planned before runtime filters are known. A stream's are read by Spark's own reader, which has rows.
        """
        return {
            "readSchema": answers.schema(self.columns),
            "estimateStatistics": answers.statistics(self.planned.statistics),
            "reflectsFullyPushedDownFilters": answers.flag(True),
            "supportedCustomMetrics": answers.PYTHON_METRICS,
            "columnarSupportMode": answers.columnar(self.bridge.batches and not self._streams),
        }

    def to_micro_batch_stream(self, checkpoint: str) -> Any:
        """The stream of a table by its name."""
        if self._stream is None:
            return self.default("toMicroBatchStream", checkpoint)
        self._streams = True
        return self._stream.micro_batches(self.planned.source.schema, checkpoint)


class NativeLocalScan(_Scan):
    """Spark's ``LocalScan``: rows that the driver has already."""

    interfaces: ClassVar = (names.LOCAL_SCAN, names.REPORT_STATISTICS)

    def description(self) -> str:
        """What EXPLAIN shows of the scan."""
        rows = sum(batch.num_rows for batch in self.planned.local or ())
        return f"{described(self.planned)}, read by the driver: {rows} rows"

    def answered(self) -> dict[str, Answer]:
        """What is known of every scan, and the rows, where they are few."""
        few = few_rows(self.planned.local or (), self.columns, self.bridge.maker is not None)
        return super().answered() if few is None else {**super().answered(), "rows": few}

    def rows(self) -> Any:
        """The rows as Spark has them inside."""
        return internal_rows(self.bridge, self.planned.local or (), self.columns)


class NativeScan(_Scan):
    """Spark's ``Scan`` of partitions."""

    interfaces: ClassVar = (names.SCAN, names.REPORT_STATISTICS, names.RUNTIME_FILTERING)
    told: ClassVar = frozenset({"filter"})

    def __init__(self, bridge: Bridge, planned: PlannedScan, stream: TableStream | None = None) -> None:
        super().__init__(bridge, planned, stream)
        self._runtime: tuple[PushedFilter, ...] = ()

    def description(self) -> str:
        """What EXPLAIN shows of the scan."""
        return f"{described(self.planned)}, partitions: {len(self._parts)}"

    def answered(self) -> dict[str, Answer]:
        """What is known of every scan; and the columns by which rows may be left out while the query runs.

        These are all that come out and a filter can name.
        """
        source, pushed = self.planned.source, self.planned.pushed
        usable = []
        if source.takes_more and pushed.aggregate is None and pushed.limit is None and not pushed.offset:
            known = {field.name: field.type for field in source.stored}
            usable = [name for name in pushed.columns.names if name in known and as_spark_sends(known[name])]
        return {**super().answered(), "filterAttributes": answers.references(usable)}

    def filter(self, predicates: Any) -> None:
        """Leave out rows that a join does not need. What cannot be said in Lance is left to the join."""
        taken = []
        for predicate in predicates:
            condition = expression(predicate)
            pushed = None if condition is None else translate(condition, self.planned.source.stored)
            if pushed is not None and len(pushed.sql) <= MAX_RUNTIME_FILTER:
                taken.append(pushed)
        self._runtime = tuple(taken)

    def to_batch(self) -> Any:
        """The partitions. Spark asks again after it has filtered."""
        if not self._runtime:
            return NativeBatch(self.bridge, self.planned, self._parts).java()
        planned = narrowed(self.planned, self._runtime)
        parts = planned.parts(self.bridge.cores)
        if len(self._parts) <= 1 < len(parts):
            parts = planned.in_one  # Spark has planned for one partition, and moves no rows between more
        return NativeBatch(self.bridge, planned, parts).java()

    @cached_property
    def _parts(self) -> tuple[ScanPartition, ...]:
        return self.planned.parts(self.bridge.cores)


class NativeBatch(Implementation):
    """Spark's ``Batch``. Equal to another one of the same read, so that Spark may use one exchange for both."""

    interfaces: ClassVar = (names.BATCH,)
    same: ClassVar = True

    def __init__(self, bridge: Bridge, planned: PlannedScan, parts: tuple[ScanPartition, ...]) -> None:
        super().__init__(bridge)
        self._planned, self._parts = planned, parts

    def to_string(self) -> str:
        """Java's toString; equal batches have the same."""
        return self._key

    @cached_property
    def _key(self) -> str:
        text = f"{self._planned.source.key} {self._planned.pushed!r} {self._planned.measured.options.filter}"
        return f"NativeBatch {hashlib.sha256(text.encode()).hexdigest()}"

    def answered(self) -> dict[str, Answer]:
        """A partition for each task, and what makes the readers on executors."""
        planned = self._planned
        return {
            "planInputPartitions": input_partitions(self._parts, planned.measured.options.filter),
            "createReaderFactory": reader_factory(planned.task, planned.pushed.columns, self.bridge.batches),
        }


# --- What EXPLAIN says of a scan


def described(planned: PlannedScan) -> str:
    """A scan in one line: the table, the ref and version, and what is pushed down."""
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


# --- Streams out of a table by its name: Spark's own stream of Python data sources, with options that name the table


@dataclass(frozen=True)
class TableStream:
    """What a stream of a table needs to know, if a scan turns out to be one. Spark asks for a scan first."""

    bridge: Bridge
    place: Place
    given: Mapping[str, str]
    """The options of the read."""

    def micro_batches(self, schema: StructType, checkpoint: str) -> Any:
        """Spark's ``MicroBatchStream``. Raises Refused for what never changes, and InvalidOption."""
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
        bridge = self.bridge
        options = {**self.given, **self.place.options, **({} if branch is None else {"branch": branch})}
        source = bridge.new(names.PYTHON_SOURCE_V2)
        source.setShortName(OWN_NAME)
        table = source.getTable(bridge.schema(schema), bridge.empty(names.TRANSFORM), bridge.map({}))
        return table.newScanBuilder(bridge.options(options)).build().toMicroBatchStream(checkpoint)
