"""What Spark's planner talks to while it decides what to leave to a scan.

It asks in this order: sample, filters, aggregates, limit or top rows, offset, columns, build.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.types import StructField, StructType

from lance_spark.query.aggregates import Aggregate, plan_aggregates
from lance_spark.query.expressions import named_columns
from lance_spark.query.filters import translate
from lance_spark.query.ordering import sortable
from lance_spark.query.sampling import Sample
from lance_spark.spark.jvm import names
from lance_spark.spark.jvm.bridge import parsed_schema
from lance_spark.spark.jvm.plain_values import aggregates, columns, expression, sort_key
from lance_spark.spark.jvm.planning import PlannedScan, plan_scan
from lance_spark.spark.jvm.proxies import ChosenPredicates, Implementation
from lance_spark.spark.jvm.scan import NativeLocalScan, NativeScan
from lance_spark.spark.jvm.source import Pushed, Source, whole_filter
from lance_spark.spark.types import to_spark

if TYPE_CHECKING:
    from lance_spark.spark.jvm.bridge import Bridge
    from lance_spark.spark.jvm.streams import TableStream


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
