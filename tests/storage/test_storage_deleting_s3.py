"""Bulk deletion on S3: what is counted as deleted is deleted, whatever the store does in between."""

from types import SimpleNamespace

import pytest
import s3fs
from support.s3_tables import objects

from lance_spark.errors import PermissionDenied
from lance_spark.storage import deleting, files
from lance_spark.storage.datasets import locate
from lance_spark.storage.deleting import BATCH, Deleted, delete_batch, deletion_failure, remove_empty_directories

pytestmark = pytest.mark.s3

ODD = ["a b", "a+b", "100%25", "é/日本", "😀", "a&b<c>'\"", "[1]*", "x?", "a//b", "a\\b", "...", "\t"]


@pytest.fixture
def naps(monkeypatch):
    """The delays of the retries, which are not slept."""
    naps = []
    # Not the sleep of the whole process: other threads wait in it, and would never rest again.
    monkeypatch.setattr(deleting, "time", SimpleNamespace(sleep=naps.append))
    return naps


@pytest.fixture
def location(bucket, storage_through):
    return locate(f"s3://{bucket}/a é/t.lance", storage_through)


@pytest.fixture
def put(client, bucket):
    def put(*paths):
        for path in paths:
            client.put_object(Bucket=bucket, Key=f"a é/t.lance/{path}", Body=b"1")
        return paths

    return put


@pytest.fixture
def left(client, bucket):
    """What the store itself says is left of the dataset."""
    return lambda: {key.removeprefix("a é/t.lance/") for key in objects(client, bucket)}


def requests(faulty):
    """The keys that were to be deleted, once for each attempt."""
    return [request.key for request in faulty.seen if request.method == "DELETE"]


def below(path, fate, times=10**6):
    """A rule that has a fate for the first deletions below a path."""
    remaining = [times]

    def rule(request):
        if request.method != "DELETE" or f"/t.lance/{path}" not in request.key or not remaining[0]:
            return None
        remaining[0] -= 1
        return fate

    return rule


def test_files_of_any_name_are_deleted_and_their_neighbours_stay(put, left, location):
    put(*ODD, "a", "x", "xy", "1", "data/x")
    assert delete_batch(location, ODD) == Deleted(tuple(ODD), (), ())
    assert left() == {"a", "x", "xy", "1", "data/x"}


def test_a_full_batch_is_one_request_and_what_is_not_there_counts_as_deleted(put, left, location, faulty, monkeypatch):
    asked, real = [], files.open_filesystem
    monkeypatch.setattr(files, "open_filesystem", lambda location: asked.append(1) or real(location))
    put("data/0", "data/999", "data/1000")
    paths = [f"data/{number}" for number in range(BATCH)]
    assert delete_batch(location, paths).deleted == tuple(paths)
    assert (len(asked), len(requests(faulty))) == (1, BATCH)
    assert left() == {"data/1000"}


def test_a_bucket_can_be_a_dataset(client, bucket, storage):
    client.put_object(Bucket=bucket, Key="data/a", Body=b"")
    assert delete_batch(locate(f"s3://{bucket}", storage), ["data/a"]).deleted == ("data/a",)
    assert objects(client, bucket) == {}


def test_nothing_is_asked_for_no_files(location, faulty):
    assert delete_batch(location, []) == Deleted((), (), ())
    assert faulty.seen == []


def test_a_file_named_twice_is_deleted_and_counted_once(put, location):
    put("a")
    assert delete_batch(location, ["a", "a"]).deleted == ("a",)


@pytest.mark.parametrize("fate", ["error SlowDown", "error InternalError", "error 503", "unanswered"])
def test_keys_that_a_busy_store_leaves_out_are_tried_again(put, left, location, faulty, naps, fate):
    paths = put(*(f"data/{number}" for number in range(9)))
    faulty.rule = below("data/", fate, times=4)
    assert delete_batch(location, paths) == Deleted(paths, (), ())
    assert left() == set()
    assert len(requests(faulty)) == 9 + 4
    assert len(naps) == 1


@pytest.mark.parametrize("fate", ["error SlowDown", "unanswered"])
def test_keys_that_stay_unanswered_failed(put, left, location, faulty, naps, fate):
    put("data/a", "data/b", "other/c")
    faulty.rule = below("data/", fate)
    done = delete_batch(location, ["data/a", "other/c", "data/b"])
    assert (done.deleted, done.gone) == (("other/c",), ())
    assert [path for path, _ in done.failed] == ["data/a", "data/b"]
    assert {reason for _, reason in done.failed} <= {"SlowDown: Told so", "The store did not answer for it."}
    assert len(requests(faulty)) == 3 + 5 * 2
    assert naps == sorted(naps)
    assert 7 < sum(naps) < 16
    if fate == "error SlowDown":
        assert left() == {"data/a", "data/b"}


