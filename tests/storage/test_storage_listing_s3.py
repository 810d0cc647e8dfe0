"""Listing key ranges on S3: complete, exact about odd names, and never shorter because of a failure."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from itertools import chain
from types import SimpleNamespace

import pytest
import s3fs

from lance_spark.core.layout import KeyRange, tile
from lance_spark.core.location import DatasetLocation
from lance_spark.errors import NotFound, PermissionDenied, StorageFailure
from lance_spark.storage.datasets import locate
from lance_spark.storage.files import list_names
from lance_spark.storage.listing import BATCH_ROWS, LISTING, list_range

pytestmark = [pytest.mark.s3, pytest.mark.when(newest=0.5)]

EVERYTHING = KeyRange(None, None)
ODD = [
    *("!", " ", "a b", "a+b", "100%", "100%25", "a%2Fb", "~", "zz", "é", "日本", "\uffff", "😀", "a&b<c>'\"", "[1]*?"),
    *("data", "data!", "data.lance", "data0", "data/é %20", "data/0+1", "data/\x7f", "a\\b", "x#y", "x;y", "deep/" * 9),
    *(
        "tree/exp/é/data/1",
        "tree/exp-é/data/0",
        "tree/exp",
        "_versions/1.manifest",
        "_transactions/12-a.txn",
    ),
]


@pytest.fixture(scope="module")
def many(client):
    """A bucket with more than 1,000 files in a dataset, and neighbours outside of it: (bucket, paths)."""
    bucket = "many-files"
    client.create_bucket(Bucket=bucket)
    paths = [f"data/{number * 5003 % 2**24:024b}ab.lance" for number in range(950)]
    paths += [f"tree/exp/a/data/{number * 50021 % 2**24:024b}.lance" for number in range(100)]
    paths += [f"_transactions/{number}-x.txn" for number in range(30)] + ODD
    keys = [f"a/t +%25é/{path}" for path in paths] + ["a/t +%25é0", "a/t +%25é", "a/t +%25é!/x", "b"]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda key: client.put_object(Bucket=bucket, Key=key, Body=b"1234"), keys))
    return bucket, sorted(paths)


@pytest.fixture
def small(client, bucket):
    for number in range(10):
        client.put_object(Bucket=bucket, Key=f"t.lance/data/{number}", Body=b"1")
    return f"s3://{bucket}/t.lance"


def listed(location, part=EVERYTHING):
    return [path for batch in list_range(location, part) for path in batch["path"].to_pylist()]


def answer(monkeypatch, page):
    """A store that gives the same answer to everything."""
    store = SimpleNamespace(call_s3=lambda *_, **__: page)
    monkeypatch.setattr("lance_spark.storage.files.open_filesystem", lambda _: store)


def listings(faulty):
    return [request for request in faulty.seen if request.listing]


def test_a_flat_listing_has_every_file_once_whatever_its_name_with_one_request_per_thousand(
    many, faulty, storage_through
):
    bucket, paths = many
    assert len(paths) > 1000
    assert listed(locate(f"s3://{bucket}/a/t +%2525é", storage_through)) == paths
    assert len(listings(faulty)) == -(-len(paths) // 1000)


@pytest.mark.parametrize("splits", [2, 16])
def test_the_ranges_together_list_what_a_flat_listing_lists(many, storage, splits):
    bucket, paths = many
    location = locate(f"s3://{bucket}/a/t +%2525é", storage)
    parts = tile(["", "tree/exp/a", "tree/exp/é", "tree/none"], splits)
    found = [listed(location, part) for part in parts]
    assert list(chain.from_iterable(found)) == paths
    assert all(part.holds(path) for part, own in zip(parts, found, strict=True) for path in own)


def test_a_range_asks_for_its_own_keys_and_stops_behind_them(many, faulty, storage_through):
    bucket, paths = many
    location = locate(f"s3://{bucket}/a/t +%2525é", storage_through)
    part = KeyRange("data/0000001", "data/0001")
    assert listed(location, part) == [path for path in paths if part.holds(path)] != []
    assert len(listings(faulty)) == 1
    assert listed(location, KeyRange("\U0010ffff", None)) == listed(location, KeyRange("data/2", "data/3")) == []


def test_a_bucket_can_be_a_dataset(many, storage):
    bucket, paths = many
    found = listed(locate(f"s3://{bucket}", storage), KeyRange("a/t +%25é/zz", None))
    assert found == sorted([*(f"a/t +%25é/{path}" for path in paths if path > "zz"), "a/t +%25é0", "b"])


def test_a_file_has_its_size_and_time(client, small, storage):
    (batch,) = list_range(locate(small, storage), EVERYTHING)
    assert batch.schema == LISTING
    assert set(batch["size"].to_pylist()) == {1}
    assert all(
        abs((datetime.now(timezone.utc) - time).total_seconds()) < 600 for time in batch["last_modified"].to_pylist()
    )


def test_an_empty_root_has_no_files_and_marked_directories_are_listed(client, bucket, storage):
    location = locate(f"s3://{bucket}/t.lance", storage)
    assert listed(location) == []
    for key in ("t.lance/", "t.lance/data/", "t.lance/data/a"):
        client.put_object(Bucket=bucket, Key=key, Body=b"")
    assert listed(location) == ["data/", "data/a"]


def test_a_bucket_that_is_not_there_is_no_empty_listing(storage):
    with pytest.raises(NotFound, match=r"bucket of s3://none/t\.lance does not exist"):
        listed(locate("s3://none/t.lance", storage))


def test_rows_come_in_batches(monkeypatch, small, storage):
    assert BATCH_ROWS == 50_000
    monkeypatch.setattr("lance_spark.storage.listing.BATCH_ROWS", 4)
    assert [batch.num_rows for batch in list_range(locate(small, storage), EVERYTHING)] == [4, 4, 2]


@pytest.mark.parametrize("asked", [0, 1])
def test_a_throttled_page_is_asked_for_again(faulty, small, storage_through, asked, monkeypatch):
    monkeypatch.setattr("lance_spark.storage.listing._PAGE_KEYS", 5)
    fates = [None] * asked + ["503 SlowDown"] * 2
    faulty.rule = lambda request: fates.pop(0) if fates and request.listing else None
    assert len(listed(locate(small, storage_through))) == 10
    assert len(listings(faulty)) == 4


@pytest.mark.parametrize("page", [0, 1])
@pytest.mark.parametrize(
    ("fate", "error"),
    [("503 SlowDown", StorageFailure), ("403 AccessDenied", PermissionDenied), ("500 InternalError", StorageFailure)],
)
def test_a_page_that_is_not_answered_is_an_error(faulty, small, storage_through, monkeypatch, page, fate, error):
    monkeypatch.setattr("lance_spark.storage.listing._PAGE_KEYS", 5)
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    faulty.rule = lambda _: fate if len(listings(faulty)) > page else None
    found = []
    with pytest.raises(error) as caught:
        found += listed(locate(small, storage_through))
    assert "hush-hush" not in str(caught.value)
    assert found == []


def test_a_store_that_is_silent_is_an_error(faulty, small, storage_through, monkeypatch):
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    monkeypatch.setattr(s3fs.S3FileSystem, "read_timeout", 0.2)
    faulty.rule = lambda request: "silent 0.5" if request.listing else None
    with pytest.raises(StorageFailure, match="could not be reached"):
        listed(locate(small, {**storage_through, "aws_access_key_id": "another-client"}))
    assert len(listings(faulty)) == 3


def test_nobody_there_is_an_error(closed_port, storage, monkeypatch):
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    with pytest.raises(StorageFailure, match="could not be reached"):
        listed(
            locate("s3://bucket/t.lance", {**storage, "aws_endpoint": closed_port, "aws_endpoint_url_s3": closed_port})
        )


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ({}, "not a listing"),
        ({"IsTruncated": True, "Contents": []}, "not a listing"),
        ({"IsTruncated": False, "Contents": [{"Key": "k/b", "Size": 1}, {"Key": "k/a", "Size": 1}]}, "in the order"),
        ({"IsTruncated": False, "Contents": [{"Key": "k/A", "Size": 1}]}, "in the order"),
        ({"IsTruncated": False, "Contents": [{"Key": "other", "Size": 1}]}, "in the order"),
    ],
)
def test_a_store_that_ignores_what_was_asked_is_an_error(monkeypatch, page, message):
    answer(monkeypatch, page)
    with pytest.raises(StorageFailure, match=message):
        listed(DatasetLocation.at("s3://bucket/k"), KeyRange("A", None))


@pytest.mark.parametrize("page", [{}, {"IsTruncated": True, "Contents": []}])
def test_an_answer_that_is_no_listing_is_no_directory_without_entries(monkeypatch, page):
    """Else a dataset would look as if it had no tags, and what they protect would go."""
    answer(monkeypatch, page)
    with pytest.raises(StorageFailure, match="not a listing"):
        list_names(DatasetLocation.at("s3://bucket/k"), "_refs/tags")


def test_a_time_that_the_store_does_not_tell_is_unknown(monkeypatch):
    page = {"IsTruncated": False, "Contents": [{"Key": "k/a", "Size": 1}]}
    answer(monkeypatch, page)
    (batch,) = list_range(DatasetLocation.at("s3://bucket/k"), EVERYTHING)
    assert batch.to_pylist() == [{"path": "a", "size": 1, "last_modified": None}]
