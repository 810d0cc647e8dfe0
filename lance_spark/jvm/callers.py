"""Connections by which Java's threads call Python: closed when the thread has ended.

py4j opens one for each thread of Java that calls Python, with a thread of Python that serves it, and closes none. Each
statement of a client of Spark Connect and of JDBC runs in threads of its own: a server would be out of files some day.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from py4j.clientserver import ClientServer
from py4j.protocol import Py4JError

_FEW = 32
"""Connections of ended threads that may stay open."""


@dataclass(frozen=True)
class _Caller:
    """Java's objects: py4j's client, a thread that called, and its connection."""

    client: Any
    thread: Any
    connection: Any

    def has_ended(self) -> bool:
        return not self.thread.isAlive()

    def close(self) -> None:
        """The two sides of the connection, and the thread of Python with them."""
        self.connection.shutdown()
        self.client.connectionStopped(self.connection)  # which takes it out of the client's list


class _Callers:
    def __init__(self) -> None:
        self._known: list[_Caller] = []
        self._limit = _FEW
        self._lock = threading.Lock()

    def add(self, caller: _Caller) -> bool:
        """Whether it is time to look for those that have ended."""
        with self._lock:
            self._known.append(caller)
            return len(self._known) >= self._limit

    def close_ended(self) -> None:
        """Raises Py4JError if the JVM does not answer: then it closes them itself."""
        with self._lock:
            known, self._known, self._limit = self._known, [], self._limit + _FEW
        living = []
        for each in known:
            if each.has_ended():
                each.close()
            else:
                living.append(each)
        with self._lock:
            self._known += living
            self._limit = 2 * len(self._known) + _FEW


_callers = _Callers()
_here = threading.local()


def note_caller(gateway: Any) -> None:
    """Called in each callback: the first one of a thread of Java notes its connection."""
    if getattr(_here, "is_noted", False):
        return
    _here.is_noted = True
    if not isinstance(gateway, ClientServer):  # PYSPARK_PIN_THREAD=false, where threads share connections
        return
    own = gateway._gateway_client.get_thread_connection()
    if own is None or own.initiated_from_client:  # by a thread of Python, with which it ends
        return
    with suppress(Py4JError):  # a JVM at its end
        client = gateway.java_gateway_server.getCallbackClient()
        thread = gateway.jvm.java.lang.Thread.currentThread()
        if _callers.add(_Caller(client, thread, client.getPerThreadConnection())):
            _callers.close_ended()


def close_ended() -> None:
    """Close the connections of all threads that have ended."""
    with suppress(Py4JError):
        _callers.close_ended()
