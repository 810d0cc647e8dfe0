"""What a client and the process beside the server say to each other, as text."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from lance_spark import errors
from lance_spark.errors import LanceSparkError

CATALOG = "lance_spark_server"
"""The catalog that stands for the process; ``Helper.java`` is its class."""
TOLD = "global_temp.lance_spark_server_"
"""With the build's digest, the view that tells later clients of a server what the first one has learned."""
READY = "spark.lance.server"
"""A setting of sessions that are newer than that view: the build's digest. To look for a view in vain takes seconds."""
LOADED = "lance_spark_loaded"
"""The catalog of what ``load`` read: its tables are numbers."""
SETTING = "spark.lance.secret."
"""Settings that hold a request until it is taken. Spark hides the values of settings with such names."""

REGISTER, UNREGISTER, STATEMENT, LOAD = "register", "unregister", "statement", "load"
MERGE, SAVE, CHECK = "merge", "save", "check"
SERVE, UNDERSTANDS = "serve", "understands"
"""What the classes of a jar on ``spark.jars`` ask."""
OWN = "jvm:"
"""Begins the keys of sessions that belong to no client of Spark Connect, but to the JVM itself."""


def request(verb: str, session: str, **given: Any) -> str:
    """A request: a verb, the id of the client's session, and what the verb needs, as values that JSON has."""
    return json.dumps({"verb": verb, "session": session, "given": given})


def opened_request(text: str) -> tuple[str, str, dict[str, Any]]:
    found = json.loads(text)
    return found["verb"], found["session"], found["given"]


def answered(value: Any) -> str:
    return json.dumps({"value": value})


def refused(error: LanceSparkError) -> str:
    """An answer that is one of this package's errors."""
    return json.dumps({"error": type(error).__name__, "message": error.message, "hint": error.hint})


@dataclass(frozen=True)
class Failure:
    text: str
    kind: str = ""
    """The name of PySpark's class."""
    condition: str | None = None
    """Spark's name for the error."""


def failed(failure: Failure) -> str:
    """An answer that is another error."""
    return json.dumps({"failed": asdict(failure)})


def opened_answer(text: str) -> tuple[Any, LanceSparkError | Failure | None]:
    found: Mapping[str, Any] = json.loads(text)
    if "failed" in found:
        return None, Failure(**found["failed"])
    if "error" not in found:
        return found["value"], None
    kind = getattr(errors, found["error"], None)
    if not (isinstance(kind, type) and issubclass(kind, LanceSparkError)):
        return None, Failure(found["message"])  # of another version of this package
    return None, kind(found["message"], found["hint"])


def packed(value: Any) -> str:
    """A Python value, such as a parameter of a statement, as text. The server's users can run any Python there."""
    return base64.b64encode(pickle.dumps(value, 4)).decode()


def unpacked(text: str) -> Any:
    return pickle.loads(base64.b64decode(text))


def packed_rows(table: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


def unpacked_rows(text: str) -> pa.Table:
    """In one batch: of several in a table from a client, the server of Spark 4.0 takes the first one only."""
    with pa.ipc.open_stream(base64.b64decode(text)) as reader:
        return reader.read_all().combine_chunks()
