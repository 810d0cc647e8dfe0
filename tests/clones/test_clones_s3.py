"""Clones on S3: shallow ones stay in their bucket, deep ones stand alone wherever they are."""

import lance
import pytest
from support.clones import name_of
from support.s3_tables import Kept, objects, opened, read, rows, storage_options, write

from lance_spark.clones.clone import deep_clone, shallow_clone
from lance_spark.core.refs import PinnedVersion, RefSpec
from lance_spark.errors import AlreadyExists, PermissionDenied, Refused
from lance_spark.refs.refs import create_branch
from lance_spark.storage.datasets import locate

pytestmark = pytest.mark.s3

EXPECTED = {None: [1, 3], "b": [3, 5], "b/nested": [3, 5, 6], "own": [8]}


@pytest.fixture(scope="module")
def prepared(client, moto):
    """The pins of :func:`branched`, and two buckets as they were when that was made: one with it, one empty."""
    for name in ("clones", "clones-other"):
        client.create_bucket(Bucket=name)
    pins = branched("s3://clones/warehouse/table.lance", storage_options(moto))
    return pins, Kept(client, "clones"), Kept(client, "clones-other")


def branched(table, storage):
    """Where main, a branch, a branch of that and a branch with files of its own stand; with deletions and indexes."""
    write(table, storage, [1, 2, 3])
    opened(table, storage).create_scalar_index("id", "BTREE")
    opened(table, storage).delete("id = 2")
    write(table, storage, [4, 5], branch="b", create_branch="true")
    opened(table, storage, "b").delete("id in (1, 4)")
    write(table, storage, [6], branch="b/nested", create_branch="true", from_branch="b")
    create_branch(locate(table, storage), "own", RefSpec())
    write(table, storage, [7, 8], overwrite=True, branch="own")
    opened(table, storage, "own").create_scalar_index("id", "BTREE")
    opened(table, storage, "own").delete("id = 7")
    return {branch: PinnedVersion(branch, opened(table, storage, branch).version) for branch in EXPECTED}


@pytest.fixture
def bucket():
    return "clones"


@pytest.fixture
def other_bucket():
    return "clones-other"


@pytest.fixture
def pins(prepared):
    pins, *buckets = prepared
    for kept in buckets:
        kept.put_back()
    return pins


@pytest.mark.parametrize("branch", EXPECTED)
def test_a_shallow_clone_shares_files_within_its_bucket(table, bucket, client, storage, pins, branch):
    before = objects(client, bucket)
    target = f"s3://{bucket}/clones/c.lance"
    shallow_clone(locate(table, storage), pins[branch], locate(target, storage))
    assert rows(target, storage) == read(target, storage) == EXPECTED[branch]
    added = objects(client, bucket).keys() - before.keys()
    name = name_of(locate(target, storage))
    note = {f"warehouse/table.lance/{path}/{name}.json" for path in ("_refs/tags", "_clones")}
    assert note < added
    assert all(key.startswith("clones/c.lance/_") for key in added - note)
    write(target, storage, [17])
    assert rows(target, storage) == [*EXPECTED[branch], 17]
    assert {key: etag for key, etag in objects(client, bucket).items() if key in before} == before
    assert rows(table, storage, branch) == EXPECTED[branch]


@pytest.mark.parametrize(
    ("clone", "branch", "places", "way_out"),
    [
        (shallow_clone, None, ["s3://{other}/c.lance", "s3a://{other}/warehouse/table.lance", "{tmp}/c"], "'deep'"),
        (deep_clone, "b", ["s3://{bucket}/c.lance", "s3://{other}/c.lance", "{tmp}/c"], "Write its rows"),
        (deep_clone, "b/nested", ["s3://{other}/c.lance"], "Write its rows"),
    ],
)
def test_a_clone_that_pylance_cannot_make_is_refused_before_anything_is_written(
    table, bucket, other_bucket, client, storage, pins, tmp_path, clone, branch, places, way_out
):
    before = objects(client, bucket)
    for place in places:
        target = locate(place.format(bucket=bucket, other=other_bucket, tmp=tmp_path), storage)
        with pytest.raises(Refused, match=way_out):
            clone(locate(table, storage), pins[branch], target)
    assert objects(client, bucket) == before
    assert objects(client, other_bucket) == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("branch", [None, "own"])
def test_a_deep_clone_in_another_bucket_outlives_its_source(table, bucket, other_bucket, client, storage, pins, branch):
    before = objects(client, bucket)
    target = f"s3://{other_bucket}/clones/c.lance"
    deep_clone(locate(table, storage), pins[branch], locate(target, storage))
    assert objects(client, bucket) == before
    for key in before:
        client.delete_object(Bucket=bucket, Key=key)
    assert rows(target, storage) == read(target, storage) == read(target, storage, filter="id > 0") == EXPECTED[branch]
    assert "ScalarIndexQuery" in opened(target, storage).scanner(filter="id = 3").explain_plan(True)
    write(target, storage, [17])
    write(target, storage, [18], branch="more", create_branch="true")
    assert rows(target, storage, "more") == [*EXPECTED[branch], 17, 18]
    assert objects(client, bucket) == {}


def test_a_deep_clone_goes_between_a_bucket_and_a_local_disk(table, bucket, client, storage, pins, tmp_path):
    local, back = str(tmp_path / "c.lance"), f"s3://{bucket}/back.lance"
    deep_clone(locate(table, storage), pins[None], locate(local))
    write(local, {}, [4], branch="b", create_branch="true")
    assert read(local, {}, branch="b") == [1, 3, 4]
    pin = PinnedVersion("b", lance.dataset(local).checkout_version(("b", None)).version)
    deep_clone(locate(local), pin, locate(back, storage))
    assert rows(back, storage) == [1, 3, 4]


def test_a_deep_clone_reads_and_writes_with_the_options_of_each_side(
    table, other_bucket, faulty, storage, storage_through, pins
):
    target = locate(f"s3://{other_bucket}/c.lance", {**storage_through, "aws_access_key_id": "AKTARGET"})
    deep_clone(locate(table, storage), pins["own"], target)
    assert rows(target.uri, storage) == EXPECTED["own"]
    assert {request.bucket for request in faulty.seen} == {other_bucket}
    assert {request.access_key for request in faulty.seen} == {"AKTARGET"}


@pytest.mark.parametrize("clone", [shallow_clone, deep_clone])
def test_a_target_in_use_is_left_alone(table, bucket, client, storage, pins, clone):
    target = locate(f"s3://{bucket}/c.lance", storage)
    write(target.uri, storage, [1])
    before = objects(client, bucket)
    with pytest.raises(AlreadyExists):
        clone(locate(table, storage), pins[None], target)
    assert objects(client, bucket) == before


def test_a_deep_clone_that_is_denied_half_way_is_no_dataset(
    table, other_bucket, client, faulty, storage, storage_through, pins
):
    target = locate(f"s3://{other_bucket}/c.lance", storage_through)
    faulty.rule = lambda request: "403 AccessDenied" if request.writes and "/data/" not in request.key else None
    with pytest.raises(PermissionDenied):
        deep_clone(locate(table, storage_through), pins["own"], target)
    assert not any("/_versions/" in key for key in objects(client, other_bucket))
    faulty.rule = lambda _: None
    deep_clone(locate(table, storage_through), pins["own"], target)
    assert rows(target.uri, storage) == EXPECTED["own"]
