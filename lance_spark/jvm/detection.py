"""Checks that Spark has everything this package needs from its JVM, before any of it is used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from py4j.clientserver import ClientServer
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from lance_spark.engine.session_spark import is_connect
from lance_spark.errors import Refused
from lance_spark.jvm import names
from lance_spark.jvm.bridge import Bridge
from lance_spark.jvm.java.compiled import can_feed, can_group, can_write, maker
from lance_spark.jvm.switches import BY_ROWS, SWITCH, switched_off

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_SIGNATURE = re.compile(r"([^\s.]+)\(([^()]*)\)")
"""Java's text of a method: ``public int java.lang.String.indexOf(java.lang.String,int) throws ...``."""

_MARKS_KEYS = "mayContainUnknownPartitionKeys"
"""Of Spark's partitionings by keys: 4.1 and 4.2 have it since their joins by keys lose no rows."""

connected: WeakKeyDictionary[SparkSession, Bridge] = WeakKeyDictionary()


def connect(spark: SparkSession) -> Bridge:
    """The bridge to a session's JVM. Raises Refused, with the missing part, if only the plain data source works."""
    off = switched_off(SWITCH)
    if off is not None:
        raise Refused(off)
    if is_connect(spark):
        raise Refused("the session is one of Spark Connect, which has no JVM here.")
    try:
        bridge = Bridge(spark)
        missing = [name for name in names.CLASSES if not _loads(bridge, name)]
        if missing:
            raise Refused(f"this Spark has no {missing[0]}.")
        bridge.factory_arguments = _constructor(bridge, names.PYTHON_READER_FACTORY, (4, 5))
        bridge.relation_arguments = _method(bridge, names.RELATION, "create", (4, 5))
        _method(bridge, names.DATASET, "ofRows", (2,))
        _method(bridge, "java.lang.reflect.InvocationHandler", "invokeDefault", (3,))
        catalogs(bridge)
        bridge.no_row_changes = _why_no_row_changes(bridge)
        bridge.no_batches = _why_no_batches(bridge)
        bridge.no_columns = _why_no_columns(bridge)
    except (Py4JError, PySparkException, AttributeError, TypeError) as problem:
        raise Refused(f"this session's JVM cannot be used: {str(problem).splitlines()[0]}") from problem
    return bridge


def catalogs(bridge: Bridge) -> Any:
    """Spark's map of the session's loaded catalogs."""
    manager = bridge.session.sessionState().catalogManager()
    field = manager.getClass().getDeclaredField("catalogs")
    field.setAccessible(True)
    return field.get(manager)


def cloned_from(spark: SparkSession) -> Any:
    """The state of the session that Spark cloned this one from, as for a streaming query; None for any other."""
    try:
        session = getattr(spark, "_jsparkSession")  # noqa: B009 - only classic sessions have it
        field = session.getClass().getDeclaredField("parentSessionState")
        field.setAccessible(True)
        found = field.get(session)
        return found.get() if found.isDefined() else None
    except (Py4JError, AttributeError, TypeError):
        return None


def _why_no_row_changes(bridge: Bridge) -> str | None:
    if not isinstance(bridge.gateway, ClientServer):
        return "PYSPARK_PIN_THREAD is off, so that threads of Python and Java do not correspond."
    missing = [name for name in names.FOR_CHANGES if not _loads(bridge, name)]
    if missing:
        return f"this Spark has no {missing[0]}."
    try:
        _method(bridge, names.CHANGES_STATE, "executePlan", (2,))
        _method(bridge, names.CHANGES_MERGE_ROWS, "copy", (8,))
        _method(bridge, names.CHANGES_CACHE, "recacheByPlan", (2,))
        bridge.plans_merges = "mergeCommand" in _methods(bridge, names.MAYBE_MERGE_WRITER)
        bridge.evolves = _loads(bridge, names.MAYBE_EVOLUTION)
        bridge.caches_by_name = "recacheTableOrView" in _methods(bridge, names.CHANGES_CACHE)
    except Refused as reason:
        return reason.message
    return None


