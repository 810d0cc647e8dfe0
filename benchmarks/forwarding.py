"""What proxies in front of an object store have in common: requests are passed on, and answers passed back."""

from __future__ import annotations

import http.client
import re
from collections.abc import Callable
from datetime import datetime, timezone
from email.utils import format_datetime, parsedate_to_datetime
from http.server import BaseHTTPRequestHandler

_HOP_BY_HOP = ("connection", "expect", "host", "transfer-encoding", "content-length")
"""Headers of one connection only. Lengths are counted again: a proxy may change what it passes on."""
_TIMEOUT = 60
"""Seconds in which the store has to answer."""
_LAST_MODIFIED = re.compile(rb"<LastModified>([^<]*)</LastModified>")


def with_times(
    headers: dict[str, str], content: bytes, told: Callable[[datetime], datetime]
) -> tuple[dict[str, str], bytes]:
    """An answer of the store with other times in place of its own, in headers and listings."""
    changed = {
        key: format_datetime(told(parsedate_to_datetime(value)), usegmt=True)
        for key, value in headers.items()
        if key in ("Date", "Last-Modified")
    }

    def listed(match: re.Match[bytes]) -> bytes:
        time = told(datetime.fromisoformat(match[1].decode()[:19]).replace(tzinfo=timezone.utc))
        return time.strftime("<LastModified>%Y-%m-%dT%H:%M:%S.000Z</LastModified>").encode()

    return {**headers, **changed}, _LAST_MODIFIED.sub(listed, content) if content.startswith(b"<?xml") else content


class ForwardingHandler(BaseHTTPRequestHandler):
    """One connection of a client, with a connection of its own to the store. Tests use it as well."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def address(self) -> str:
        """Host and port of the store."""
        raise NotImplementedError

    def answer(self, body: bytes) -> None:
        """Do something with a request of any kind."""
        raise NotImplementedError

    def ask(self, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Pass the request on, maybe with another path or body: status, headers and content of the answer."""
        headers = {key: value for key, value in self.headers.items() if key.lower() not in _HOP_BY_HOP}
        self._store.request(self.command, path, body=body or None, headers=headers)
        answer = self._store.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()

    def reply(self, status: int, headers: dict[str, str], content: bytes) -> None:
        """Answer the client."""
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(content))
        self.send_response_only(status)
        for key, value in headers.items():
            if key.lower() not in _HOP_BY_HOP:
                self.send_header(key, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def setup(self) -> None:
        """The client has connected."""
        super().setup()
        self._store = http.client.HTTPConnection(self.address(), timeout=_TIMEOUT)

    def finish(self) -> None:
        """The client has gone."""
        self._store.close()
        super().finish()

    def do_GET(self) -> None:
        """A request of any kind has come in."""
        self.answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - http.server's names

    def handle_one_request(self) -> None:
        """A client may leave at any time."""
        try:
            super().handle_one_request()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""
