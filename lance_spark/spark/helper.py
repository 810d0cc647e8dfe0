"""The process beside a Spark server: it runs the native way for the sessions of the server's clients.

``Helper.java`` starts it as ``python -m lance_spark.spark.helper`` and hands requests over; ``connect/client.py`` makes
them. It ends with the server, whose end of the pipe to its standard input closes however the server ends.
"""

from __future__ import annotations

import os
import sys
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from lance_spark.connect import messages
from lance_spark.connect.messages import Failure
from lance_spark.connect.server_function import told
from lance_spark.core.catalog_options import OWN_NAME
from lance_spark.datasource import datasource
from lance_spark.errors import LanceSparkError, Refused
from lance_spark.jvm.attached import Server
from lance_spark.jvm.bridge import parsed_schema
from lance_spark.jvm.callers import close_ended
from lance_spark.jvm.detection import catalogs
from lance_spark.jvm.server.compiling import digest
from lance_spark.native import hooks, served, session
from lance_spark.native.loaded import LoadedCatalog
from lance_spark.native.row_statements import RowStatement
from lance_spark.native.scan import Source
from lance_spark.spark.registering import DEFAULT_CATALOG, register, unregister
from lance_spark.tables.read import is_newest, pin_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PAUSE = 60.0
"""Seconds between two looks for sessions that are gone."""


