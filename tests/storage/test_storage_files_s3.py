"""Single files on S3: listed, read and deleted exactly, whatever characters their keys have."""

import pytest
from support.s3_tables import objects, prepare, read, rows, write

from lance_spark.core.refs import RefSpec
from lance_spark.errors import PermissionDenied, StorageFailure
from lance_spark.refs.refs import create_branch, list_branches
from lance_spark.storage import files
from lance_spark.storage.datasets import locate
from lance_spark.tables.write import give_up

pytestmark = pytest.mark.s3

ODD = ["ä b/日本", "100%25", "a%2520b", "a+b&c=d", "[1]*", "%23{x}", "a\\b"]


@pytest.fixture
def location(bucket, storage):
    return locate(f"s3://{bucket}/t.lance", storage)


def put(client, bucket, *names):
    for name in names:
        client.put_object(Bucket=bucket, Key=f"t.lance/{name}", Body=name.encode())


def names(client, bucket):
    return {key.removeprefix("t.lance/") for key in objects(client, bucket)}


def test_a_directory_lists_its_own_entries_only(client, bucket, location):
    put(client, bucket, "_refs/tags/a.json", "_refs/tags/é%20.json", "_refs/tags/deep/er.json", "_refs/tagsx/b.json")
    assert files.list_names(location, "_refs/tags") == ["a.json", "deep", "é%20.json"]
    assert files.list_names(location, "_refs/none") == []
    assert files.list_files(location) == sorted(names(client, bucket))


def test_a_listing_has_more_than_one_page_and_is_never_remembered(client, bucket, location):
    put(client, bucket, *(f"tree/{number}" for number in range(50)))
    assert len(files.list_names(location, "tree")) == 50
    put(client, bucket, "tree/new")
    assert len(files.list_names(location, "tree")) == len(files.list_files(location)) == 51
    files.delete(location, ["tree"])
    assert names(client, bucket) == set()


def test_a_file_is_read_and_a_missing_one_is_none(client, bucket, location):
    put(client, bucket, "a/é %20[1]*", "empty/x")
    assert files.read(location, "a/é %20[1]*") == "a/é %20[1]*".encode()
    assert files.read(location, "a/é") is None
    assert files.read(location, "empty") is None
    assert files.read(locate("s3://no-such-bucket/t.lance", location.storage_options), "a") is None


@pytest.mark.parametrize("odd", ["x[1]", "x*", "x?", "x{1}", "é %20", "x"])
def test_deleting_takes_the_named_file_or_directory_and_no_neighbour(client, bucket, location, odd):
    neighbours = ["x1", "x1/a", "xy", "xy.lance", "x.lance", "é", "é  ", "x[1]z"]
    put(client, bucket, *neighbours, f"{odd}/a", f"{odd}/b/c", f"{odd}.json")
    files.delete(location, [odd, f"{odd}.json", "not/there"])
    assert names(client, bucket) == set(neighbours)


@pytest.mark.when(day=0.4)
@pytest.mark.parametrize("odd", ODD)
def test_a_dataset_below_an_odd_key_is_written_listed_and_cleaned_up(client, bucket, storage, odd):
    uri = f"s3://{bucket}/{odd}/t.lance"
    write(uri, storage, [1])
    create_branch(locate(uri, storage), "exp/é", RefSpec())
    write(uri, storage, [2], branch="exp/é")
    before = objects(client, bucket)
    give_up(*prepare(uri, storage, [3]))
    give_up(*prepare(uri, storage, [3], branch="exp/é"))
    give_up(*prepare(uri, storage, [3], branch="n", create_branch="true"))
    assert objects(client, bucket) == before
    assert len({key.split("/t.lance/")[0] for key in before}) == 1
    assert [branch.name for branch in list_branches(locate(uri, storage))] == ["exp/é"]
    assert read(uri, storage, branch="exp/é") == [1, 2]
    assert rows(locate(uri).uri, storage, "exp/é") == [1, 2]


def test_many_files_come_in_their_order_and_one_that_is_gone_is_none(client, bucket, location):
    wanted = [*ODD, *(f"data/{number}" for number in range(40))]
    put(client, bucket, *wanted)
    asked = [*wanted[:20], "data/none", *wanted[20:]]
    assert files.read_many(location, asked) == [None if name == "data/none" else name.encode() for name in asked]
    assert files.read_many(location, []) == []


@pytest.mark.parametrize(
    ("fate", "error"), [("403 AccessDenied", PermissionDenied), ("500 InternalError", StorageFailure)]
)
def test_one_of_many_files_that_is_not_given_is_an_error(client, bucket, faulty, storage_through, fate, error):
    put(client, bucket, *(f"data/{number}" for number in range(20)))
    faulty.rule = lambda request: fate if request.key.endswith("data/13") else None
    with pytest.raises(error):
        files.read_many(locate(f"s3://{bucket}/t.lance", storage_through), [f"data/{number}" for number in range(20)])
