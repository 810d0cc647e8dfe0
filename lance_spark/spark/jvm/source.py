"""One pinned version as Spark's planner sees it, and what is pushed down to it. No JVM in it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.actions.read import PinnedRead, blob_names, plan_read, read_for_spark, read_schema
from lance_spark.query.aggregates import AggregatePlan
from lance_spark.query.filters import PushedFilter, conjunction
from lance_spark.scan.plan import ScanPartition
from lance_spark.spark.jvm.tasks import ScanTask
from lance_spark.spark.types import to_spark, wire_schema


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
    def schema(self) -> StructType:
        """The schema in Spark's types."""
        return self.given or to_spark(self.arrow, blob_names(self.read))

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
    limit: int | None = None
    aggregate: AggregatePlan | None = None
    counted: bool = False
    runtime: tuple[PushedFilter, ...] = field(default=())
    """Filters that became known while the query ran."""


@dataclass(frozen=True)
class Planned:
    """Partitions and what they have in common."""

    task: ScanTask
    parts: tuple[ScanPartition, ...]


def plan(source: Source, pushed: Pushed, cores: int) -> Planned:
    """The tasks of a scan."""
    read = source.read
    own = () if read.options.filter is None else (PushedFilter(read.options.filter, True),)
    limit = pushed.limit if read.options.limit is None else read.options.limit
    combined = conjunction((*own, *pushed.filters, *pushed.runtime))
    read = replace(read, options=replace(read.options, filter=combined, limit=limit))
    output = wire_schema(pushed.columns)
    needed = _needed(source, pushed, output)
    scan, parts = plan_read(read, needed, cores)
    task = ScanTask(scan, output, pushed.aggregate, pushed.counted)
    if not parts and pushed.aggregate is not None:
        parts = (ScanPartition(()),)  # Spark adds up the counts of all partitions: of none, that would be null
    return Planned(task, parts)


def _needed(source: Source, pushed: Pushed, output: pa.Schema) -> pa.Schema:
    if pushed.aggregate is not None:
        return pa.schema([source.arrow.field(name) for name in pushed.aggregate.columns])
    if pushed.counted:
        return pa.schema([])
    return read_for_spark(source.read, output)
