"""What the store refuses or fails to answer: absent, denied and unreachable are told apart, and nothing changes."""

import itertools

import pytest
from s3_tables import given, objects, opened, prepare, read, rows, write

from lance_spark.actions.branches import create_branch, list_branches
from lance_spark.actions.clone import deep_clone
from lance_spark.actions.read import pin_read
from lance_spark.actions.tags import create_tag
from lance_spark.actions.write import finish
from lance_spark.errors import Conflict, LanceSparkError, NotFound, PermissionDenied, StorageFailure
from lance_spark.refs.model import PinnedVersion, RefSpec
from lance_spark.store import datasets, files
from lance_spark.store.uri import locate

OPERATIONS = {
    "read main": lambda table, storage: read(table, storage),
    "read branch": lambda table, storage: read(table, storage, branch="b"),
    "read tag": lambda table, storage: read(table, storage, tag="t"),
    "read version": lambda table, storage: read(table, storage, version="1"),
    "write main": lambda table, storage: write(table, storage, [8]),
    "write new": lambda table, storage: write(f"{table}.new", storage, [8]),
    "write branch": lambda table, storage: write(table, storage, [8], branch="b"),
    "write new branch": lambda table, storage: write(table, storage, [8], branch="n", create_branch="true"),
    "list branches": lambda table, storage: list_branches(locate(table, storage)),
    "create branch": lambda table, storage: create_branch(locate(table, storage), "n", RefSpec()),
    "create tag": lambda table, storage: create_tag(locate(table, storage), "n", RefSpec()),
    "clone": lambda table, storage: deep_clone(
        locate(table, storage), PinnedVersion(None, 1), locate(f"{table}.new", storage)
    ),
}


def table_of(request):
    return request.key.partition("/table.lance")[2]


FAULTS = {
    "all": lambda _: True,
    "writes": lambda request: request.writes,
    "data files": lambda request: "/data/" in table_of(request) and not request.listing,
    "refs": lambda request: table_of(request).startswith("/_refs/"),
    "listings": lambda request: request.listing,
}
TOUCHED = [
    *itertools.product(["all"], ["read main", "read branch", "read tag", "write new", "list branches"]),
    *itertools.product(["writes"], ["write main", "write new", "write branch", "write new branch", "create tag"]),
    *itertools.product(["data files"], ["read branch", "read version", "write branch", "clone"]),
    *itertools.product(["refs"], ["read branch", "read tag", "write branch", "list branches", "create branch"]),
    *itertools.product(["listings"], ["write new", "read main"]),
]


@pytest.fixture
def full_table(table, storage):
    """A dataset with a branch ``b`` and a tag ``t``, about which this process remembers nothing."""
    write(table, storage, [1])
    write(table, storage, [2], branch="b", create_branch="true")
    create_tag(locate(table, storage), "t", RefSpec())
    return table


@pytest.mark.parametrize(("fault", "operation"), TOUCHED)
def test_what_the_store_denies_is_permission_denied_and_changes_nothing(
    full_table, bucket, client, faulty, storage_through, fault, operation
):
    before = objects(client, bucket)
    faulty.rule = lambda request: "403 AccessDenied" if FAULTS[fault](request) else None
    with pytest.raises(PermissionDenied, match="denied") as caught:
        OPERATIONS[operation](full_table, storage_through)
    assert caught.value.exit_code == 21
    assert objects(client, bucket) == before


@pytest.mark.parametrize(
    ("fault", "operation"),
    [
        ("all", "write new"),
        ("refs", "read branch"),
        ("refs", "list branches"),
        ("refs", "write branch"),
        ("writes", "write branch"),
        ("data files", "read version"),
    ],
)
def test_a_store_that_fails_is_a_storage_failure_and_never_absent(
    full_table, bucket, client, faulty, storage_through, fault, operation
):
    before = objects(client, bucket)
    faulty.rule = lambda request: "500 InternalError" if FAULTS[fault](request) else None
    with pytest.raises(StorageFailure) as caught:
        OPERATIONS[operation](full_table, storage_through)
    assert type(caught.value) is StorageFailure
    assert objects(client, bucket) == before