def test_a_denied_prefix_fails_at_once_and_the_rest_is_deleted(put, left, location, faulty, naps):
    put("data/a", "data/b", "other/c")
    faulty.rule = below("data/", "error AccessDenied")
    done = delete_batch(location, ["data/a", "other/c", "data/b"])
    denied = f"s3:DeleteObject on {location.uri}/data/ is missing"
    reasons = tuple((path, f"{denied} (AccessDenied: Told so)") for path in ("data/a", "data/b"))
    assert done == Deleted(("other/c",), (), reasons, dict.fromkeys(["data/a", "data/b"], denied))
    failure = deletion_failure("{} stay", [done])
    assert isinstance(failure, PermissionDenied)
    assert failure.missing == f"s3:DeleteObject on {location.uri}/data/"
    assert left() == {"data/a", "data/b"}
    assert (len(requests(faulty)), naps) == (3, [])


def test_keys_that_the_store_calls_missing_are_gone(put, location, faulty):
    put("a", "b")
    faulty.rule = below("a", "error NoSuchKey")
    assert delete_batch(location, ["a", "b"]) == Deleted(("b",), ("a",), ())


@pytest.mark.parametrize("fate", ["503 SlowDown", "500 InternalError", "lost", "late 500"])
def test_a_request_that_fails_as_a_whole_is_sent_again(put, left, location, faulty, fate):
    paths = put("a", "b")
    faulty.rule = below("", fate, times=2)
    assert delete_batch(location, paths) == Deleted(paths, (), ())
    assert left() == set()


@pytest.mark.parametrize(
    ("fate", "word"),
    [
        ("503 SlowDown", "SlowDown"),
        ("403 AccessDenied", "denied"),
        ("403 InvalidAccessKeyId", "denied"),
        ("lost", "s3://"),
    ],
)
def test_a_request_that_keeps_failing_fails_for_every_key_and_raises_nothing(
    put, location, faulty, monkeypatch, fate, word
):
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    paths = put("a", "b")
    faulty.rule = below("", fate)
    done = delete_batch(location, paths)
    assert (done.deleted, done.gone) == ((), ())
    assert [path for path, _ in done.failed] == ["a", "b"]
    assert all(word in reason and "hush-hush" not in reason for _, reason in done.failed)


def test_what_was_deleted_before_the_store_went_away_is_deleted(put, left, location, faulty, naps, monkeypatch):
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    put("a", "b")
    fates = ["error SlowDown"]
    faulty.rule = lambda request: (fates.pop() if fates else "403 AccessDenied") if request.key.endswith("/b") else None
    done = delete_batch(location, ["a", "b"])
    assert (done.deleted, [path for path, _ in done.failed]) == (("a",), ["b"])
    assert left() == {"b"}


def test_nobody_there_fails_for_every_key(closed_port, storage, monkeypatch):
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    gone = locate("s3://bucket/t.lance", {**storage, "aws_endpoint": closed_port, "aws_endpoint_url_s3": closed_port})
    ((path, reason),) = delete_batch(gone, ["a"]).failed
    assert path == "a"
    assert "could not be reached" in reason


def test_a_bucket_that_is_not_there_fails_for_every_key(storage):
    assert [path for path, _ in delete_batch(locate("s3://none/t.lance", storage), ["a", "b"]).failed] == ["a", "b"]


def test_a_name_that_no_request_can_carry_fails_alone(put, left, location):
    put("a")
    done = delete_batch(location, ["a", "b\x01", "c\r"])
    assert (done.deleted, [path for path, _ in done.failed]) == (("a",), ["b\x01", "c\r"])
    assert left() == set()


@pytest.mark.parametrize("path", ["", "/a", "../a", "a/../../b", "..", ".", "a/.", "a/", "a\0b"])
def test_what_is_no_path_of_a_file_below_the_root_is_refused_before_anything_is_deleted(put, left, location, path):
    put("b")
    with pytest.raises(ValueError, match="not the path of a file"):
        delete_batch(location, ["b", path])
    assert left() == {"b"}


def test_object_stores_have_no_empty_directories(put, left, location, faulty):
    put("data/a")
    faulty.seen.clear()
    remove_empty_directories(location, ["data", "gone"])
    assert faulty.seen == []
    assert left() == {"data/a"}
