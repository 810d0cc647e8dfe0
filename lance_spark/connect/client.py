"""A client's side: sends the class that starts the process beside the server, and asks the process.

The process runs the native way for the client's session: it puts catalogs into it, and executes statements that Spark
does not execute itself. All else goes from the client to the server as ever, and finds the catalogs there.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from pyspark import errors
from pyspark.errors import PySparkException

from lance_spark.connect import messages
from lance_spark.connect.server_function import learned
from lance_spark.engine.errors_spark import as_spark, recovered
from lance_spark.engine.lengths_spark import parsed_json
from lance_spark.errors import LanceSparkError, Refused
from lance_spark.jvm.server.compiling import digest
from lance_spark.jvm.switches import SWITCH, switched_off
from lance_spark.session.capabilities import Capabilities, plain_way

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RAISED = re.compile(r"\w+(Error|Exception): ")
_CALLED = re.compile(r"status = StatusCode\.(\w+)\s+details = \"(.*)\"")
"""What PySpark says of a call that something before the server refused."""
_numbers = itertools.count(1)


@dataclass
class Connection:
    session: ReferenceType[SparkSession]
    state: dict[str, Any]
    """What the session can do, as the process told last."""

    @property
    def spark(self) -> SparkSession:
        """The session. Who uses the connection has it."""
        found = self.session()
        assert found is not None
        return found

    def ask(self, verb: str, **given: Any) -> Any:
        """The answer to a request. Raises the errors that the process raised."""
        spark = self.spark
        setting = f"{messages.SETTING}{next(_numbers)}"
        spark.conf.set(setting, messages.request(verb, _id_of(spark), **given))
        try:
            rows = spark.sql(f"SHOW NAMESPACES IN {messages.CATALOG}.`{setting}`").collect()
        except PySparkException as problem:
            raise recovered(problem) from None
        text = base64.b64decode(str(rows[0][0]).strip("`")).decode()
        value, error = messages.opened_answer(text)
        if isinstance(error, LanceSparkError):
            raise as_spark(error)
        if error is not None:
            raise _of_spark(error)
        return value

    def statement(self, text: str, args: Any) -> tuple[DataFrame | None, str | None]:
        """The result of a statement, None if it is not for the process; and the view whose rows it would change."""
        value = self.ask(messages.STATEMENT, text=text, args=messages.packed(args))
        if "rows" not in value:
            return None, value["view"]
        return self.spark.createDataFrame(messages.unpacked_rows(value["rows"]), parsed_json(value["schema"])), None

    def merge(self, command: bytes) -> tuple[bool, str | None]:
        """Execute a ``mergeInto``; False if it is not for the process, and the view whose rows it would change."""
        value = self.ask(messages.MERGE, command=messages.packed(command))
        return "done" in value, value.get("view")

    def save(self, relation: bytes, to: Mapping[str, Any], options: Mapping[str, str]) -> None:
        """Write what a relation has: ``to`` is format, mode, path and partitions."""
        self.ask(messages.SAVE, relation=messages.packed(relation), to=dict(to), options=dict(options))

    def check(self, **given: Any) -> None:
        """Raise Refused for a statement, or a table and its format, that would make a table that cannot be.

        Raise InvalidOption for a stream of a table whose options name a version.
        """
        self.ask(messages.CHECK, **given)

    def load(self, options: Mapping[str, str], schema: str | None) -> str:
        """The name of a table that has what a load reads."""
        number = self.ask(messages.LOAD, options=dict(options), schema=schema)
        return f"{messages.LOADED}.`{number}`"


_connections: WeakKeyDictionary[SparkSession, Connection] = WeakKeyDictionary()
_refusals: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()
_lock = threading.Lock()


def connect(spark: SparkSession) -> Connection | None:
    """The connection of a session, made by the first call; None if that is impossible: :func:`reason` tells why."""
    with _lock:
        if spark not in _connections:
            try:
                _connections[spark] = _connected(spark)
            except Refused as refusal:
                _refusals[spark] = refusal.message
        return _connections.get(spark)


def current(spark: SparkSession) -> Connection | None:
    return _connections.get(spark)


def of_client(client: Any) -> Connection | None:
    """The connection of the session that has one of PySpark's clients; None if it has none."""
    return next((found for spark, found in [*_connections.items()] if spark.client is client), None)


