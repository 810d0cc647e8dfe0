"""UPDATE, DELETE and MERGE: analyzed by Spark, executed by this package's engine of row changes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name for it
from pyspark.sql.types import LongType

from lance_spark.core.refs import PinnedVersion
from lance_spark.core.texts import quoted_name
from lance_spark.errors import Conflict, LanceSparkError, Refused
from lance_spark.format.schema import ROW_ADDRESS, ROW_COLUMNS
from lance_spark.jvm import names
from lance_spark.jvm.bridge import Bridge, plain
from lance_spark.layout.declaring import read_layout
from lance_spark.native.catalog import Branch, branch_of, looking_up
from lance_spark.native.scan import GROUPED
from lance_spark.native.tables import NO_ROW_COLUMNS, RowColumns, StoredTable
from lance_spark.optimize.automatic import compact_after
from lance_spark.rows.action_rules import DELETING, INSERT, MERGING, OPERATION, UPDATING
from lance_spark.rows.spark import RowChange, change_rows
from lance_spark.sql.statement_rules import SETTINGS, parse_statement_options
from lance_spark.write.data_files import kept_columns


def with_all_rows(merge: str) -> str | None:
    """A MERGE that only inserts, changed without effect so that Spark plans it like any other one.

    None if nothing can be appended to its end.
    """
    text = merge.strip()
    if ";" in text[:-1]:
        return None  # a comment might follow
    return text.rstrip(";") + "\nWHEN NOT MATCHED BY SOURCE AND false THEN DELETE"


# --- The statement: analyzed by Spark, executed by the engine of row changes
# Spark's analyzer turns it into a query whose rows state the action for each row, with all of SQL's features: casts,
# defaults, subqueries, star actions. That query is the engine's frame of actions.

_ROW_VERBS = {names.CHANGES_UPDATE: UPDATING, names.CHANGES_DELETE: DELETING, names.CHANGES_MERGE: MERGING}


@dataclass(frozen=True)
class RowStatement:
    """A statement that changes rows, as text or as a plan."""

    bridge: Bridge
    text: str
    args: dict[str, Any] | list[Any] | None = None
    plan: Any = None
    """The result of Spark's parser; None if the statement is given as text."""

    @cached_property
    def _parsed(self) -> Any:
        if self.plan is not None:
            return self.plan
        with self.bridge.active():
            return self.bridge.session.sessionState().sqlParser().parsePlan(self.text)

    @cached_property
    def _command(self) -> Any:
        parsed = self._parsed
        return parsed.child() if _class(parsed) == names.CHANGES_PARSED_WITH else parsed

    @cached_property
    def verb(self) -> str | None:
        """Its verb; None for a statement of another kind. Raises Spark's error for invalid SQL."""
        return _ROW_VERBS.get(_class(self._command))

    @property
    def target(self) -> list[str] | None:
        """The parts of the name of what it changes; None if it changes nothing that has a name."""
        try:
            if self.verb is None:
                return None
            target = self._command.targetTable() if self.verb == MERGING else self._command.table()
            while _class(target) == names.CHANGES_ALIAS:
                target = target.child()
            return [str(part) for part in self.bridge.items(target.multipartIdentifier())]
        except (PySparkException, Py4JError):
            return None

    @property
    def view(self) -> str | None:
        """The view that it names in place of a table; None if it names a table, or something unknown."""
        parts = self.target
        if parts is None:
            return None
        name = ".".join(quoted_name(part) for part in parts)
        try:
            return name if self.bridge.spark.catalog.getTable(name).tableType in ("TEMPORARY", "VIEW") else None
        except (PySparkException, Py4JError):
            return None

    @property
    def inserts(self) -> bool:
        return self.verb == MERGING and not self._command.notMatchedActions().isEmpty()

    @property
    def evolves(self) -> bool:
        """Whether it is a MERGE WITH SCHEMA EVOLUTION."""
        try:
            return self.verb == MERGING and bool(self._command.withSchemaEvolution())
        except Py4JError:
            return False

    @cached_property
    def _row_columns(self) -> tuple[RowColumns, ...]:
        """The columns about rows that it may name, in the forms in which Spark may take them, the first one first."""
        text = (self.text or str(self._parsed.toString())).lower()
        found = tuple(name for name in ROW_COLUMNS if name in text)
        if self.verb != MERGING or not found:
            return (RowColumns(found),)
        return (NO_ROW_COLUMNS, RowColumns(found, as_data=True))

    def analyze(self, pins: dict[Branch, PinnedVersion]) -> AnalyzedChange | None:
        """Its meaning at these versions of branches; None if it does not change a Lance table.

        Spark adds the columns of a MERGE WITH SCHEMA EVOLUTION now. Raises Spark's errors for an invalid statement.
        """
        *others, last = self._row_columns
        for named in others:
            with suppress(PySparkException):
                found = self._analyzed(pins, named)
                if found is None or not found.mixes_row_columns:
                    return found
        return self._analyzed(pins, last)

    def _analyzed(self, pins: dict[Branch, PinnedVersion], named: RowColumns) -> AnalyzedChange | None:
        state = self.bridge.session.sessionState()
        with self.bridge.active(), looking_up(self.bridge, pins, named) as found:
            mode = self.bridge.call(f"{names.CHANGES_MODE}.SKIP")
            execution = state.executePlan(self._bound(), mode)
            try:
                root = execution.analyzed()
            except PySparkException as error:
                if not (named.as_data and found.tables) or isinstance(error, LanceSparkError):
                    raise
                raise _cannot_name(named.names[0]) from error
        common = None
        if _class(root) == names.CHANGES_WITH:
            root, common = root.plan(), root.cteDefs()
        relation = _target(root)
        table = None if relation is None else found.tables.get(relation.table().toString())
        if table is None:
            return None
        if self.evolves and not self.bridge.evolves:
            raise Refused(
                "This Spark does not tell which columns MERGE WITH SCHEMA EVOLUTION adds. Nothing was changed.",
                hint="Spark 4.3 does. Until then: t.merge(...).with_schema_evolution(), or add the columns first.",
            )
        return AnalyzedChange(self.bridge, table, relation, root, execution, common)

    def _bound(self) -> Any:
        """The parsed statement, with the values of its parameters."""
        if not self.args:
            return self._parsed
        bridge = self.bridge
        if isinstance(self.args, dict):
            values = bridge.seq([_expression(bridge, value) for value in self.args.values()])
            return bridge.new(names.CHANGES_NAMED, self._parsed, bridge.seq([*self.args]), values)
        return bridge.new(
            names.CHANGES_POSITIONAL, self._parsed, bridge.seq([_expression(bridge, value) for value in self.args])
        )


