"""Absent and unreachable on S3: what is not there, where nobody answers, and what the caller forgot."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from support.s3_tables import read, write

from lance_spark.errors import NotFound, StorageFailure
from lance_spark.refs.refs import list_branches
from lance_spark.storage.datasets import locate
from lance_spark.storage.failures import from_pylance

pytestmark = [pytest.mark.s3, pytest.mark.when(newest=0.5)]

ATTEMPTS = {
    "read": lambda uri, storage: read(uri, storage),
    "read branch": lambda uri, storage: read(uri, storage, branch="b"),
    "read tag": lambda uri, storage: read(uri, storage, tag="t"),
    "read version": lambda uri, storage: read(uri, storage, version="1"),
    "write": lambda uri, storage: write(uri, storage, [1]),
    "write branch": lambda uri, storage: write(uri, storage, [1], branch="b"),
    "list branches": lambda uri, storage: list_branches(locate(uri, storage)),
}


def errors(uri, storage, *names):
    """What the attempts raise. All run at once: most of the time goes by in waiting to try again."""
    with ThreadPoolExecutor(len(ATTEMPTS)) as pool:
        tried = [pool.submit(ATTEMPTS[name], uri, storage) for name in names or ATTEMPTS]
    return [future.exception() for future in tried]


def test_a_missing_bucket_is_not_found(storage):
    for error in errors("s3://no-such-bucket/table.lance", storage):
        assert type(error) is NotFound
        assert "bucket" in str(error)


def test_a_missing_dataset_is_not_found(table, storage):
    for error in errors(table, storage, *sorted(set(ATTEMPTS) - {"write"})):
        assert type(error) is NotFound
        assert error.message == f"There is no Lance dataset at {table}."


@pytest.mark.parametrize("patience", [{}, {"client_max_retries": "0"}], ids=["default", "no retries"])
def test_where_nobody_listens_the_store_is_unreachable(table, storage, closed_port, patience):
    for error in errors(table, {**storage, "aws_endpoint": closed_port, **patience}):
        assert type(error) is StorageFailure
        assert "could not be reached" in error.message
        assert "endpoint" in error.hint


@pytest.mark.parametrize("endpoint", ["minio:9000", "not a url"])
def test_an_endpoint_without_a_scheme_is_told_as_that(table, storage, endpoint):
    for error in errors(table, {**storage, "aws_endpoint": endpoint}):
        assert type(error) is StorageFailure
        assert "scheme" in error.hint


def test_plain_http_that_was_not_allowed_is_told_with_the_way_out(table, storage):
    del storage["allow_http"]
    (error,) = errors(table, storage, "read")
    assert type(error) is StorageFailure
    assert "storage_options={'allow_http': 'true'}" in error.hint


def test_missing_credentials_are_told_as_that(table, storage):
    del storage["aws_access_key_id"], storage["aws_secret_access_key"]
    for error in errors(table, storage):
        assert type(error) is StorageFailure
        assert "storage.aws_access_key_id" in error.hint


@pytest.mark.parametrize("name", ["403", "conflict", "connection timed out", "access denied", "NoSuchBucket"])
def test_a_word_in_the_key_or_the_bucket_is_no_failure(client, storage, name):
    bucket = name.replace(" ", "-").lower()
    client.create_bucket(Bucket=bucket)
    uri = f"s3://{bucket}/{name}/{name}.lance"
    for error in errors(uri, storage, "read", "read branch", "read version"):
        assert type(error) is NotFound
    write(uri, storage, [1])
    (error,) = errors(uri, storage, "read branch")
    assert type(error) is NotFound
    assert error.message == "There is no branch 'b'."


def test_a_duration_is_no_status(table, storage):
    told = "Generic S3 error: Error performing GET http://store/b in 403.1ms, after 3 retries - error sending request"
    assert type(from_pylance(OSError(told), locate(table, storage), "reading")) is StorageFailure
