"""The sessions of a Spark server, seen from a Python process beside it that ``Helper.java`` started.

Such a process has the server's JVM as a driver in Python has its own. Spark's Python objects for the context and for
each session are made from the Java objects of the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import reduce
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from py4j.java_gateway import java_import
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import ensure_callback_server_started, launch_gateway
from pyspark.sql import DataFrame, SparkSession

from lance_spark.jvm import names
from lance_spark.jvm.callers import note_caller
from lance_spark.jvm.server.compiling import compiled_jar, digest

_SHARED = "lance_spark.helper"
"""The property of the JVM in which ``Helper.java`` keeps what all sessions share."""
attached: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""The gateway to a server, and the class loader that has this package's Java classes for all of its sessions.

Executors take the classes from the artifact that a client sent for its session. On the driver all sessions share one
loader: py4j keeps methods by the names of classes, and would call those of one session on the objects of another.
"""


class ServerSession(SparkSession):
    """A session of a server, which Python does not keep alive: whose connection has ended leaves nothing behind."""

    @property
    def _jsparkSession(self) -> Any:  # noqa: N802 - PySpark's name
        return self._weak.get()

    @_jsparkSession.setter
    def _jsparkSession(self, session: Any) -> None:  # noqa: N802 - PySpark's name
        self._weak = self._jvm.java.lang.ref.WeakReference(session)  # type: ignore[union-attr]

    def newSession(self) -> SparkSession:  # noqa: N802 - PySpark's name
        """One that Python keeps alive: nothing else does."""
        return SparkSession(self._sc, self._jsparkSession.newSession())


@contextmanager
def inside(gateway: Any) -> Iterator[None]:
    """Let what this Java thread parses go to Spark's parser: ``Extensions.java`` would take it for one of ours."""
    threads, thread = (
        gateway.jvm.java.lang.System.getProperties()[_SHARED]["inside"],
        gateway.jvm.Thread.currentThread(),
    )
    before = threads.put(thread, True)
    try:
        yield
    finally:
        if before is None:
            threads.remove(thread)