@dataclass(frozen=True)
class Change:
    """A statement with its meaning at first analysis."""

    statement: RowStatement
    first: AnalyzedChange
    _later: dict[PinnedVersion, AnalyzedChange] = field(default_factory=dict)

    def execute(self) -> DataFrame:
        """Execute it; one row reports how many rows it changed. Raises the errors of ``change_rows``.

        Session settings provide the commit message, and how often to recompute it after a conflict. Raises
        InvalidOption for invalid settings.
        """
        verb, first, spark = self.statement.verb, self.first, self.statement.bridge.spark
        options = parse_statement_options({name: spark.conf.get(name, None) for name in SETTINGS})
        predicates = first.predicates() if verb == DELETING else None
        if predicates is not None:
            deleted = first.table.delete(predicates, options.message).rows
            first.refresh()
            return self._counts(deleted=deleted)
        place = first.table.place
        change = RowChange(
            place.location,
            place.spec.branch,
            verb or MERGING,
            lambda pin: self._at(pin).actions(),
            self._meets,
            self.statement.inserts,
            first.key,
            first.condition if verb == DELETING else "",
            first.sets if verb == UPDATING else None,
            is_divided=self._is_divided if verb == MERGING else None,
        )
        result = change_rows(spark, change, options.message, options.retries)
        compact_after(place.location, result)
        first.refresh()
        return self._counts(result.rows_updated, result.rows_deleted, result.rows_inserted)

    def _is_divided(self, frame: DataFrame) -> bool:
        """Whether Spark joins by the key of the table's layout without a shuffle. If not, tasks divide the rows."""
        place = self.first.table.place
        if not read_layout(place.location, self.first.pin).partition:
            return False
        plan = str(getattr(frame, "_jdf").queryExecution().executedPlan().toString())  # noqa: B009
        return GROUPED in plan and "Exchange" not in plan

    def _at(self, pin: PinnedVersion) -> AnalyzedChange:
        if self.first.pin == pin:
            return self.first
        if pin not in self._later:
            self._later[pin] = self._analyzed(self.statement, pin)
        return self._later[pin]

    def _analyzed(self, statement: RowStatement, pin: PinnedVersion) -> AnalyzedChange:
        found = statement.analyze({branch_of(self.first.table.place): pin})
        if found is None or found.pin != pin:
            raise Conflict(
                f"The table is at {pin} now, but Spark analyzed the statement for another version.",
                hint="Run the statement again.",
            )
        return found

    def _meets(self, pin: PinnedVersion, fragments: Sequence[int]) -> bool:
        """Whether it would change or match rows of these fragments."""
        found = self._at(pin)
        if found.appends:
            text = with_all_rows(self.statement.text) if self.statement.plan is None else None
            if text is None:
                return True
            found = self._analyzed(RowStatement(self.statement.bridge, text, self.statement.args), pin)
        return found.touches(fragments)

    def _counts(self, updated: int = 0, deleted: int = 0, inserted: int = 0) -> DataFrame:
        counts = {
            "num_affected_rows": updated + deleted + inserted,
            "num_updated_rows": updated,
            "num_deleted_rows": deleted,
            "num_inserted_rows": inserted,
        }
        table = pa.table({name: pa.array([count], pa.int64()) for name, count in counts.items()})
        return self.statement.bridge.spark.createDataFrame(table)


