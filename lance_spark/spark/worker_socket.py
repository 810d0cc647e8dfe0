"""The socket between Spark's JVM and the Python worker that runs a task.

Spark leaves Nagle's algorithm on and sends a task in several small pieces: each waits until the other side has
acknowledged the one before, which Linux puts off for 40 ms: a quarter of the time of a query over 150,000 rows.
"""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress

_QUICKACK: int | None = getattr(socket, "TCP_QUICKACK", None)
_OPEN_FILES = "/proc/self/fd"


def send_at_once() -> None:
    """Acknowledge what has come, and send from now on without delay. On executors, from within a task.

    To be called before the first batch is asked for, and at the end: Linux falls back to its delay by itself. Does
    nothing on other systems, where Spark talks through Unix sockets, and in a process that Spark did not start.
    """
    if _QUICKACK is None or "PYTHON_WORKER_FACTORY_SECRET" not in os.environ:
        return
    for name in os.listdir(_OPEN_FILES):
        with suppress(OSError):  # the directory itself was open while it was listed
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                _hurry(int(name), _QUICKACK)


def _hurry(descriptor: int, quickack: int) -> None:
    """A connection within this machine acknowledges at once. Those to a store have their own ways."""
    with socket.socket(fileno=os.dup(descriptor)) as channel:
        if channel.type != socket.SOCK_STREAM or channel.family not in (socket.AF_INET, socket.AF_INET6):
            return
        if channel.getpeername()[0] in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
            channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            channel.setsockopt(socket.IPPROTO_TCP, quickack, 1)
