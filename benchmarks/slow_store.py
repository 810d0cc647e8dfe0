"""A proxy that makes an object store slow: it waits before it passes a request on, and counts them by type.

``python -m benchmarks.slow_store STORE DELAY MODIFIED``: every object seems to be modified then (seconds since 1970).
Prints its port.
"""

from __future__ import annotations

import http.client
import json
import re
import sys
import threading
import time
from collections import Counter
from datetime import datetime, timezone
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

COUNTS = "/-/counts"
"""No bucket's name is that short. Answers with the requests since the last time, by type, as JSON."""
_HOP_BY_HOP = ("connection", "expect", "host", "transfer-encoding", "content-length")
_LAST_MODIFIED = re.compile(rb"<LastModified>[^<]*</LastModified>")


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


class _Handler(BaseHTTPRequestHandler):
    server: SlowStore
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self._store = http.client.HTTPConnection(self.server.store, timeout=60)

    def finish(self) -> None:
        self._store.close()
        super().finish()

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == COUNTS:
            with self.server.counting:
                counts, self.server.counts = self.server.counts, Counter()
            return self._reply(200, {}, json.dumps(counts).encode())
        with self.server.counting:
            self.server.counts[_type(self.command, self.path)] += 1
        time.sleep(self.server.delay)
        headers = {key: value for key, value in self.headers.items() if key.lower() not in _HOP_BY_HOP}
        self._store.request(self.command, self.path, body=body or None, headers=headers)
        answer = self._store.getresponse()
        return self._reply(answer.status, *self._aged(dict(answer.getheaders()), answer.read()))

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - http.server's names

    def _aged(self, headers: dict[str, str], content: bytes) -> tuple[dict[str, str], bytes]:
        if "Last-Modified" in headers:
            headers["Last-Modified"] = format_datetime(self.server.modified, usegmt=True)
        if content.startswith(b"<?xml"):
            told = self.server.modified.strftime("%Y-%m-%dT%H:%M:%S.000Z").encode()
            content = _LAST_MODIFIED.sub(b"<LastModified>%s</LastModified>" % told, content)
        return headers, content

    def _reply(self, status: int, headers: dict[str, str], content: bytes) -> None:
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(content))
        self.send_response_only(status)
        for key, value in headers.items():
            if key.lower() not in _HOP_BY_HOP:
                self.send_header(key, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


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