class Helper:
    """The sessions of the server that have asked for something."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._sessions: dict[str, SparkSession] = {}
        self._lock = threading.Lock()
        self._has_told = False

    def handle(self, java_session: Any, text: str, made: Any = None) -> str:
        """The answer to a request; ``made`` gets a Java object. Does not raise: what went wrong is the answer."""
        try:
            verb, key, given = messages.opened_request(text)
            if verb == messages.SERVE:
                given["made"] = made
            elif verb in (messages.MERGE, messages.SAVE):
                given["key"] = key
            answer = messages.answered(getattr(self, f"_{verb}")(self._session(key, java_session), **given))
            if verb in (messages.REGISTER, messages.LOAD):
                self._server.keep(key, java_session, text)
            elif verb == messages.UNREGISTER:
                self._end(key)
            return answer
        except LanceSparkError as error:
            return messages.refused(error)
        except PySparkException as problem:
            return messages.failed(Failure(str(problem), type(problem).__name__, problem.getCondition()))
        except Exception as problem:  # noqa: BLE001 - the client has to see whatever it is
            return messages.failed(Failure(f"{type(problem).__name__}: {problem}"))

    def restore(self) -> None:
        """Do again what living sessions have asked of a process before this one."""
        for key, java_session, requests in self._server.kept():
            self._drop_dead(self._session(key, java_session), requests)
            for text in requests:
                answer = self.handle(java_session, text)
                _, error = messages.opened_answer(answer)
                if error is not None:
                    sys.stderr.write(f"lance_spark: a session lost its catalog: {error}\n")
            if not requests:
                self._end(key)

    def _drop_dead(self, spark: SparkSession, requests: list[str]) -> None:
        """Take the catalogs of the process that died out of a session: their names look taken."""
        room = session.enter(spark)
        names = {messages.opened_request(text)[2].get("catalog") for text in requests}
        if room is not None:
            for name in {*names, messages.LOADED, DEFAULT_CATALOG} - {None}:
                catalogs(room.bridge).remove(name)

    def let_go(self) -> None:
        """Forget sessions that the server no longer has."""
        living = self._server.living()
        for key, spark in [*self._sessions.items()]:
            gone = living is not None and key not in living and not key.startswith(messages.OWN)
            if gone or self._server.has_ended(spark):
                self._end(key)

    def _session(self, key: str, java_session: Any) -> SparkSession:
        with self._lock:
            if key not in self._sessions:
                self._sessions[key] = self._server.session(java_session)
            return self._sessions[key]

    def _end(self, key: str) -> None:
        self._server.forget(key)
        with self._lock:
            spark = self._sessions.pop(key, None)
        if spark is not None:
            unregister(spark)

    # --- The verbs

    def _register(self, spark: SparkSession, **given: Any) -> dict[str, Any]:
        self.let_go()
        register(spark, **given)
        self._tell_others(spark)
        found = session.describe(spark)
        return {
            "reason": "a process beside the server of Spark Connect does what needs Spark's JVM",
            "catalogs": [name for name in found.catalogs if name != messages.LOADED],
            "no_row_changes": found.no_row_changes,
            "no_batches": found.no_batches,
            "no_columns": found.no_columns,
        }

    def _tell_others(self, spark: SparkSession) -> None:
        """Later clients read there what the first one asked the server's Python for: that takes seconds."""
        if not self._has_told:
            self._has_told = True
            threading.Thread(target=self._tell, args=(spark,), daemon=True).start()

    def _tell(self, spark: SparkSession) -> None:
        """Beside the client's first statements, which do not wait for it, but will need pylance."""
        import_module("lance")
        said, jar = told()
        table = pa.table({"told": [said], "jar": pa.array([jar], pa.binary())})
        view = f"{messages.TOLD}{digest()}".partition(".")[2]
        self._server.publish(spark, table, view, (messages.READY, digest()))

    def _merge(self, spark: SparkSession, key: str, command: str) -> dict[str, Any]:
        room = session.current(spark)
        plan = self._server.merge(key, spark, messages.unpacked(command))
        found, statement = (None, None) if room is None else hooks.merged(room, plan)
        return {"done": True} if found is not None else _left(statement)

    def _save(self, spark: SparkSession, key: str, relation: str, to: dict[str, Any], options: dict[str, str]) -> None:
        writer = self._server.frame(key, spark, messages.unpacked(relation)).write.format(to["format"])
        writer.options(**options).mode(to["mode"]).partitionBy(to["partitions"]).save(to["path"])

    def _check(
        self,
        spark: SparkSession,
        text: str | None = None,
        table: str | None = None,
        format: str | None = None,
        stream: str | None = None,
        options: list[str] | None = None,
    ) -> None:
        room = session.current(spark)
        if room is None:
            return
        if text is not None:
            hooks.check_statement(room, text)
        if table is not None:
            hooks.check_save(room, table, format or str(spark.conf.get("spark.sql.sources.default")))
        if stream is not None:
            hooks.check_stream(room, stream, options or [])

    def _serve(self, spark: SparkSession, made: Any, build: str, version: str, **given: Any) -> None:
        self.let_go()
        if build != digest():
            raise Refused(
                f"The jar is of another build of lance_spark ({version}) than the one in {sys.executable} "
                f"({import_module('lance_spark').__version__}).",
                hint="Write it again with that Python: lance-catalog jar --spark-home ... OUT.jar.",
            )
        room = self._room(spark)
        made.add(served.serve(room, **given).java())

    def _understands(self, spark: SparkSession, text: str, **_build: str) -> bool:
        return served.understands(self._room(spark), text)

    def _room(self, spark: SparkSession) -> session.Room:
        """The session's connection to the JVM, as ``register`` makes it. Raises Refused."""
        if session.current(spark) is None:
            datasource.register(spark, OWN_NAME)
            if session.enter(spark) is None:
                raise Refused(f"Catalogs cannot be had here: {session.describe(spark).reason}")
            hooks.install(spark, OWN_NAME)
        room = session.current(spark)
        assert room is not None
        return room

    def _unregister(self, _spark: SparkSession) -> None:
        """What follows it ends the session here."""

    def _statement(self, spark: SparkSession, text: str, args: str) -> dict[str, Any]:
        room = session.current(spark)
        found, statement = (None, None) if room is None else hooks.own_result(room, text, messages.unpacked(args))
        if found is None:
            return _left(statement)
        return {"rows": messages.packed_rows(found.toArrow()), "schema": found.schema.json()}

    def _load(self, spark: SparkSession, options: dict[str, str], schema: str | None) -> int | None:
        room = session.current(spark)
        if room is None:
            return None
        if messages.LOADED not in room.catalogs:
            room.put_catalog(LoadedCatalog(room.bridge, messages.LOADED))
        loaded = room.catalogs[messages.LOADED]
        assert isinstance(loaded, LoadedCatalog)
        options = hooks.in_session_time(room.bridge, options)
        read = pin_read(options)
        wanted = None if schema is None else _schema(schema)
        return loaded.add(Source(read, wanted, is_newest(options, read.options.ref)))


def _left(statement: RowStatement | None) -> dict[str, Any]:
    """The answer for what Spark executes or reports, with the view whose rows it would change."""
    return {"view": None if statement is None else statement.view}


def _schema(text: str) -> StructType:
    """A schema as the client gave it: in JSON or in SQL."""
    return parsed_schema(text if text.startswith("{") else StructType.fromDDL(text).json())


def main() -> None:
    """Serve until the server is gone."""
    helper = Helper(Server())
    helper.restore()
    helper._server.serve(helper.handle)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    threading.Thread(target=_look_after, args=(helper,), daemon=True).start()
    sys.stdin.buffer.read()
    os._exit(0)  # threads of py4j wait for a server that is gone


def _look_after(helper: Helper) -> None:
    while True:
        threading.Event().wait(_PAUSE)
        helper.let_go()
        close_ended()


if __name__ == "__main__":
    main()
