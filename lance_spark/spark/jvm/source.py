"""One pinned version as Spark's planner sees it, and what is pushed down to it. No JVM in it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.actions.read import PinnedRead, blob_names, read_schema
from lance_spark.query.aggregates import AggregatePlan
from lance_spark.query.filters import PushedFilter, conjunction
from lance_spark.query.ordering import SortKey
from lance_spark.query.sampling import Sample
from lance_spark.spark.types import to_spark
from lance_spark.store.fragment_sizes import fragment_sizes
from lance_spark.store.scanning import stored_schema

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