@pytest.mark.parametrize("code", ["400 ExpiredToken", "400 InvalidToken", "403 InvalidAccessKeyId"])
def test_credentials_that_the_store_does_not_take_are_permission_denied(full_table, faulty, storage_through, code):
    faulty.rule = lambda _: code
    with pytest.raises(PermissionDenied):
        read(full_table, storage_through)
    with pytest.raises(PermissionDenied):
        read(full_table, storage_through, branch="b")


@pytest.mark.parametrize("options", [{}, {"branch": "b"}, {"tag": "t"}], ids=str)
@pytest.mark.parametrize("action", [read, lambda uri, storage, **_: write(uri, storage, [1])], ids=["read", "write"])
def test_a_missing_bucket_is_not_found(storage, action, options):
    with pytest.raises(NotFound, match="bucket"):
        action("s3://no-such-bucket/table.lance", storage, **options)


@pytest.mark.parametrize("options", [{}, {"branch": "b"}, {"tag": "t"}, {"version": "1"}], ids=str)
def test_a_missing_dataset_is_not_found(table, storage, options):
    with pytest.raises(NotFound, match="There is no Lance dataset at s3://"):
        read(table, storage, **options)


@pytest.mark.parametrize("options", [{}, {"branch": "b"}], ids=["pylance", "fsspec"])
@pytest.mark.parametrize("action", [read, lambda uri, storage, **more: write(uri, storage, [1], **more)])
def test_a_closed_port_is_unreachable_and_says_so(table, storage, closed_port, action, options):
    with pytest.raises(StorageFailure, match="could not be reached|could not connect") as caught:
        action(table, {**storage, "aws_endpoint": closed_port}, **options)
    assert type(caught.value) is StorageFailure
    assert "endpoint" in str(caught.value)


@pytest.mark.parametrize("endpoint", ["minio:9000", "not a url"])
def test_an_endpoint_without_a_scheme_is_told_as_that(table, storage, endpoint):
    with pytest.raises(StorageFailure, match="endpoint"):
        read(table, {**storage, "aws_endpoint": endpoint})
    with pytest.raises(StorageFailure, match="endpoint"):
        read(table, {**storage, "aws_endpoint": endpoint}, branch="b")


def test_plain_http_that_was_not_allowed_is_told_with_the_way_out(table, storage):
    del storage["allow_http"]
    with pytest.raises(StorageFailure, match="allow_http"):
        read(table, storage)


def test_missing_credentials_are_told_as_that(table, storage):
    for key in ("aws_access_key_id", "aws_secret_access_key"):
        del storage[key]
    for options in ({}, {"branch": "b"}):
        with pytest.raises(StorageFailure, match=r"credentials[\s\S]*aws_access_key_id"):
            read(table, storage, **options)


def test_a_throttling_store_slows_a_job_down_but_does_not_fail_it(table, bucket, storage, faulty, storage_through):
    write(table, storage, [1])
    met = set()

    def throttle_each_request_once(request):
        new = (request.method, request.key) not in met
        met.add((request.method, request.key))
        return "503 SlowDown" if new else None

    faulty.rule = throttle_each_request_once
    assert write(table, storage_through, [2], branch="b", create_branch="true") == 2
    assert read(table, storage_through, branch="b") == [1, 2]
    faulty.rule = lambda _: None
    assert rows(table, storage, "b") == [1, 2]
    assert len(opened(table, storage, "b").get_fragments()) == 2


def test_reading_a_ref_is_one_request_and_asking_again_has_an_end(full_table, faulty, storage_through):
    location = locate(full_table, storage_through)
    files.read(location, "_refs/branches/b.json")
    assert [request.method for request in faulty.seen] == ["GET"]
    faulty.rule = lambda _: "503 SlowDown"
    faulty.seen.clear()
    with pytest.raises(StorageFailure):
        files.list_names(location, "_refs/branches")
    assert len(faulty.seen) <= 15