def _why_no_batches(bridge: Bridge) -> str | None:
    try:
        bridge.maker = maker(bridge)
    except Refused as reason:
        return reason.message
    bridge.feeds = can_feed(bridge)
    bridge.groups = can_group(bridge)
    bridge.groups_where_needed = _loads(bridge, names.MAYBE_GROUPS)
    bridge.groups_soundly = any(_MARKS_KEYS in _methods(bridge, each) for each in names.MAYBE_KEYED)
    off = switched_off(BY_ROWS)
    bridge.batches = off is None
    return off


def _why_no_columns(bridge: Bridge) -> str | None:
    if bridge.no_batches is not None:
        return bridge.no_batches
    bridge.writes_columns = can_write(bridge)
    return None if bridge.writes_columns else "this Spark lacks a class or method that columnar writes need."


def _loads(bridge: Bridge, name: str) -> bool:
    try:
        bridge.load(name)
    except Py4JError:
        return False
    return True


def _constructor(bridge: Bridge, name: str, known: tuple[int, ...]) -> int:
    counts = [count for _, count in _signatures(bridge, bridge.load(name).getConstructors())]
    return _one_of(counts, known, name)


def _methods(bridge: Bridge, name: str) -> set[str]:
    if not _loads(bridge, name):
        return set()
    return {found for found, _ in _signatures(bridge, bridge.load(name).getMethods())}


def _method(bridge: Bridge, name: str, method: str, known: tuple[int, ...]) -> int:
    found = _signatures(bridge, bridge.load(name).getMethods())
    return _one_of([count for each, count in found if each == method], known, f"{name}.{method}")


def _signatures(bridge: Bridge, members: Any) -> list[tuple[str, int]]:
    """Name and number of parameters of methods, or constructors.

    In one call: each answer of the JVM takes a tenth of a millisecond, and these classes have hundreds of methods.
    """
    text = bridge.call("scala.runtime.ScalaRunTime.stringOf", members)
    return [(name, len(given.split(",")) if given else 0) for name, given in _SIGNATURE.findall(text)]


def _one_of(counts: list[int], known: tuple[int, ...], name: str) -> int:
    for count in known:
        if count in counts:
            return count
    raise Refused(f"{name} of this Spark takes other arguments.")


# --- The active session of a thread


@contextmanager
def activity(spark: SparkSession) -> Iterator[None]:
    """Temporarily make a session the active one of this thread, if possible.

    Spark looks up names of Python data sources in the active session, whichever session receives the call.
    """
    try:
        bridge = connected.get(spark) or connect(spark)
    except Refused:
        yield
        return
    before = bridge.call(f"{names.SESSION}.getActiveSession")
    bridge.call(f"{names.SESSION}.setActiveSession", bridge.session)
    try:
        yield
    finally:
        if before.isDefined():
            bridge.call(f"{names.SESSION}.setActiveSession", before.get())
        else:
            bridge.call(f"{names.SESSION}.clearActiveSession")


# --- Suppressing Spark's warning that one registration of this data source replaced another

_silenced: WeakKeyDictionary[SparkContext, set[str]] = WeakKeyDictionary()


def expect_replacement(spark: SparkSession, name: str) -> None:
    """Keep Spark from logging that the data source of this name replaced another one; all else is logged as before.

    Spark finds this data source by itself before its registration, and copies registrations for each streaming query
    and each new session, always with that warning. Does nothing on Spark Connect, and if Spark logs by other means.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return
    known = _silenced.setdefault(spark.sparkContext, set())
    if name not in known:
        known.add(name)
        try:
            _refuse(spark.sparkContext, name)
        except (Py4JError, PySparkException, AttributeError, TypeError):
            return  # the warning is harmless


def _refuse(context: Any, name: str) -> None:
    jvm = context._jvm
    log4j = jvm.org.apache.logging.log4j
    results = log4j.core.Filter.Result
    text = f"The data source {re.escape(name)} replaced a (statically|previously) registered data source\\.?"
    no_flags = context._gateway.new_array(jvm.java.lang.String, 0)
    refusing = log4j.core.filter.RegexFilter.createFilter(text, no_flags, False, results.DENY, results.NEUTRAL)
    root = log4j.LogManager.getContext(False).getConfiguration().getRootLogger()
    for appender in root.getAppenders().values():  # a filter of a logger would change the output of Spark's shells
        appender.addFilter(refusing)
