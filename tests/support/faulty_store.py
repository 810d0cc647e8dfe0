"""The store from hell: a proxy that notes every request, and refuses, loses, delays or distorts what a test chooses."""

from __future__ import annotations

import io
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from email.message import Message
from html import escape, unescape
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from benchmarks.forwarding import ForwardingHandler, with_times

VIRTUAL_HOSTS = ".store.test"
"""``http://bucket.store.test`` means the bucket, for clients that come through HTTP_PROXY."""


@dataclass(frozen=True)
class Request:
    """One request as the store gets it."""

    method: str
    bucket: str
    key: str
    """The key, or the prefix of a listing; percent-decoded."""
    listing: bool
    access_key: str
    """Access key id of the signature; empty for an unsigned request."""
    token: str
    after: str = ""
    """The key after which a listing begins."""
    batched: bool = False
    """Whether it is one key of a request that deletes many."""
    ends_upload: bool = False
    """Whether it gives up an upload in parts, and deletes no object."""

    @property
    def writes(self) -> bool:
        return self.method in ("PUT", "POST", "DELETE")


Rule = Callable[[Request], "str | None"]
"""None passes a request on; ``"403 AccessDenied"`` refuses it; ``"lost"`` passes it on and drops the answer, ``"late
500"`` passes it on and answers that it failed; ``"silent 0.5"`` loses it and answers nothing for so many seconds;
``"slow 0.5"`` lets the answer trickle for so many seconds; ``"torn"`` ends the connection in the middle of the answer.

Of a request that deletes many keys, ``"error SlowDown"`` refuses a single key, inside an answer that succeeds, and
``"unanswered"`` passes a key on and leaves it out of the answer."""


def only_below(*prefixes: str) -> Rule:
    """A rule that lets a client write below these prefixes of the table only; it may read everything."""

    def rule(request: Request) -> str | None:
        name = request.key.partition("/table.lance/")[2]
        return "403 AccessDenied" if request.writes and not name.startswith(prefixes) else None

    return rule


