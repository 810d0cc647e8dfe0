"""An object store in memory, as far as ours and pylance ask it, which answers each request after a while.

``python -m benchmarks.memory_store DELAY`` prints two ports: one that waits ``DELAY`` seconds before it answers and
counts, and one that does neither, to get data ready. It stands in where moto, at some hundred requests a second, would
measure itself. Authorization is not looked at.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import time
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from email.utils import format_datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from aiohttp import web

from benchmarks.slow_store import COUNTS

COMMITS, LOAD = "/-/commits", "/-/load"
"""What a benchmark asks the store itself; no bucket's name is that short."""
_PAGE = 1_000
_MANIFEST = "/_versions/"


class _Object(NamedTuple):
    body: bytes
    etag: str
    modified: datetime


class _Bucket:
    """Objects by key, and the keys in order."""

    def __init__(self) -> None:
        self.objects: dict[str, _Object] = {}
        self.keys: list[str] = []
        self.uploads: dict[str, dict[int, bytes]] = {}

    def put(self, key: str, body: bytes) -> str:
        if key not in self.objects:
            insort(self.keys, key)
        etag = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
        self.objects[key] = _Object(body, etag, datetime.now(timezone.utc))
        return etag

    def drop(self, key: str) -> None:
        if self.objects.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]

    def listed(self, prefix: str, delimiter: str, after: str) -> Iterator[tuple[str, bool]]:
        """Keys and common prefixes behind ``after``, in order, and whether each is a prefix."""
        at = bisect_left(self.keys, max(prefix, after))
        while at < len(self.keys) and self.keys[at].startswith(prefix):
            key = self.keys[at]
            head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            common = f"{prefix}{head}{found}"
            if found:
                at = bisect_left(self.keys, common[:-1] + chr(ord(common[-1]) + 1))
            else:
                at += 1
            if (common if found else key) > after:
                yield (common, True) if found else (key, False)


