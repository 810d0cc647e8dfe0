"""What the store denies or fails to answer is told apart from what is absent, and changes nothing."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import s3fs
from support.s3_tables import objects, opened, read, rows, write

from lance_spark.clones.clone import deep_clone
from lance_spark.core.refs import PinnedVersion, RefSpec
from lance_spark.errors import PermissionDenied, StorageFailure
from lance_spark.refs.refs import create_branch, create_tag, list_branches
from lance_spark.storage import files
from lance_spark.storage.datasets import locate

pytestmark = [pytest.mark.s3, pytest.mark.when(newest=0.5)]

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
    "create branch": lambda table, storage: create_branch(locate(table, storage), "m", RefSpec()),
    "create tag": lambda table, storage: create_tag(locate(table, storage), "n", RefSpec()),
    "clone": lambda table, storage: deep_clone(
        locate(table, storage), PinnedVersion(None, 1), locate(f"{table}.copy", storage)
    ),
}
READING_DATA = {"read main", "read branch", "read tag", "read version", "clone"}
WRITING_DATA = {"write main", "write new", "write branch", "write new branch", "clone"}
USING_REFS = {
    *("read branch", "read tag", "write branch", "write new branch"),
    *("list branches", "create branch", "create tag"),
}
LISTING = set(OPERATIONS) - {"read tag", "read version"}


def table_of(request):
    return request.key.partition("/table.lance")[2]


FAULTS = {
    "everything": (lambda _: True, set(OPERATIONS)),
    "writes": (lambda request: request.writes, WRITING_DATA | {"create branch", "create tag"}),
    "data files": (lambda request: "/data/" in table_of(request), READING_DATA | WRITING_DATA - {"write new branch"}),
    "refs": (lambda request: table_of(request).startswith("/_refs/"), USING_REFS),
    "listings": (lambda request: request.listing, LISTING),
}


@pytest.fixture
def full_table(table, storage):
    """A dataset with a branch ``b`` and a tag ``t``."""
    write(table, storage, [1])
    write(table, storage, [2], branch="b", create_branch="true")
    create_tag(locate(table, storage), "t", RefSpec())
    return table


def attempt(names, table, storage):
    """What each operation raises, by name. All run at once: most of the time goes by in waiting to try again."""
    with ThreadPoolExecutor(len(names)) as pool:
        tried = {name: pool.submit(OPERATIONS[name], table, storage) for name in sorted(names)}
    return {name: future.exception() for name, future in tried.items()}


@pytest.mark.parametrize(("hit", "operations"), FAULTS.values(), ids=FAULTS)
def test_what_the_store_denies_is_permission_denied_and_changes_nothing(
    full_table, bucket, client, faulty, storage_through, hit, operations
):
    before = objects(client, bucket)
    faulty.rule = lambda request: "403 AccessDenied" if hit(request) else None
    raised = attempt(operations, full_table, storage_through)
    assert {name: type(error) for name, error in raised.items()} == dict.fromkeys(operations, PermissionDenied)
    assert all("credentials" in error.hint for error in raised.values())
    assert objects(client, bucket) == before


@pytest.mark.parametrize(
    ("hit", "operations"),
    [
        (FAULTS["everything"][0], {"read branch", "read tag", "write new", "list branches"}),
        (FAULTS["writes"][0], {"write main", "write branch", "create tag"}),
        (FAULTS["refs"][0], {"read branch", "write branch", "list branches"}),
    ],
    ids=["everything", "writes", "refs"],
)
def test_a_store_that_fails_is_a_storage_failure_and_never_absent(
    full_table, bucket, client, faulty, storage_through, monkeypatch, hit, operations
):
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    before = objects(client, bucket)
    faulty.rule = lambda request: "500 InternalError" if hit(request) else None
    raised = attempt(operations, full_table, {**storage_through, "client_max_retries": "0"})
    assert {name: type(error) for name, error in raised.items()} == dict.fromkeys(operations, StorageFailure)
    assert objects(client, bucket) == before


@pytest.mark.parametrize("answer", ["400 ExpiredToken", "400 InvalidToken", "403 InvalidAccessKeyId"])
def test_credentials_that_the_store_does_not_take_are_permission_denied(full_table, faulty, storage_through, answer):
    faulty.rule = lambda _: answer
    raised = attempt({"read main", "read branch"}, full_table, storage_through)
    assert {type(error) for error in raised.values()} == {PermissionDenied}


def test_a_throttling_store_slows_a_job_down_but_does_not_fail_it(full_table, storage, faulty, storage_through):
    met = set()

    def throttle_each_request_once(request):
        new = (request.method, request.key) not in met
        met.add((request.method, request.key))
        return "503 SlowDown" if new else None

    faulty.rule = throttle_each_request_once
    assert write(full_table, storage_through, [3], branch="b") == 3
    assert read(full_table, storage_through, branch="b") == [1, 2, 3]
    faulty.rule = lambda _: None
    assert rows(full_table, storage, "b") == [1, 2, 3]
    assert len(opened(full_table, storage, "b").get_fragments()) == 3


def test_reading_a_ref_is_one_request_and_asking_again_has_an_end(full_table, faulty, storage_through):
    location = locate(full_table, storage_through)
    files.read(location, "_refs/branches/b.json")
    assert [request.method for request in faulty.seen] == ["GET"]
    faulty.rule = lambda _: "500 InternalError"
    faulty.seen.clear()
    with pytest.raises(StorageFailure):
        files.read(location, "_refs/branches/b.json")
    assert len(faulty.seen) == 3