class Server:
    """The JVM of the server. Raises Py4JError, OSError if it does not answer."""

    def __init__(self) -> None:
        self._gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
        for name in names.MAYBE_IMPORTED:
            java_import(self._gateway.jvm, name)
        ensure_callback_server_started(self._gateway)  # type: ignore[no-untyped-call]
        self._jvm: Any = self._gateway.jvm
        self._shared: Any = self._jvm.java.lang.System.getProperties()[_SHARED]
        self._context: SparkContext | None = None

    def serve(self, handle: Callable[[Any, str, Any], str]) -> None:
        """Answer requests from now on: ``handle(session, request, made)`` must not raise.

        It gets Spark's Java session, and in ``made`` a Java list for what an answer cannot hold.
        """
        self._shared["call"] = _Call(self._gateway, handle)

    def session(self, session: Any) -> SparkSession:
        """A Python object of a session; each call makes another one."""
        with self._same_sessions():
            if self._context is None:
                self._context = self._attach(session)
            if self._gateway not in attached:
                attached[self._gateway] = self._loader(session)
            return ServerSession(self._context, session)

    def keep(self, key: str, session: Any, request: str) -> None:
        """Remember a request, for the process that comes after this one. The session is not kept alive by it."""
        kept = self._shared["kept"]
        if key not in kept:
            weak = self._jvm.java.lang.ref.WeakReference(session)
            kept[key] = self._gateway.new_array(self._jvm.java.lang.Object, 2)
            kept[key][0], kept[key][1] = weak, self._jvm.java.util.ArrayList()
        if request not in kept[key][1]:
            kept[key][1].append(request)

    def forget(self, key: str) -> None:
        self._shared["kept"].pop(key, None)

    def kept(self) -> list[tuple[str, Any, list[str]]]:
        """The requests to remember: key and Java object of each living session, and its requests in their order."""
        kept = self._shared["kept"]
        found = [(str(key), kept[key][0].get(), [str(each) for each in kept[key][1]]) for key in [*kept]]
        return [each for each in found if each[1] is not None]

    @staticmethod
    def publish(spark: SparkSession, rows: pa.Table, view: str, setting: tuple[str, str]) -> None:
        """Give all sessions a view, and a setting to those that the server makes from then on.

        Nothing happens if the session ends meanwhile: who does not find the view asks the server's Python.
        """
        with suppress(PySparkException, Py4JError, AttributeError):
            spark.createDataFrame(rows).createOrReplaceGlobalTempView(view)
            spark._jsparkSession.sparkContext().conf().set(*setting)

    def frame(self, key: str, spark: SparkSession, relation: bytes) -> DataFrame:
        """What a client of Spark Connect has as a relation. Raises Spark's errors."""
        given = self._find(names.MAYBE_RELATION).parseFrom(relation)
        return DataFrame(self._dataset(spark, self._planner(key), given), spark)

    def merge(self, key: str, spark: SparkSession, command: bytes) -> Any:
        """Spark's plan of a client's ``mergeInto``. Raises Spark's errors."""
        given, planner = self._find(names.MAYBE_MERGE).parseFrom(command), self._planner(key)
        parser = spark._jsparkSession.sessionState().sqlParser()
        text = f"MERGE INTO {given.getTargetTableName()} USING s ON true WHEN MATCHED THEN DELETE"

        def actions(found: Any) -> Any:
            made = [planner.transformExpression(each) for each in found]
            return self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(made).toSeq()

        return self._find(names.CHANGES_MERGE)(
            parser.parsePlan(text).targetTable(),
            self._dataset(spark, planner, given.getSourceTablePlan()).logicalPlan(),
            planner.transformExpression(given.getMergeCondition()),
            actions(given.getMatchActionsList()),
            actions(given.getNotMatchedActionsList()),
            actions(given.getNotMatchedBySourceActionsList()),
            given.getWithSchemaEvolution(),
        )

    def _dataset(self, spark: SparkSession, planner: Any, relation: Any) -> Any:
        return self._find(names.DATASET).ofRows(spark._jsparkSession, planner.transformRelation(relation))

    def _planner(self, key: str) -> Any:
        """Of a client's session. Raises Py4JError, StopIteration if the server has none."""
        manager = self._manager()
        infos = self._items(manager.listActiveSessions())
        user = next(str(each.userId()) for each in infos if str(each.sessionId()) == key)
        holder = manager.getIsolatedSessionIfPresent(self._find(names.MAYBE_CONNECT_KEY)(user, key)).get()
        return self._find(names.MAYBE_CONNECT_PLANNER)(holder, self._jvm.scala.Option.apply(None))

    def _manager(self) -> Any:
        return getattr(self._find(f"{names.MAYBE_CONNECT_SERVICE}$"), "MODULE$").sessionManager()

    @staticmethod
    def has_ended(spark: SparkSession) -> bool:
        """Whether the server has let go of a session."""
        return spark._jsparkSession is None

    def living(self) -> set[str] | None:
        """The ids of the sessions that the server has; None if it does not tell."""
        with suppress(Py4JError, TypeError, AttributeError):
            return {str(each.sessionId()) for each in self._items(self._manager().listActiveSessions())}
        return None

    def _find(self, name: str) -> Any:
        return reduce(getattr, name.split("."), self._jvm)

    def _items(self, found: Any) -> list[Any]:
        return list(self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(found))

    def _loader(self, session: Any) -> Any:
        """Made once for a server, also if this process is not its first."""
        key = f"loader-{digest()}"
        if key not in self._shared:
            url = self._jvm.java.io.File(compiled_jar(_find_spark_home())).toURI().toURL()
            urls = self._gateway.new_array(self._jvm.java.net.URL, 1)
            urls[0] = url
            self._shared[key] = self._jvm.java.net.URLClassLoader(urls, session.getClass().getClassLoader())
        return self._shared[key]

    def _attach(self, session: Any) -> SparkContext:
        """Python's context of the server's. What Python takes for the session of the process is the server's own."""
        java = self._find(names.MAYBE_CONTEXT).fromSparkContext(session.sparkContext())
        conf = SparkConf(_jvm=self._jvm, _jconf=java.getConf())
        context = SparkContext(gateway=self._gateway, jsc=java, conf=conf)
        default = self._jvm.SparkSession.getDefaultSession()
        SparkSession(context, default.get() if default.isDefined() else session.newSession())
        return context

    @contextmanager
    def _same_sessions(self) -> Iterator[None]:
        """Leave Spark's default session and this thread's active one: PySpark's constructor would make others those."""
        sessions = self._jvm.SparkSession
        default, active = sessions.getDefaultSession(), sessions.getActiveSession()
        try:
            yield
        finally:
            if default.isDefined():
                sessions.setDefaultSession(default.get())
            else:
                sessions.clearDefaultSession()
            if active.isDefined():
                sessions.setActiveSession(active.get())
            else:
                sessions.clearActiveSession()


class _Call:
    """Java's ``Function``: takes a session, a request and a list for objects, returns the answer."""

    def __init__(self, gateway: Any, handle: Callable[[Any, str, Any], str]) -> None:
        self._gateway, self._handle = gateway, handle

    def apply(self, given: Any) -> str:
        """Called by ``Helper.java`` in a thread of the server."""
        note_caller(self._gateway)
        return self._handle(given[0], str(given[1]), given[2])

    class Java:
        implements = ["java.util.function.Function"]  # noqa: RUF012 - py4j's way to name interfaces
