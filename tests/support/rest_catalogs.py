"""A catalog behind the REST protocol, and servers that answer it badly."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "hush-hush-api-key"


@contextmanager
def served(root: str, **properties: str) -> Iterator[dict[str, str]]:
    """pylance's server over a directory; yields the properties to connect with."""
    import lance.namespace

    with lance.namespace.RestAdapter("dir", {"root": root, **properties}, port=0) as adapter:
        yield {"uri": f"http://127.0.0.1:{adapter.port}", "headers.x-api-key": KEY}


Answer = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""


class Server:
    """Answers every request as a test says, and remembers what was asked."""

    def __init__(self, answer: Callable[[str, dict[str, Any]], Answer]) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                outer.asked.append((self.path, {key.lower(): value for key, value in self.headers.items()}))
                status, headers, content = answer(self.path, json.loads(body) if body else {})
                self.send_response(status)
                if "x-drips" in headers:  # a byte at a time: each read of it succeeds
                    self.send_header("content-length", str(len(content)))
                    self.end_headers()
                    for byte in content:
                        self.wfile.write(bytes([byte]))
                        time.sleep(float(headers["x-drips"]))
                    return
                for key, value in {"content-length": str(len(content)), **headers}.items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(content)
                if headers.get("content-length", str(len(content))) != str(len(content)):
                    self.close_connection = True

            do_GET = do_POST  # noqa: N815

            def log_message(self, *_: Any) -> None:
                """Silent."""

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, *_: Any) -> None:
                """A client that does not wait for the end of an answer."""

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.properties = {"uri": f"http://127.0.0.1:{self._server.server_port}", "headers.x-api-key": KEY}

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def said(value: Any, status: int = 200) -> Answer:
    """JSON."""
    return status, {"content-type": "application/json"}, json.dumps(value).encode()


def slowly(seconds: float, answer: Answer) -> Answer:
    """The answer, later."""
    time.sleep(seconds)
    return answer
