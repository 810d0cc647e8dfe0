"""A proxy that makes an object store slow: it waits before it passes a request on, and counts them by type.

``python -m benchmarks.slow_store STORE DELAY MODIFIED``: every object seems to be modified then (seconds since 1970).
Prints its port.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from datetime import datetime, timezone
from http.server import ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from benchmarks.forwarding import ForwardingHandler, with_times

COUNTS = "/-/counts"
"""No bucket's name is that short. Answers with the requests since the last time, by type, as JSON."""


class SlowStore(ThreadingHTTPServer):
    """One thread for each connection, so that waiting overlaps."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, store: str, delay: float, modified: datetime) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.store, self.delay = urlsplit(store).netloc, delay
        self.modified = modified
        self.counts: Counter[str] = Counter()
        self.counting = threading.Lock()


class _Handler(ForwardingHandler):
    server: SlowStore

    def address(self) -> str:
        return self.server.store

    def answer(self, body: bytes) -> None:
        if self.path == COUNTS:
            with self.server.counting:
                counts, self.server.counts = self.server.counts, Counter()
            return self.reply(200, {}, json.dumps(counts).encode())
        with self.server.counting:
            self.server.counts[_type(self.command, self.path)] += 1
        time.sleep(self.server.delay)
        status, headers, content = self.ask(self.path, body)
        return self.reply(status, *with_times(headers, content, lambda _: self.server.modified))


def _type(method: str, path: str) -> str:
    parts = urlsplit(path)
    key = parts.path.lstrip("/").partition("/")[2]
    if method == "GET" and not key:
        return "LIST"
    if method == "POST" and "delete" in parse_qs(parts.query, keep_blank_values=True):
        return "POST delete"
    return method


def main() -> None:
    store, delay, modified = sys.argv[1:]
    server = SlowStore(store, float(delay), datetime.fromtimestamp(float(modified), timezone.utc))
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