def _cannot_name(column: str) -> Refused:
    return Refused(
        f"Spark cannot analyze this MERGE, which names {column}. Nothing was changed.",
        hint="Beside columns about rows, name the columns to set and to insert, without *, and write t._rowid with the "
        "alias of the table. UPDATE and DELETE take them too: WHERE _rowid IN (SELECT ...).",
    )


def _target(root: Any) -> Any:
    """The relation that an analyzed statement changes; None if its form is unknown."""
    kind = _class(root)
    if kind == names.CHANGES_WRITE:
        found = root.originalTable()
    elif kind in (names.CHANGES_APPEND, names.MAYBE_INSERT_ONLY, names.CHANGES_DELETE):
        found = root.table()
    else:
        return None
    while _class(found) == names.CHANGES_ALIAS:
        found = found.child()
    return found if _class(found) == names.CHANGES_RELATION else None


def _expression(bridge: Bridge, value: Any) -> Any:
    return bridge.find(names.CHANGES_EXPRESSIONS).apply(getattr(F.lit(value), "_jc").node())  # noqa: B009


def _class(plan: Any) -> str:
    return str(plan.getClass().getName())


def frame_of(bridge: Bridge, plan: Any) -> DataFrame:
    return DataFrame(bridge.call(f"{names.DATASET}.ofRows", bridge.session, plan), bridge.spark)


# --- The analyzed form of a statement

_FRAGMENT_BITS = 32
"""A row's address is the fragment's id, followed by the row's offset in this many bits."""
_FROM_TARGET, _FROM_SOURCE = "__row_from_target", "__row_from_source"
"""Columns of Spark's join for a MERGE: null if that side has no such row."""


