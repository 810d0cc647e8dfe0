"""A real object store on loopback: moto's server in a process of its own, with a fresh bucket per test."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from support.faulty_store import FaultyStore
from support.s3_tables import storage_options

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _no_credentials_around(request: pytest.FixtureRequest) -> None:
    """In tests marked ``s3``: what the machine has for the real S3 is neither used nor harmed."""
    if request.node.get_closest_marker("s3") is None:
        return
    monkeypatch, tmp_path = request.getfixturevalue("monkeypatch"), request.getfixturevalue("tmp_path")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))


@pytest.fixture(scope="session")
def closed_port() -> str:
    """An endpoint where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture(scope="session")
def moto() -> Iterator[str]:
    """Endpoint of the running store."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("moto_store.py"), "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "MOTO_S3_DEFAULT_MAX_KEYS": "20"},  # listings have several pages, as large ones do
    )
    endpoint = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{endpoint}/moto-api/", timeout=5).close()
                break
            except OSError:
                assert server.poll() is None, "moto_server ended at its start"
                time.sleep(0.1)
        yield endpoint
    finally:
        server.kill()
        server.wait()


@pytest.fixture(scope="session")
def client(moto: str) -> Any:
    """The store through boto3, as an independent witness."""
    return boto3.client(
        "s3",
        endpoint_url=moto,
        region_name="us-east-1",
        aws_access_key_id="witness",
        aws_secret_access_key="witness",
    )


@pytest.fixture
def bucket(client: Any) -> str:
    name = f"bucket-{next(_numbers)}"
    client.create_bucket(Bucket=name)
    return name


@pytest.fixture
def table(bucket: str) -> str:
    """A URI where a dataset may be made."""
    return f"s3://{bucket}/warehouse/table.lance"


@pytest.fixture
def storage(moto: str) -> dict[str, str]:
    """Storage options that reach the store directly."""
    return storage_options(moto)


@pytest.fixture(scope="session")
def _proxy(moto: str) -> Iterator[FaultyStore]:
    proxy = FaultyStore(moto)
    yield proxy
    proxy.close()


@pytest.fixture
def faulty(_proxy: FaultyStore) -> Iterator[FaultyStore]:
    """The store behind a proxy without any fault yet."""
    _proxy.seen.clear()
    yield _proxy
    _proxy.heal()


@pytest.fixture
def storage_through(faulty: FaultyStore) -> dict[str, str]:
    """Storage options that reach the store through the proxy."""
    return storage_options(faulty.endpoint)


def _forget() -> None:
    """What providers have handed out to this process, and what stores taught it about them."""
    from lance_spark.storage import vended

    vended._known.clear()
    vended._early.clear()


@pytest.fixture
def gate(faulty: FaultyStore) -> Iterator[Any]:
    """A store that takes only keys that are still good, and the providers that hand them out."""
    from support import vending

    vending.GATE.append(vending.Gate(faulty))
    _forget()
    yield vending.GATE[-1]
    vending.GATE.pop()
    _forget()