class FaultyStore:
    """The proxy. ``rule`` decides on each request, ``seen`` has all of them."""

    rule: Rule
    clock: timedelta
    """By how much the times that the store tells are off."""

    def __init__(self, store: str) -> None:
        self.seen: list[Request] = []
        self.heal()
        self.address = urlsplit(store).netloc
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": self}))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def heal(self) -> None:
        """No fault any more."""
        self.rule = lambda _: None
        self.clock = timedelta(0)
        self.listed: dict[str, list[dict[str, Any]]] = {}

    def freeze_listings(self, client: Any, bucket: str) -> None:
        """From now on listings of a bucket show what is there at this moment; single objects are read as they are."""
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        self.listed[bucket] = [entry for page in pages for entry in page.get("Contents", [])]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(ForwardingHandler):
    proxy: FaultyStore

    def address(self) -> str:
        return self.proxy.address

    def answer(self, body: bytes) -> None:
        path = _path_style(self.path)
        requests = _parse(self.command, path, self.headers, body)
        self.proxy.seen.extend(requests)
        fates = {request.key: fate for request in requests if (fate := self.proxy.rule(request))}
        alone = {key: fate for key, fate in fates.items() if fate.startswith(("error ", "unanswered"))}
        fate, _, detail = next((fate for key, fate in fates.items() if key not in alone), "pass").partition(" ")
        if fate.isdigit():
            return self.reply(int(fate), {}, _error(detail, requests[0]))
        if fate == "silent":
            time.sleep(float(detail))
            self.close_connection = True
            return None
        status, headers, content = self._ask_but(alone, path, body) if alone else self.ask(path, body)
        if requests[0].listing and status == 200 and requests[0].bucket in self.proxy.listed:
            content = _listing(self.proxy.listed[requests[0].bucket], path)
        if self.proxy.clock:
            headers, content = with_times(headers, content, lambda time: time + self.proxy.clock)
        if fate in ("lost", "torn", "slow"):
            return self._reply_badly(fate, float(detail or 0), (status, headers, content))
        return self.reply(int(detail or status), headers, content)

    def _reply_badly(self, fate: str, seconds: float, answer: tuple[int, dict[str, str], bytes]) -> None:
        """Nothing, half of the answer, or all of it in ten pieces."""
        if fate == "lost":
            self.close_connection = True
            return
        status, headers, content = answer
        whole, self.wfile = self.wfile, io.BytesIO()
        self.reply(status, headers, content)
        told, self.wfile = self.wfile.getvalue(), whole
        if fate == "torn":
            self.wfile.write(told[: len(told) - len(content) // 2 - (not content)])
            self.close_connection = True
            return
        size = -(-len(told) // 10)
        for first in range(0, len(told), size):
            self.wfile.write(told[first : first + size])
            time.sleep(seconds / 10)

    def _ask_but(self, alone: dict[str, str], path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Ask for the deletion of many keys, some of which are refused or not answered."""
        rest = _without(alone, "error ", b"Object", body)
        if b"<Object>" not in rest:
            return 200, {}, b"<DeleteResult>%s</DeleteResult>" % _errors(alone)
        status, headers, content = self.ask(path, rest)
        content = _without(alone, "unanswered", b"Deleted", content)
        return status, headers, content.replace(b"</DeleteResult>", _errors(alone) + b"</DeleteResult>")


def _path_style(path: str) -> str:
    if not path.startswith("http://"):
        return path
    parts = urlsplit(path)
    bucket = str(parts.hostname).removesuffix(VIRTUAL_HOSTS)
    return f"/{bucket}{parts.path.rstrip('/')}?{parts.query}".rstrip("?")


def _listing(entries: list[dict[str, Any]], path: str) -> bytes:
    """A page of the listing that a request asks for, of these objects."""
    query = {key: values[0] for key, values in parse_qs(urlsplit(path).query, keep_blank_values=True).items()}
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    after = query.get("continuation-token") or query.get("start-after", "")
    shown: dict[str, str] = {}
    for entry in entries:
        key = entry["Key"]
        end = key.find(delimiter, len(prefix)) if delimiter else -1
        name = key if end < 0 else key[: end + len(delimiter)]
        if not key.startswith(prefix) or name <= after:
            continue
        modified = entry["LastModified"].strftime("%Y-%m-%dT%H:%M:%S.000Z")
        shown[name] = (
            f"<Contents><Key>{escape(key)}</Key><LastModified>{modified}</LastModified><ETag>{escape(entry['ETag'])}"
            f"</ETag><Size>{entry['Size']}</Size><StorageClass>STANDARD</StorageClass></Contents>"
            if end < 0
            else f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
        )
    page = sorted(shown)[: int(query.get("max-keys", 1000))]
    more = len(page) < len(shown)
    token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
    told = "".join(shown[name] for name in page)
    return (
        f"<?xml version='1.0'?>\n<ListBucketResult><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(page)}</KeyCount>"
        f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{told}</ListBucketResult>"
    ).encode()


def _error(code: str, request: Request) -> bytes:
    """As S3 words it; its answers repeat the caller's access key id and session token."""
    seen = f"<AWSAccessKeyId>{request.access_key}</AWSAccessKeyId><Token-0>{request.token}</Token-0>"
    return f"<?xml version='1.0'?>\n<Error><Code>{code}</Code><Message>Told so.</Message>{seen}</Error>".encode()


def _without(alone: dict[str, str], kind: str, element: bytes, document: bytes) -> bytes:
    """The document without the elements of those keys that have such a fate."""

    def kept(match: re.Match[bytes]) -> bytes:
        return b"" if alone.get(unescape(match[1].decode()), "").startswith(kind) else match[0]

    return re.sub(b"<%s>(?:(?!<Key>).)*<Key>(.*?)</Key>.*?</%s>" % (element, element), kept, document, flags=re.S)


def _errors(alone: dict[str, str]) -> bytes:
    return "".join(
        f"<Error><Key>{escape(key)}</Key><Code>{fate.removeprefix('error ')}</Code><Message>Told so.</Message></Error>"
        for key, fate in alone.items()
        if fate.startswith("error ")
    ).encode()


def _parse(method: str, path: str, headers: Message, body: bytes) -> list[Request]:
    """The request; one DELETE per key for a request that deletes many."""
    parts = urlsplit(path)
    query = parse_qs(parts.query, keep_blank_values=True)
    bucket, _, key = parts.path.lstrip("/").partition("/")
    request = Request(
        method=method,
        bucket=bucket,
        key=unquote(key) or query.get("prefix", [""])[0],
        listing=not key and method == "GET",
        access_key=headers.get("Authorization", "").partition("Credential=")[2].partition("/")[0],
        token=headers.get("x-amz-security-token", ""),
        after=query.get("start-after", [""])[0],
        ends_upload=method == "DELETE" and "uploadId" in query,
    )
    if "delete" not in query:
        return [request]
    return [
        replace(request, method="DELETE", key=unescape(key.decode()), batched=True)
        for key in re.findall(b"<Key>(.*?)</Key>", body)
    ]