@dataclass(frozen=True)
class AnalyzedChange:
    """Spark's plan of a statement; only its query is run."""

    bridge: Bridge
    table: StoredTable
    relation: Any
    root: Any
    """``WriteDelta``; ``AppendData`` or ``InsertOnlyMerge`` of a MERGE that only inserts; ``DeleteFromTable`` of all
    rows."""
    execution: Any
    """Spark's ``QueryExecution``, which is never executed."""
    common: Any = None
    """Definitions of WITH, if Spark keeps them around the statement."""

    @property
    def pin(self) -> PinnedVersion:
        return self.table.source.read.pin

    @property
    def mixes_row_columns(self) -> bool:
        """Whether Spark has added columns about rows to the table's, where it then loses their values."""
        return any(each.name() in ROW_COLUMNS for each in self.bridge.items(self.relation.output()))

    @property
    def appends(self) -> bool:
        """Whether Spark turned it into a plain append of unmatched rows."""
        return _class(self.root) == names.CHANGES_APPEND or _class(self.root) == names.MAYBE_INSERT_ONLY

    @cached_property
    def _command(self) -> str:
        """The statement, in Spark's words; empty for anything but ``WriteDelta``."""
        return str(self.root.operation().command().toString()) if _class(self.root) == names.CHANGES_WRITE else ""

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The table's columns in the condition, which identify its rows to users."""
        if not self._command:
            return ()
        own = self.root.originalTable().outputSet()
        used = {
            each.name() for each in self.bridge.items(self.root.condition().references().toSeq()) if own.contains(each)
        }
        return tuple(name for name in self.table.source.schema.names if name in used)

    @cached_property
    def sets(self) -> frozenset[str] | None:
        """The columns that an UPDATE of some rows sets; None if whole rows are written from the frame."""
        if self._command != "UPDATE" or self.condition == "true":
            return None
        query = self.root.query()
        if _class(query) != names.CHANGES_PROJECT:
            return None
        own = self.relation.outputSet()
        found = set()
        for each in self.bridge.items(query.projectList()):
            value = each.child() if _class(each) == names.CHANGES_NAMED_VALUE else each
            if _class(value) != names.CHANGES_COLUMN or value.name() != each.name() or not own.contains(value):
                found.add(each.name())
        return frozenset(name for name in self.table.source.schema.names if name in found)

    def refresh(self) -> None:
        """Make Spark refresh what it has cached of the table, as after its own writes."""
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
        """The condition on the rows, in Spark's SQL."""
        return str(self.root.condition().sql())

    def predicates(self) -> list[Any] | None:
        """The filters of a DELETE that Lance can apply, as plain values; None if only Spark can select the rows.

        Empty for all rows.
        """
        if _class(self.root) == names.CHANGES_DELETE:
            return [] if self.root.condition().toString() == "true" else None
        with self.bridge.active():
            optimized = self.execution.optimizedPlan()
        if _class(optimized) != names.CHANGES_DELETE_BY_FILTERS:
            return None
        return [plain(self.bridge, each) for each in self.bridge.items(optimized.condition())]

    def actions(self) -> DataFrame:
        """The frame of actions, see lance_spark.rows.action_rules."""
        kept = kept_columns(self.table.source.stored, self.sets)
        wanted = {each.name: each.dataType for each in self.table.source.schema if each.name not in kept}
        found = _Columns(self._data_frame(self._query)).named([OPERATION, ROW_ADDRESS, *wanted])
        there = {*found.columns}
        missing = [] if OPERATION in there else [F.lit(INSERT).alias(OPERATION)]
        for name, kind in {ROW_ADDRESS: LongType(), **wanted}.items():
            if name not in there:
                missing.append(F.lit(None).cast(kind).alias(name))
        if missing:
            found = found.select("*", *missing)
        if self._deletes_what_matches:
            # Several source rows can have the same action. Inserts have no address, and all of them stay.
            tell = F.coalesce(found[ROW_ADDRESS], -1 - F.monotonically_increasing_id())
            found = found.withColumn(_FROM_SOURCE, tell).dropDuplicates([_FROM_SOURCE]).drop(_FROM_SOURCE)
        return found

    def touches(self, fragments: Sequence[int]) -> bool:
        """Whether it changes rows of these fragments, or, for a MERGE, whether a source row matches one."""
        if self._merge is None and self._command == "MERGE":
            return True
        rows = _Columns(self._data_frame(self._query))
        inside = F.shiftright(rows[ROW_ADDRESS], _FRAGMENT_BITS).isin([*fragments])
        if not rows.frame.where(inside).isEmpty():
            return True
        if self._merge is None:
            return False
        pairs = _Columns(self._data_frame(self._merge.child()))
        inside = F.shiftright(pairs[ROW_ADDRESS], _FRAGMENT_BITS).isin([*fragments])
        return not pairs.frame.where(
            inside & pairs[_FROM_TARGET].isNotNull() & pairs[_FROM_SOURCE].isNotNull()
        ).isEmpty()

    @cached_property
    def _merge(self) -> Any:
        """Spark's ``MergeRows``; None if there is none."""
        query = self.root.query()
        return query if _class(query) == names.CHANGES_MERGE_ROWS else None

    @property
    def _deletes_what_matches(self) -> bool:
        """Whether several source rows can match one row: only if the sole action is to delete it."""
        merge = None if self.appends else self._merge
        return merge is not None and not merge.checkCardinality() and not merge.matchedInstructions().isEmpty()

    @property
    def _query(self) -> Any:
        """The query. The engine checks that no row changes twice, because it can report which row it is."""
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
        if self.common is not None:
            plan = self.bridge.new(names.CHANGES_WITH, plan, self.common)
        return frame_of(self.bridge, plan)


class _Columns:
    """A DataFrame whose columns are found under any names: of several with one name, the first counts."""

    def __init__(self, frame: DataFrame) -> None:
        self._at: dict[str, int] = {}
        for index, name in enumerate(frame.columns):
            self._at.setdefault(name, index)
        self.frame = frame.toDF(*(f"c{index}" for index in range(len(frame.columns))))

    def __getitem__(self, name: str) -> Column:
        return self.frame[f"c{self._at[name]}"]

    def named(self, names: Sequence[str]) -> DataFrame:
        """Those of the columns that there are, under their own names.

        As texts: a Column for each of 1,000 would take seconds of calls to the JVM.
        """
        found = [f"c{self._at[name]} AS {quoted_name(name)}" for name in names if name in self._at]
        return self.frame.selectExpr(*found)
