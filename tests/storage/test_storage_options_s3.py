"""One set of storage options, or the environment, serves pylance and fsspec alike; URIs have one spelling."""

import itertools
from urllib.parse import quote

import pytest
from support.s3_tables import objects, opened, read, rows, write

from lance_spark.core.refs import RefSpec
from lance_spark.refs.refs import create_branch, list_branches
from lance_spark.storage.datasets import locate

pytestmark = pytest.mark.s3

SECRET = {"AWS_SECRET_ACCESS_KEY": "hush-hush"}
OPTIONS = {
    "aws_ names": lambda url: {
        "aws_access_key_id": "AKID",
        "aws_secret_access_key": "hush-hush",
        "aws_session_token": "TOKEN",
        "aws_region": "us-east-1",
        "aws_endpoint": url,
        "aws_allow_http": "true",
    },
    "names without aws_": lambda url: {
        "access_key_id": "AKID",
        "secret_access_key": "hush-hush",
        "session_token": "TOKEN",
        "region": "us-east-1",
        "endpoint": url,
        "allow_http": "1",
    },
    "other names": lambda url: {
        "access_key_id": "AKID",
        "secret_access_key": "hush-hush",
        "token": "TOKEN",
        "default_region": "us-east-1",
        "endpoint_url": url,
        "allow_http": "TRUE",
        "virtual_hosted_style_request": "false",
    },
}
ENVIRONMENTS = {
    "AWS_ENDPOINT": lambda url: {"AWS_ENDPOINT": url, "AWS_SESSION_TOKEN": "TOKEN", "AWS_REGION": "us-east-1"},
    "AWS_ENDPOINT_URL": lambda url: {"AWS_ENDPOINT_URL": url, "AWS_SESSION_TOKEN": "TOKEN"},
    "AWS_ENDPOINT_URL_S3": lambda url: {
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_TOKEN": "TOKEN",
        "AWS_DEFAULT_REGION": "us-east-1",
    },
}


def use_all(table, storage):
    """Writes, makes a branch, lists and reads it: pylance and fsspec both."""
    write(table, storage, [1])
    write(table, storage, [2], branch="b", create_branch="true")
    assert [branch.name for branch in list_branches(locate(table, storage))] == ["b"]
    assert read(table, storage, branch="b") == [1, 2]
    assert read(table, storage) == [1]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_pylances_option_names_reach_pylance_and_fsspec(table, bucket, faulty, storage, options):
    use_all(table, options(faulty.endpoint))
    assert {(request.bucket, request.access_key, request.token) for request in faulty.seen} == {
        (bucket, "AKID", "TOKEN")
    }
    assert rows(table, storage, "b") == [1, 2]


@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_the_environment_alone_is_enough(table, bucket, faulty, monkeypatch, environment):
    variables = {**environment(faulty.endpoint), **SECRET, "AWS_ACCESS_KEY_ID": "AKENV", "AWS_ALLOW_HTTP": "true"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    use_all(table, {})
    assert {(request.bucket, request.access_key, request.token) for request in faulty.seen} == {
        (bucket, "AKENV", "TOKEN")
    }


def test_an_option_wins_over_the_environment(table, faulty, storage_through, closed_port, monkeypatch):
    for name, value in {**SECRET, "AWS_ACCESS_KEY_ID": "AKENV", "AWS_ENDPOINT": closed_port}.items():
        monkeypatch.setenv(name, value)
    use_all(table, storage_through)
    assert {request.access_key for request in faulty.seen} == {"AKIDTEST"}


@pytest.mark.parametrize("word", ["true", "1"])
def test_unsigned_requests_are_unsigned_on_both_sides(table, bucket, client, faulty, word):
    client.put_bucket_acl(Bucket=bucket, ACL="public-read-write")
    use_all(
        table, {"aws_skip_signature": word, "endpoint": faulty.endpoint, "region": "us-east-1", "allow_http": "true"}
    )
    assert {request.access_key for request in faulty.seen} == {""}


def test_a_virtual_hosts_endpoint_names_the_bucket_once_on_both_sides(
    table, bucket, faulty, storage_through, monkeypatch
):
    monkeypatch.setenv("HTTP_PROXY", faulty.endpoint)
    monkeypatch.setenv("http_proxy", faulty.endpoint)
    use_all(
        table,
        {
            **storage_through,
            "aws_endpoint": f"http://{bucket}.store.test",
            "aws_virtual_hosted_style_request": "true",
        },
    )
    assert {request.bucket for request in faulty.seen} == {bucket}


SPELLINGS = ["s3://{}", "s3://{}/", "s3a://{}", "s3n://{}//", "S3://{}"]


@pytest.mark.parametrize("maker", SPELLINGS)
def test_a_branch_made_through_one_spelling_is_read_through_all_others(bucket, client, storage, maker):
    key = f"{bucket}/ware house/tableau é.lance"
    write(maker.format(key), storage, [1])
    create_branch(locate(maker.format(key), storage), "exp/delays", RefSpec())
    for number, spelling in enumerate(SPELLINGS, start=2):
        write(spelling.format(key), storage, [number], branch="exp/delays")
    for spelling, name in itertools.product(SPELLINGS, (key, quote(key))):
        assert read(spelling.format(name), storage, branch="exp/delays") == [1, 2, 3, 4, 5, 6]
        assert read(spelling.format(name), storage) == [1]
    canonical = f"s3://{bucket}/ware%20house/tableau%20%C3%A9.lance"
    bases = [base.path for base in opened(canonical, storage, "exp/delays")._ds.base_paths().values()]
    assert set(bases) == {canonical}
    assert {name.split("/tableau é.lance/")[0] for name in objects(client, bucket)} == {"ware house"}
