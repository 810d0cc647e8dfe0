"""Versions are numbers that one writer gets: the store that tests use must not give one to two."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import boto3
import pytest
from moto.s3.models import S3Backend
from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer
from support.moto_store import CHANGED, make_atomic

pytestmark = pytest.mark.s3

WRITERS = 8


@pytest.fixture
def slow_store(monkeypatch):
    """A store in this process, in which a look takes so long that all writers look before the first one stores."""
    look = S3Backend.get_object

    def slow(*given, **named):
        found = look(*given, **named)
        time.sleep(0.1)
        return found

    monkeypatch.setattr(S3Backend, "get_object", slow)
    for name in CHANGED:
        monkeypatch.setattr(S3Response, name, getattr(S3Response, name))  # as it was, in the end
    server = ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield boto3.client(
        "s3",
        endpoint_url=f"http://{host}:{port}",
        region_name="us-east-1",
        aws_access_key_id="witness",
        aws_secret_access_key="witness",
    )
    server.stop()


def created(client, key):
    def create(number):
        with suppress(client.exceptions.ClientError):
            client.put_object(Bucket="atomic", Key=key, Body=str(number).encode(), IfNoneMatch="*")
            return str(number)
        return None

    with ThreadPoolExecutor(WRITERS) as pool:
        return [*filter(None, pool.map(create, range(WRITERS)))]


def test_of_several_that_create_a_key_one_does(slow_store):
    slow_store.create_bucket(Bucket="atomic")
    assert len(created(slow_store, "moto's own")) > 1
    make_atomic()
    (number,) = created(slow_store, "ours")
    assert slow_store.get_object(Bucket="atomic", Key="ours")["Body"].read().decode() == number
