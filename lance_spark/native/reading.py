"""What a statement reads, found in Spark's plan of it, for the write that it contains.

The plan knows what the text does not show: views, temporary views, subqueries, WITH, cached tables, DataFrames.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from lance_spark.core.isolation import ANY, STATEMENT, Statement
from lance_spark.core.options import folded
from lance_spark.datasource.datasource import LanceDataSource, names_in
from lance_spark.jvm import names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance_spark.core.refs import PinnedVersion
    from lance_spark.jvm.bridge import Bridge

MARK = "NativeTable "
"""How the texts of tables begin. What follows says whether the newest version of a branch is read, and which."""
_EXECUTION = "spark.sql.execution.id"
_PINNED = {"version", "versionasof", "tag", "asof", "timestampasof"}
"""Options of a read that name old rows on purpose."""
Read = tuple[str, "str | None", int]


def reads_of(bridge: Bridge, plan: Any, base: int | None = None) -> tuple[Read, ...] | None:
    """The branches that a plan reads, each as of its newest version when it was analyzed; None if Spark does not tell.

    Rows that the plan does not lead back to tables, as after a checkpoint or from Python, count as no read. What the
    plain data source reads, as for ``CREATE TEMPORARY VIEW ... USING lance``, Spark does not tell: it counts as any
    table, as of ``base``.
    """
    try:
        texts = {*_tables(bridge, plan)}
    except Py4JError:
        return None
    found = {read for text in texts if (read := _read(text)) is not None}
    if base is not None and not texts.isdisjoint({LanceDataSource.name(), *names_in(bridge.spark)}):
        found.add((ANY, None, base))
    return tuple(sorted(found, key=repr))


def _tables(bridge: Bridge, plan: Any) -> Iterator[str]:
    """The texts of all tables below a plan; of those of the plain data source their names."""
    for part in (plan, *bridge.items(plan.subqueriesAll())):
        for leaf in bridge.items(part.collectLeaves()):
            kind = str(leaf.getClass().getName())
            if kind == names.CHANGES_RELATION:
                yield _text(leaf)
            elif kind == names.MAYBE_SCAN_RELATION:
                yield _text(leaf.relation())
            elif kind == names.MAYBE_CACHED:
                yield from _tables(bridge, leaf.cacheBuilder().logicalPlan())


def _text(relation: Any) -> str:
    text = str(relation.table().toString())
    pinned = {folded(str(key)) for key in relation.options().keySet()} & _PINNED
    return text if text.startswith(MARK) or pinned else str(relation.table().name())


def _read(text: str) -> Read | None:
    if not text.startswith(MARK):
        return None
    found, _ = json.JSONDecoder().raw_decode(text, len(MARK))
    return None if found is None else (found[0], found[1], found[2])


def running_plan(bridge: Bridge) -> Any:
    """The plan of the statement that this Java thread carries out, as analyzed; None if Spark does not tell."""
    try:
        number = bridge.session.sparkContext().getLocalProperty(_EXECUTION)
        execution = None if number is None else bridge.call(f"{names.MAYBE_EXECUTION}.getQueryExecution", int(number))
        return None if execution is None else execution.analyzed()
    except Py4JError:
        return None


def told(bridge: Bridge, base: PinnedVersion | None, plan: Any = None) -> dict[str, str]:
    """The options by which a write knows its statement: the running one, unless its plan is given.

    ``base`` is the version of the target with which the statement was planned.
    """
    plan = running_plan(bridge) if plan is None else plan
    version = None if base is None else base.version
    reads = None if plan is None else reads_of(bridge, plan, version)
    return {STATEMENT: Statement(version, reads).as_text()}
