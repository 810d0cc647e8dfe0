"""A statement that changes rows, as Spark's analyzer left it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lance_spark.rows.model import INSERT, OPERATION
from lance_spark.schema.projection import ROW_ADDRESS
from lance_spark.spark.jvm import names
from lance_spark.spark.jvm.plain_values import plain
from lance_spark.store.row_values import kept_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lance_spark.refs.model import PinnedVersion
    from lance_spark.spark.jvm.bridge import Bridge
    from lance_spark.spark.jvm.stored_table import StoredTable

_FRAGMENT_BITS = 32
"""A row's address is the fragment's id, and behind it the row's offset in so many bits."""
_FROM_TARGET, _FROM_SOURCE = "__row_from_target", "__row_from_source"
"""Columns of Spark's join for a MERGE: null where that side has no such row."""


@dataclass(frozen=True)
class AnalyzedChange:
    """Spark's plan of a statement, of which only the query is run."""

    bridge: Bridge
    table: StoredTable
    """The table that it changes."""
    relation: Any
    """Spark's relation of it."""
    root: Any
    """``WriteDelta``; ``AppendData`` or ``InsertOnlyMerge`` of a MERGE that only inserts; ``DeleteFromTable`` of all
    rows."""
    execution: Any
    """Spark's ``QueryExecution``, which never executes it."""
    common: Any = None
    """Definitions of WITH, where Spark keeps them around the statement."""

    @property
    def pin(self) -> PinnedVersion:
        """The version of the table."""
        return self.table.source.read.pin

    @property
    def appends(self) -> bool:
        """Whether Spark has made it a plain append, of rows that nothing matched."""
        return self._is(self.root, names.CHANGES_APPEND) or self._is(self.root, names.MAYBE_INSERT_ONLY)

    @cached_property
    def _command(self) -> str:
        """Which statement it is, in Spark's words; empty for what is no ``WriteDelta``."""
        return str(self.root.operation().command().toString()) if self._is(self.root, names.CHANGES_WRITE) else ""

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The table's columns in the condition, by which people tell its rows apart."""
        if not self._command:
            return ()
        own = self.root.originalTable().outputSet()
        used = {
            each.name() for each in self.bridge.items(self.root.condition().references().toSeq()) if own.contains(each)
        }
        return tuple(name for name in self.table.source.schema.names if name in used)

    @cached_property
    def sets(self) -> frozenset[str] | None:
        """The columns that an UPDATE of some rows sets; None where rows are written as they are in the frame."""
        if self._command != "UPDATE" or self.condition == "true":
            return None
        query = self.root.query()
        if not self._is(query, names.CHANGES_PROJECT):
            return None
        own = self.relation.outputSet()
        found = set()
        for each in self.bridge.items(query.projectList()):
            value = each.child() if self._is(each, names.CHANGES_NAMED_VALUE) else each
            if not self._is(value, names.CHANGES_COLUMN) or value.name() != each.name() or not own.contains(value):
                found.add(each.name())
        return frozenset(name for name in self.table.source.schema.names if name in found)

    def refresh(self) -> None:
        """Let Spark read again what it has cached of the table, as after a write of its own."""
        session, relation = self.bridge.session, self.relation
        manager = session.sharedState().cacheManager()
        if not self.bridge.caches_by_name:
            manager.recacheByPlan(session, relation)
        elif relation.catalog().isDefined() and relation.identifier().isDefined():
            table = relation.identifier().get()
            name = self.bridge.seq([relation.catalog().get().name(), *table.namespace(), table.name()])
            manager.recacheTableOrView(session, name, getattr(manager, "recacheTableOrView$default$3")())

    @property
    def condition(self) -> str:
        """What the rows have to be like, in Spark's SQL."""
        return str(self.root.condition().sql())

    def predicates(self) -> list[Any] | None:
        """Of a DELETE, what Lance can tell the rows by, as plain values; None where only Spark can.

        That is nothing for all rows.
        """
        if self._is(self.root, names.CHANGES_DELETE):
            return [] if self.root.condition().toString() == "true" else None
        with self.bridge.active():
            optimized = self.execution.optimizedPlan()
        if not self._is(optimized, names.CHANGES_DELETE_BY_FILTERS):
            return None
        return [plain(self.bridge, each) for each in self.bridge.items(optimized.condition())]

    def actions(self) -> DataFrame:
        """The frame of actions, see lance_spark.rows.model."""
        from pyspark.sql.functions import coalesce, lit, monotonically_increasing_id

        rows = _Columns(self._data_frame(self._query))
        fields = [rows.column(OPERATION, lit(INSERT)), rows.column(ROW_ADDRESS, lit(None).cast("bigint"))]
        kept = kept_columns(self.table.source.stored, self.sets)
        for each in self.table.source.schema:
            if each.name not in kept:
                fields.append(rows.column(each.name, lit(None).cast(each.dataType)))
        found = rows.frame.select(*fields)
        if self._deletes_what_matches:
            # Any number of source rows may say so. Inserts have no address, and each stays.
            tell = coalesce(found[ROW_ADDRESS], -1 - monotonically_increasing_id())
            found = found.withColumn(_FROM_SOURCE, tell).dropDuplicates([_FROM_SOURCE]).drop(_FROM_SOURCE)
        return found

    def touches(self, fragments: Sequence[int]) -> bool:
        """Whether it changes rows of these fragments, or, for a MERGE, whether a source row matches one."""
        if self._merge is None and self._command == "MERGE":
            return True
        from pyspark.sql.functions import shiftright

        rows = _Columns(self._data_frame(self._query))
        inside = shiftright(rows[ROW_ADDRESS], _FRAGMENT_BITS).isin([*fragments])
        if not rows.frame.where(inside).isEmpty():
            return True
        if self._merge is None:
            return False
        pairs = _Columns(self._data_frame(self._merge.child()))
        inside = shiftright(pairs[ROW_ADDRESS], _FRAGMENT_BITS).isin([*fragments])
        return not pairs.frame.where(
            inside & pairs[_FROM_TARGET].isNotNull() & pairs[_FROM_SOURCE].isNotNull()
        ).isEmpty()

    @cached_property
    def _merge(self) -> Any:
        """Spark's ``MergeRows``; None where there is none."""
        query = self.root.query()
        return query if self._is(query, names.CHANGES_MERGE_ROWS) else None

    @property
    def _deletes_what_matches(self) -> bool:
        """Whether several source rows may match one row: where all that is done with it is to delete it."""
        merge = None if self.appends else self._merge
        return merge is not None and not merge.checkCardinality() and not merge.matchedInstructions().isEmpty()

    @property
    def _query(self) -> Any:
        """The query. That no row is changed twice is left to the engine, which can say which row it is."""
        merge = None if self.appends else self._merge
        if merge is None or not merge.checkCardinality():
            return self.root.query()
        return merge.copy(
            merge.isSourceRowPresent(),
            merge.isTargetRowPresent(),
            merge.matchedInstructions(),
            merge.notMatchedInstructions(),
            merge.notMatchedBySourceInstructions(),
            False,
            merge.output(),
            merge.child(),
        )

    def _data_frame(self, plan: Any) -> DataFrame:
        from pyspark.sql import DataFrame

        bridge = self.bridge
        if self.common is not None:
            plan = bridge.new(names.CHANGES_WITH, plan, self.common)
        return DataFrame(bridge.call(f"{names.DATASET}.ofRows", bridge.session, plan), bridge.spark)

    @staticmethod
    def _is(plan: Any, kind: str) -> bool:
        return bool(plan.getClass().getName() == kind)


class _Columns:
    """A DataFrame whose columns are found whatever their names are: of several with one name, the first is meant."""

    def __init__(self, frame: DataFrame) -> None:
        self._at: dict[str, int] = {}
        for index, name in enumerate(frame.columns):
            self._at.setdefault(name, index)
        self.frame = frame.toDF(*(f"c{index}" for index in range(len(frame.columns))))

    def __getitem__(self, name: str) -> Column:
        return self.frame[f"c{self._at[name]}"]

    def column(self, name: str, otherwise: Column) -> Column:
        """A column under its own name again, or what stands in for it."""
        return (self[name] if name in self._at else otherwise).alias(name)
