"""Spark's Python workers: readable errors, a socket without delays, and imports without delays."""

from __future__ import annotations

import os
import re
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from zipimport import zipimporter

from lance_spark import errors
from lance_spark.engine.local import of_executor
from lance_spark.errors import LanceSparkError
from lance_spark.hints import Language, said


@contextmanager
def plainly(language: Language = "python", may_stay: bool = False) -> Iterator[None]:
    """In code that Spark's workers run: show one of this package's errors as its message and hint, in a language.

    These replace the traceback. Neither the input nor the answers of the worker are delayed. An error of the store that
    a task met says what executors need: otherwise it looks as if the driver's own settings were wrong. ``may_stay``:
    whether the verb can run on the driver instead.

    Spark's worker prints the traceback of any exception of a data source unless SPARK_HIDE_TRACEBACK is set. The worker
    process ends right after it reported an exception, so setting the variable here hides nothing else. Other errors
    keep their traceback.
    """
    send_at_once()
    if _WORKER in os.environ:
        keep_archives()
    try:
        yield
        send_at_once()
    except LanceSparkError as failure:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        error = of_executor(failure, may_stay) if _is_in_task() else failure
        if language != "python" and error.hint:
            raise type(error)(error.message, said(error.hint, language)) from None
        raise error from None


def _is_in_task() -> bool:
    """Whether a task runs here. Commands import this module without PySpark, and a process of a task has it loaded."""
    tasks = sys.modules.get("pyspark.taskcontext")
    return tasks is not None and tasks.TaskContext.get() is not None


_OWN = re.compile(r"lance_spark\.errors\.(\w+): ([^\n]*(?:\n(?:  - | {6})[^\n]*)*)(?:\n  hint: ([^\n]*))?")
"""A message is one line, and a list of what clashes below it."""


def own_error(text: str) -> LanceSparkError | None:
    """The LanceSparkError that a task raised, from Spark's text of it; None for other failures."""
    match = _OWN.search(text)
    kind = getattr(errors, match[1], None) if match else None
    if match is None or not (isinstance(kind, type) and issubclass(kind, LanceSparkError)):
        return None
    error: LanceSparkError = kind(match[2], match[3])
    return error


# --- The socket between Spark's JVM and the Python worker that runs a task
# Spark leaves Nagle's algorithm on and sends a task in several small pieces. Each waits until the other side has
# acknowledged the previous one, which Linux delays by 40 ms: a quarter of the time of a query over 150,000 rows.

_WORKER = "PYTHON_WORKER_FACTORY_SECRET"
"""In the environment of every process that Spark started to run tasks."""
_QUICKACK: int | None = getattr(socket, "TCP_QUICKACK", None)
_OPEN_FILES = "/proc/self/fd"


def send_at_once() -> None:
    """Acknowledge received data, and send without delay from now on. On executors, inside a task.

    Call it before requesting the first batch, and at the end: Linux falls back to its delay by itself. Does nothing on
    other systems, where Spark uses Unix sockets, and in a process that Spark did not start.
    """
    if _QUICKACK is None or _WORKER not in os.environ:
        return
    for name in os.listdir(_OPEN_FILES):
        with suppress(OSError):  # the listing itself had the directory open
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                _hurry(int(name), _QUICKACK)


def _hurry(descriptor: int, quickack: int) -> None:
    """Make a connection within this machine acknowledge at once. Connections to a store keep their settings."""
    with socket.socket(fileno=os.dup(descriptor)) as channel:
        if channel.type != socket.SOCK_STREAM or channel.family not in (socket.AF_INET, socket.AF_INET6):
            return
        if channel.getpeername()[0] in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
            channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            channel.setsockopt(socket.IPPROTO_TCP, quickack, 1)


# --- Modules in zip files, such as PySpark's own, and in the JARs that are on a worker's path
# Spark 4.0 drops the import caches whenever a task begins. Python up to 3.11 then reads the list of every such file at
# once, one time for each package imported from it, later Pythons with the next import: a tenth of a second per task.


def keep_archives() -> None:
    """Keep what is known of the content of these files until they change. For processes that Spark started."""
    for finder in [*sys.path_importer_cache.values()]:
        if isinstance(finder, zipimporter) and _DROP not in vars(finder):
            setattr(finder, _DROP, partial(_drop_if_changed, finder, _stamp(finder.archive)))


_DROP = "invalidate_caches"


def _drop_if_changed(finder: zipimporter, known: tuple[int, ...] | None) -> None:
    if known is None or _stamp(finder.archive) != known:
        delattr(finder, _DROP)
        finder.invalidate_caches()


def _stamp(archive: str) -> tuple[int, ...] | None:
    with suppress(OSError):
        found = os.stat(archive)
        return found.st_ino, found.st_size, found.st_mtime_ns
    return None
