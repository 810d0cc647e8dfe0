"""Remotes between stores: a local clone of a dataset on S3, one in another bucket, and a remote that a push makes."""

import lance
import pyarrow as pa
import pytest
from support.s3_tables import objects, opened, rows, write

from lance_spark.engine.local import LocalRunner
from lance_spark.errors import PermissionDenied, Refused, StorageFailure
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.refs.refs import create_branch_at
from lance_spark.remotes.clone import clone
from lance_spark.remotes.fetch import Remote, fetch
from lance_spark.remotes.pull import pull
from lance_spark.remotes.push import push
from lance_spark.storage.datasets import locate, pin_latest

pytestmark = pytest.mark.s3


@pytest.fixture
def other_bucket(client, bucket):
    name = f"{bucket}-other"
    client.create_bucket(Bucket=name)
    return name


@pytest.fixture
def source(table, storage):
    """Main and a branch, with deletions, as the remote 'origin'."""
    write(table, storage, [1, 2, 3])
    opened(table, storage).delete("id = 1")
    write(table, storage, [4, 5], branch="exp", create_branch="true")
    opened(table, storage, "exp").delete("id = 4")
    write(table, storage, [6])
    return Remote("origin", locate(table, storage))


def cloned(source, target):
    return clone(source, pin_latest(source.location, None), target, LocalRunner())


def options_of(location):
    return location.storage_options


def rows_of(location, branch=None):
    return rows(location.uri, options_of(location), branch)


def append(location, *ids, branch=None):
    write(location.uri, options_of(location), list(ids), **({"branch": branch} if branch else {}))


def assert_followed(local, source):
    assert rows_of(local, "origin/main") == rows_of(source.location)
    assert rows_of(local, "origin/exp") == rows_of(source.location, "exp")


def test_a_local_clone_of_a_dataset_on_s3(source, bucket, client, storage, tmp_path):
    """Its options open the remote: pylance itself reads the clone with them."""
    before = objects(client, bucket)
    local = locate(str(tmp_path / "clone.lance"), storage)
    result = cloned(source, local)
    assert (result.rows, result.deep, result.notes) == (3, False, ())
    assert rows_of(local) == [2, 3, 6]
    assert_followed(local, source)
    assert not list((tmp_path / "clone.lance").rglob("data/*.lance"))
    added = objects(client, bucket).keys() - before.keys()
    assert all("/_refs/tags/clone-" in key for key in added)

    append(local, 10, 11)
    opened(local.uri, storage).delete("id in (2, 10)")
    merge(local, pin_latest(local, "origin/exp"), None, MergeOptions(), LocalRunner())
    assert push(local, source, None, LocalRunner()).version is not None
    assert rows_of(source.location) == rows_of(local) == [3, 5, 6, 11]

    append(source.location, 12)
    opened(source.location.uri, storage).optimize.compact_files()
    append(source.location, 20, branch="exp")
    assert pull(local, source, None, None, LocalRunner()).merged.fast_forward is not None
    fetch(local, source, LocalRunner())
    assert rows_of(local) == [3, 5, 6, 11, 12]
    assert_followed(local, source)
    create_branch_at(local, "mine", pin_latest(local, "origin/exp"))
    append(local, 21, branch="mine")
    assert push(local, source, "mine", LocalRunner()).created
    assert rows_of(source.location, "mine") == [2, 3, 5, 20, 21]


def test_a_clone_in_another_bucket_and_back(source, bucket, other_bucket, client, storage):
    local = locate(f"s3://{other_bucket}/clones/c.lance", storage)
    cloned(source, local)
    assert rows_of(local) == [2, 3, 6]
    assert_followed(local, source)
    assert not any("/data/" in key for key in objects(client, other_bucket))
    append(local, 10)
    opened(local.uri, storage).add_columns({"w": "id * 2"})
    push(local, source, None, LocalRunner())
    assert rows_of(source.location) == [2, 3, 6, 10]
    assert (
        opened(source.location.uri, storage).to_table().to_pylist() == opened(local.uri, storage).to_table().to_pylist()
    )
    table = pa.table({"id": pa.array([11], pa.int64()), "w": pa.array([0], pa.int64())})
    lance.write_dataset(table, source.location.uri, mode="append", storage_options=storage)
    lance.write_dataset(table, local.uri, mode="append", storage_options=storage)
    with pytest.raises(Refused, match="fast-forward"):
        push(local, source, None, LocalRunner())
    pull(local, source, None, None, LocalRunner())
    push(local, source, None, LocalRunner())
    assert rows_of(source.location) == rows_of(local) == [2, 3, 6, 10, 11, 11]


def test_a_push_makes_a_remote_on_s3(other_bucket, client, storage, tmp_path):
    local, backup = locate(str(tmp_path / "t.lance"), storage), locate(f"s3://{other_bucket}/backup.lance", storage)
    write(local.uri, storage, [1, 2, 3])
    lance.dataset(local.uri).delete("id = 2")
    remote = Remote("backup", backup)
    push(local, remote, None, LocalRunner())
    assert rows_of(backup) == [1, 3]
    append(local, 4)
    create_branch_at(local, "exp", pin_latest(local, None))
    append(local, 5, branch="exp")
    push(local, remote, "exp", LocalRunner())
    push(local, remote, None, LocalRunner())
    assert (rows_of(backup), rows_of(backup, "exp")) == ([1, 3, 4], [1, 3, 4, 5])
    again = locate(str(tmp_path / "again.lance"), storage)
    cloned(Remote("origin", backup), again)
    assert rows_of(again) == [1, 3, 4]


def test_a_remote_that_may_only_be_read(source, faulty, storage_through, bucket, client, tmp_path):
    """The clone works, and says that nothing protects what it reads; a push fails, and changes nothing."""
    faulty.rule = lambda request: "403 AccessDenied" if request.writes else None
    remote = Remote("origin", locate(source.location.uri, storage_through))
    before = objects(client, bucket)
    local = locate(str(tmp_path / "clone.lance"), storage_through)
    result = cloned(remote, local)
    assert "could not record" in result.notes[0]
    assert rows_of(local) == [2, 3, 6]
    append(local, 10)
    with pytest.raises(PermissionDenied):
        push(local, remote, None, LocalRunner())
    assert objects(client, bucket) == before
    faulty.rule = lambda _: None
    push(local, remote, None, LocalRunner())
    assert rows_of(source.location) == [2, 3, 6, 10]


def test_a_remote_that_does_not_answer_is_told_from_one_that_is_not_there(source, closed_port, storage, tmp_path):
    local = locate(str(tmp_path / "clone.lance"), storage)
    cloned(source, local)
    append(local, 10)
    gone = {**storage, "aws_endpoint": closed_port, "client_max_retries": "0", "client_retry_timeout": "1"}
    silent = Remote("origin", locate(source.location.uri, gone))
    with pytest.raises(StorageFailure):
        fetch(local, silent, LocalRunner())
    with pytest.raises(StorageFailure):
        push(local, silent, None, LocalRunner())
    assert rows_of(source.location) == [2, 3, 6]
