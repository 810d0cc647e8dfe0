"""Versions are numbers that one writer gets: the store that tests use must not give one to two."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

pytestmark = pytest.mark.s3

WRITERS = 8


def test_of_several_that_create_a_key_one_does(client, bucket):
    def create(number):
        with suppress(client.exceptions.ClientError):
            client.put_object(Bucket=bucket, Key=key, Body=str(number).encode(), IfNoneMatch="*")
            return str(number)
        return None

    with ThreadPoolExecutor(WRITERS) as pool:
        for key in map(str, range(100)):
            (created,) = filter(None, pool.map(create, range(WRITERS)))
            assert client.get_object(Bucket=bucket, Key=key)["Body"].read().decode() == created
