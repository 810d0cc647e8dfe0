"""UPDATE, DELETE and MERGE: analyzed by Spark, carried out by the engine of row changes.

Spark's analyzer turns such a statement into a query whose rows say what happens to which row, with everything that
SQL asks for: casts, defaults, subqueries, star actions. The engine takes that query as its frame of actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.errors import Conflict
from lance_spark.options.statements import SETTINGS, parse_statement_options
from lance_spark.rows.model import DELETING, MERGING, UPDATING
from lance_spark.spark.jvm import names
from lance_spark.spark.jvm.analyzed_change import AnalyzedChange
from lance_spark.spark.jvm.lookups import Branch, branch_of, looking_up
from lance_spark.spark.jvm.statements import with_all_rows
from lance_spark.spark.rows.engine import RowChange, change_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lance_spark.refs.model import PinnedVersion
    from lance_spark.spark.jvm.bridge import Bridge

_VERBS = {names.CHANGES_UPDATE: UPDATING, names.CHANGES_DELETE: DELETING, names.CHANGES_MERGE: MERGING}


@dataclass(frozen=True)
class RowStatement:
    """A statement that changes rows, as text or as a plan."""

    bridge: Bridge
    text: str
    args: dict[str, Any] | list[Any] | None = None
    """Values of its parameters."""
    plan: Any = None
    """What Spark's parser would make of a text; None where there is a text."""

    @cached_property
    def _parsed(self) -> Any:
        if self.plan is not None:
            return self.plan
        with self.bridge.active():
            return self.bridge.session.sessionState().sqlParser().parsePlan(self.text)

    @cached_property
    def _command(self) -> Any:
        """What is behind WITH."""
        parsed = self._parsed
        return parsed.child() if _class(parsed) == names.CHANGES_PARSED_WITH else parsed

    @cached_property
    def verb(self) -> str | None:
        """What it does; None for a statement of another kind. Raises Spark's error for what is no SQL."""
        return _VERBS.get(_class(self._command))

    @property
    def inserts(self) -> bool:
        """Whether it may insert rows."""
        return self.verb == MERGING and not self._command.notMatchedActions().isEmpty()

    def analyze(self, pins: dict[Branch, PinnedVersion]) -> AnalyzedChange | None:
        """What it means, with these versions of branches; None where it changes no table of ours.

        Raises Spark's errors for what is wrong with it.
        """
        state = self.bridge.session.sessionState()
        with self.bridge.active(), looking_up(self.bridge, pins) as found:
            mode = self.bridge.call(f"{names.CHANGES_MODE}.SKIP")
            execution = state.executePlan(self._bound(), mode)
            root = execution.analyzed()
        common = None
        if _class(root) == names.CHANGES_WITH:
            root, common = root.plan(), root.cteDefs()
        relation = _target(root)
        table = None if relation is None else found.tables.get(relation.table().toString())
        if table is None:
            return None
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
    """A statement together with what it meant when it was first looked at."""

    statement: RowStatement
    first: AnalyzedChange
    _later: dict[PinnedVersion, AnalyzedChange] = field(default_factory=dict)

    def execute(self) -> DataFrame:
        """Carry it out; one row says how many rows it changed. Raises the errors of ``change_rows``.

        Settings of the session give the commit message, and how often it is computed again after a conflict. Raises
        InvalidOption for what they cannot be.
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
        )
        result = change_rows(spark, change, options.message, options.retries)
        first.refresh()
        return self._counts(result.rows_updated, result.rows_deleted, result.rows_inserted)

    def _at(self, pin: PinnedVersion) -> AnalyzedChange:
        """The change of a version."""
        if self.first.pin == pin:
            return self.first
        if pin not in self._later:
            self._later[pin] = self._analyzed(self.statement, pin)
        return self._later[pin]

    def _analyzed(self, statement: RowStatement, pin: PinnedVersion) -> AnalyzedChange:
        found = statement.analyze({branch_of(self.first.table.place): pin})
        if found is None or found.pin != pin:
            raise Conflict(
                f"The table is at {pin} now, and Spark has analyzed the statement for another version.",
                hint="Run the statement again.",
            )
        return found

    def _meets(self, pin: PinnedVersion, fragments: Sequence[int]) -> bool:
        """Whether it would have changed or matched rows of these fragments."""
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


def _target(root: Any) -> Any:
    """The relation that an analyzed statement changes; None where it is not known here."""
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
    from pyspark.sql.functions import lit

    return bridge.find(names.CHANGES_EXPRESSIONS).apply(getattr(lit(value), "_jc").node())  # noqa: B009


def _class(plan: Any) -> str:
    return str(plan.getClass().getName())