class MemoryStore:
    """The two servers."""

    def __init__(self, delay: float) -> None:
        self.delay = delay
        self.bucket = _Bucket()
        self.counts: Counter[str] = Counter()
        self.commits: list[tuple[float, str]] = []

    def application(self, slow: bool) -> web.Application:
        async def answer(request: web.Request) -> web.StreamResponse:
            if request.path.startswith("/-/"):
                return await self._asked(request)
            body = await request.read()
            if slow:
                self.counts[_kind(request)] += 1
                await asyncio.sleep(self.delay)
            return self._answer(request, body)

        application = web.Application(client_max_size=2**30)
        application.router.add_route("*", "/{path:.*}", answer)
        return application

    async def _asked(self, request: web.Request) -> web.Response:
        if request.path == COUNTS:
            counts, self.counts = self.counts, Counter()
            return web.json_response(counts)
        if request.path == COMMITS:
            commits, self.commits = self.commits, []
            return web.json_response(commits)
        wanted = await request.json()
        files = {path.relative_to(wanted["directory"]).as_posix(): path.read_bytes() for path in _files(wanted)}
        for prefix in wanted["prefixes"]:
            for name, body in files.items():
                self.bucket.put(f"{prefix}/{name}", body)
        return web.json_response(len(files))

    def _answer(self, request: web.Request, body: bytes) -> web.Response:
        key = unquote(request.raw_path.partition("?")[0]).lstrip("/").partition("/")[2]
        query = request.query
        if request.method in ("GET", "HEAD") and not key:
            return self._list(query)
        if request.method in ("GET", "HEAD"):
            return self._read(request, key)
        if request.method == "PUT":
            return self._write(request, key, body)
        if request.method == "DELETE":
            self.bucket.drop(key)
            return web.Response(status=204)
        if "delete" in query:
            gone = [each.text or "" for each in ElementTree.fromstring(body).iter() if each.tag.endswith("Key")]
            for each in gone:
                self.bucket.drop(each)
            told = "".join(f"<Deleted><Key>{escape(each)}</Key></Deleted>" for each in gone)
            return _xml(f"<DeleteResult>{told}</DeleteResult>")
        if "uploads" in query:
            name = f"u{len(self.bucket.uploads)}"
            self.bucket.uploads[name] = {}
            return _xml(f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>")
        parts = self.bucket.uploads.pop(query["uploadId"])
        etag = self._put(key, b"".join(parts[number] for number in sorted(parts)))
        return _xml(f"<CompleteMultipartUploadResult><ETag>{escape(etag)}</ETag></CompleteMultipartUploadResult>")

    def _put(self, key: str, body: bytes) -> str:
        if _MANIFEST in key:
            self.commits.append((time.time(), key))
        return self.bucket.put(key, body)

    def _list(self, query: Any) -> web.Response:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        found: list[tuple[str, bool]] = []
        more = False
        for each in self.bucket.listed(prefix, delimiter, after):
            if len(found) == int(query.get("max-keys", _PAGE)):
                more = True
                break
            found.append(each)
        lines = [f"<IsTruncated>{str(more).lower()}</IsTruncated><KeyCount>{len(found)}</KeyCount>"]
        lines += [f"<NextContinuationToken>{escape(found[-1][0])}</NextContinuationToken>"] if more else []
        for name, common in found:
            if common:
                lines.append(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>")
                continue
            kept = self.bucket.objects[name]
            moment = kept.modified.strftime("%Y-%m-%dT%H:%M:%S.000Z")
            lines.append(
                f"<Contents><Key>{escape(name)}</Key><LastModified>{moment}</LastModified><ETag>{escape(kept.etag)}"
                f"</ETag><Size>{len(kept.body)}</Size></Contents>"
            )
        return _xml(f"<ListBucketResult><Prefix>{escape(prefix)}</Prefix>{''.join(lines)}</ListBucketResult>")

    def _read(self, request: web.Request, key: str) -> web.Response:
        kept = self.bucket.objects.get(key)
        if kept is None:
            return _xml("<Error><Code>NoSuchKey</Code></Error>", 404)
        headers = {"ETag": kept.etag, "Last-Modified": format_datetime(kept.modified, usegmt=True)}
        if request.method == "HEAD":
            return web.Response(headers={**headers, "Content-Length": str(len(kept.body))})
        wanted, whole = request.http_range, len(kept.body)
        if wanted.start is None and wanted.stop is None:
            return web.Response(body=kept.body, headers=headers)
        begin, end, _ = wanted.indices(whole)
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{whole}"
        return web.Response(status=206, body=kept.body[begin:end], headers=headers)

    def _write(self, request: web.Request, key: str, body: bytes) -> web.Response:
        if not key:
            return web.Response()
        if request.headers.get("If-None-Match") == "*" and key in self.bucket.objects:
            return _xml("<Error><Code>PreconditionFailed</Code></Error>", 412)
        expected = request.headers.get("If-Match")
        if expected is not None and (key not in self.bucket.objects or self.bucket.objects[key].etag != expected):
            return _xml("<Error><Code>PreconditionFailed</Code></Error>", 412)
        copied = request.headers.get("x-amz-copy-source")
        if copied is not None:
            body = self.bucket.objects[unquote(copied).lstrip("/").partition("/")[2]].body
        elif "aws-chunked" in request.headers.get("Content-Encoding", ""):
            body = b"".join(_chunks(body))
        if "partNumber" in request.query:
            self.bucket.uploads[request.query["uploadId"]][int(request.query["partNumber"])] = body
            return web.Response(headers={"ETag": f'"{request.query["partNumber"]}"'})
        etag = self._put(key, body)
        if copied is not None:
            return _xml(f"<CopyObjectResult><ETag>{escape(etag)}</ETag></CopyObjectResult>")
        return web.Response(headers={"ETag": etag})


def _chunks(body: bytes) -> Iterator[bytes]:
    """The content of a body in AWS's chunks, each with its length in front."""
    while body:
        head, _, body = body.partition(b"\r\n")
        size = int(head.partition(b";")[0], 16)
        if not size:
            return
        yield body[:size]
        body = body[size + 2 :]


def _files(wanted: dict[str, Any]) -> list[Path]:
    return [path for path in Path(wanted["directory"]).rglob("*") if path.is_file()]


def _kind(request: web.Request) -> str:
    if request.method == "GET" and "list-type" in request.query:
        return "LIST"
    return "POST delete" if request.method == "POST" and "delete" in request.query else request.method


def _xml(text: str, status: int = 200) -> web.Response:
    return web.Response(status=status, text=f'<?xml version="1.0"?>{text}', content_type="application/xml")


async def _serve(delay: float) -> None:
    store = MemoryStore(delay)
    ports = []
    for slow in (True, False):
        runner = web.AppRunner(store.application(slow), access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        ports.append(runner.addresses[0][1])
    print(*ports, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1])))
