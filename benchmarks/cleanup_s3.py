"""An object store on loopback, behind a proxy that makes it slow; both in processes of their own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import boto3

from benchmarks.memory_store import COMMITS, LOAD
from benchmarks.slow_store import COUNTS

DELAY = 0.03
"""Seconds added to each request."""
_BUCKET = "bench"
_THREADS = 8


@dataclass(frozen=True)
class Store:
    """The store itself and the slow way to it."""

    direct: str
    slow: str
    _numbers: Iterator[int] = field(default_factory=count)

    @contextmanager
    def copy(self, pristine: Path) -> Iterator[str]:
        """The URI of a fresh copy of a dataset; uploaded directly, and not counted."""
        prefix = f"{next(self._numbers)}/table.lance"
        client = self._client()
        paths = [path for path in pristine.rglob("*") if path.is_file()]
        with ThreadPoolExecutor(_THREADS) as pool:
            for done in [
                pool.submit(client.upload_file, str(path), _BUCKET, f"{prefix}/{path.relative_to(pristine).as_posix()}")
                for path in paths
            ]:
                done.result()
        self.requests()
        yield f"s3://{_BUCKET}/{prefix}"

    def files(self, uri: str) -> int:
        """How many objects a dataset has."""
        prefix = uri.removeprefix(f"s3://{_BUCKET}/")
        pages = self._client().get_paginator("list_objects_v2").paginate(Bucket=_BUCKET, Prefix=f"{prefix}/")
        return sum(page["KeyCount"] for page in pages)

    def requests(self) -> dict[str, int]:
        """Requests through the proxy since the last time, by type."""
        with urllib.request.urlopen(self.slow + COUNTS) as answer:
            counts: dict[str, int] = json.load(answer)
        return dict(sorted(counts.items()))

    def _client(self) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=self.direct,
            region_name="us-east-1",
            aws_access_key_id="bench",
            aws_secret_access_key="bench",
        )


def storage_options(endpoint: str) -> dict[str, str]:
    return {
        "aws_access_key_id": "bench",
        "aws_secret_access_key": "bench",
        "aws_region": "us-east-1",
        "aws_endpoint": endpoint,
        "allow_http": "true",
    }


@contextmanager
def slow_store(modified: float, delay: float = DELAY) -> Iterator[Store]:
    """A running store, ``delay`` seconds away, whose objects all seem to be modified at one time (since 1970)."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    direct = f"http://127.0.0.1:{port}"
    with (
        _process("moto.server", "-H", "127.0.0.1", "-p", port),
        _process("benchmarks.slow_store", direct, str(delay), str(modified)) as proxy,
    ):
        assert proxy.stdout is not None
        store = Store(direct, f"http://127.0.0.1:{int(proxy.stdout.readline())}")
        _wait_for(f"{direct}/moto-api/")
        store._client().create_bucket(Bucket=_BUCKET)
        yield store


@dataclass(frozen=True)
class MemoryStore:
    """An object store in memory, empty at first; ``slow`` is the way to it that waits and counts."""

    slow: str
    direct: str

    def load(self, directory: str, prefixes: Sequence[str]) -> None:
        """Copy the files of a local directory below each of the prefixes of the bucket."""
        body = json.dumps({"directory": directory, "prefixes": prefixes}).encode()
        urllib.request.urlopen(urllib.request.Request(self.direct + LOAD, body, method="POST")).close()

    def requests(self) -> dict[str, int]:
        """Requests on the slow way since the last time, by type."""
        return dict(sorted(self._asked(COUNTS).items()))

    def commits(self) -> list[tuple[float, str]]:
        """Manifests that were written since the last time: when (in seconds), and their keys."""
        return [(moment, key) for moment, key in self._asked(COMMITS)]

    def _asked(self, path: str) -> Any:
        with urllib.request.urlopen(self.direct + path) as answer:
            return json.load(answer)


@contextmanager
def memory_store(delay: float = DELAY) -> Iterator[MemoryStore]:
    """A running store, ``delay`` seconds away, which keeps up with thousands of requests a second."""
    with _process("benchmarks.memory_store", str(delay)) as store:
        assert store.stdout is not None
        yield MemoryStore(*(f"http://127.0.0.1:{port}" for port in store.stdout.readline().split()))


@contextmanager
def _process(module: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "AWS_EC2_METADATA_DISABLED": "true"}
    command = [sys.executable, "-m", module, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _wait_for(url: str, tries: int = 600) -> None:
    for _ in range(tries):
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"Nothing answers at {url}.")