def disconnect(spark: SparkSession, why: str | None = None) -> None:
    """Take everything out of the session; with a reason for :func:`describe`."""
    found = _connections.pop(spark, None)
    _refusals.pop(spark, None)
    if why is not None:
        _refusals[spark] = why
    if found is not None:
        found.ask(messages.UNREGISTER)


def reason(spark: SparkSession) -> str:
    asked = "the session is one of Spark Connect and has no catalog; call lance_spark.register(spark, catalog=...)."
    return _refusals.get(spark, asked)


def describe(spark: SparkSession) -> Capabilities:
    connection = current(spark)
    if connection is None:
        return plain_way(spark.version, reason(spark))
    state = {**connection.state, "catalogs": tuple(connection.state["catalogs"])}
    return Capabilities(True, spark=spark.version, **state)


def _connected(spark: SparkSession) -> Connection:
    """Raises Refused."""
    off = switched_off(SWITCH)
    if off is not None:
        raise Refused(off)
    try:
        known = _known(spark) or _first(spark)
    except (PySparkException, OSError) as problem:
        raise Refused(f"the server's Python cannot load lance_spark: {_first_line(problem)}") from problem
    said, jar = known
    told = json.loads(said)
    if "refused" in told:
        raise Refused(told["refused"])
    own = import_module("lance_spark").__version__
    if (told["version"], told["digest"]) != (own, digest()):
        raise Refused(f"the server has lance_spark {told['version']}, or another build of it, and the client {own}.")
    try:
        _send(spark, jar)
    except (PySparkException, OSError, ValueError) as problem:
        raise Refused(f"the server takes no artifacts: {_first_line(problem)}") from problem
    prefix = f"spark.sql.catalog.{messages.CATALOG}"
    for key, value in {"": "lance_spark.Helper", ".python": told["python"], ".path": told["path"]}.items():
        spark.conf.set(f"{prefix}{key}", value)
    return Connection(ref(spark), {})


def _known(spark: SparkSession) -> tuple[str, bytes] | None:
    """What an earlier client has learned, so that the server starts no Python to tell it; None without one."""
    if spark.conf.get(messages.READY, "") != digest():
        return None
    try:
        row = spark.table(f"{messages.TOLD}{digest()}").first()
    except PySparkException:
        return None
    return None if row is None else (row["told"], bytes(row["jar"]))


def _first(spark: SparkSession) -> tuple[str, bytes]:
    """What the server has. While it starts the Python that tells it, it runs its first query, which takes it a second.

    Nothing waits for that query: if it fails, the requests that follow say why.
    """
    threading.Thread(target=_run_nothing, args=(spark,)).start()
    return learned(spark)


def _run_nothing(spark: SparkSession) -> None:
    with suppress(PySparkException, ValueError):  # gRPC raises ValueError once the session is stopped
        spark.sql("SELECT 1").collect()


def _send(spark: SparkSession, jar: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, f"lance_spark-{digest()}.jar")
        with open(path, "wb") as file:
            file.write(jar)
        spark.addArtifact(path)


def _of_spark(failure: messages.Failure) -> PySparkException:
    """As the error's users catch it."""
    kind = getattr(errors, failure.kind, PySparkException)
    return kind(failure.text, errorClass=failure.condition, messageParameters={})


def _id_of(spark: Any) -> str:
    return str(spark.session_id if hasattr(spark, "session_id") else spark._session_id)


def _first_line(problem: BaseException) -> str:
    """What an error says; of a traceback from the server, what it ends with."""
    called = _CALLED.search(str(problem))
    if called is not None:
        return ": ".join(called.groups())
    lines = str(problem).strip().splitlines() or [type(problem).__name__]
    raised = [line for line in lines if _RAISED.match(line)]
    return raised[0] if raised else lines[0]
