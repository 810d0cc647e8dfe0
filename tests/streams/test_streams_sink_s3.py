"""A stream's batches on S3: checkpoint, tag, versions and rows lie there, with the stream's credentials."""

import json
import time
from datetime import timedelta
from unittest.mock import patch

import lance
import pyarrow as pa
import pytest
from support.killed import Killed, kill
from support.s3_tables import read, rows, write

from lance_spark.cleanup.cleanup import plan_cleanup
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import PermissionDenied, Refused, StorageFailure
from lance_spark.storage.datasets import locate
from lance_spark.streams import query_records
from lance_spark.streams.sink import commit_stream, plan_stream
from lance_spark.write.data_files import write_rows

pytestmark = pytest.mark.s3


def test_a_query_on_s3_is_exactly_once(table, storage, client, bucket):
    client.put_object(Bucket=bucket, Key="c/metadata", Body=json.dumps({"id": "0-a"}))
    options = {
        "path": table,
        "checkpointLocation": f"s3://{bucket}/c",
        "branch": "ingest",
        "create_branch": "true",
        "optimize_every": "2",
        **{f"storage.{key}": value for key, value in storage.items()},
    }

    def batch(number):
        one = pa.table({"id": pa.array([number], pa.int64())})
        stream = plan_stream(options, one.schema, False)
        commit_stream(stream, write_rows(stream.job, one.to_batches()), number)

    write(table, storage, [100])
    batch(0)
    with (
        patch.object(query_records.refs, "move_tag", side_effect=StorageFailure("no answer")),
        pytest.raises(StorageFailure),
    ):
        batch(1)
    for number in (1, 2, 2):
        batch(number)
    assert read(table, storage, branch="ingest") == [0, 1, 2, 100]
    dataset = lance.dataset(table, storage_options=storage)
    branch = dataset.checkout_version(("ingest", None))
    assert [fragment.count_rows() for fragment in branch.get_fragments()] == [
        1,
        2,
        1,
    ]  # main's, and those of the batches
    tag = dataset.tags.list()["stream-0-a"]
    assert tag["branch"] == "ingest"
    assert branch.read_transaction(tag["version"]).transaction_properties["lance_spark.stream.batch"] == "2"
    dataset.tags.delete("stream-0-a")
    with pytest.raises(Refused, match="is missing"):
        batch(3)
    assert read(table, storage, branch="ingest") == [0, 1, 2, 100]
    assert rows(table, storage) == [100]


class Stream:
    """A query into branch ``ingest`` whose batches have one row each."""

    def __init__(self, table):
        self.table = table

    def batch(self, number, storage):
        stored = {f"storage.{key}": value for key, value in storage.items()}
        one = pa.table({"id": pa.array([number], pa.int64())})
        stream = plan_stream({"path": self.table, "query_id": "q", "branch": "ingest", **stored}, one.schema, False)
        commit_stream(stream, write_rows(stream.job, one.to_batches()), number)


def test_a_query_goes_on_after_a_cleanup_by_one_note_below_the_branch(
    table, storage, storage_through, faulty, client, bucket, monkeypatch
):
    def cleaned(storage):
        policy = CleanupPolicy(retain_versions=2, commit_window=timedelta(0))
        return plan_cleanup(locate(table, storage), policy, LocalRunner(4), time.time_ns()).apply()

    def notes():
        found = client.list_objects_v2(Bucket=bucket, Prefix="warehouse/").get("Contents", [])
        return [one["Key"] for one in found if "_streams" in one["Key"]]

    def asked_for_notes():
        return [request.method for request in faulty.seen if "_streams" in request.key]

    stream = Stream(table)
    write(table, storage, [100])
    lance.dataset(table, storage_options=storage).create_branch("ingest", storage_options=storage)
    stream.batch(0, storage)
    with monkeypatch.context() as patch:
        patch.setattr(query_records.refs, "move_tag", kill)
        with pytest.raises(Killed):
            stream.batch(1, storage)
    others = [*range(1000, 1012)]
    for row in others:
        write(table, storage, [row], branch="ingest")
    before = read(table, storage, branch="ingest")
    faulty.rule = lambda request: "403 AccessDenied" if request.writes and "_streams" in request.key else None
    with pytest.raises(PermissionDenied):
        cleaned(storage_through)
    assert not [request for request in faulty.seen if request.method in ("DELETE", "POST")]
    faulty.rule = lambda _: None
    assert cleaned(storage).complete
    (note,) = notes()
    assert note.startswith("warehouse/table.lance/tree/ingest/_streams/")
    assert read(table, storage, branch="ingest") == before
    faulty.seen.clear()
    stream.batch(1, storage_through)
    assert asked_for_notes() == ["GET", "GET", "GET"]  # the names, the note, and the names again
    stream.batch(2, storage_through)
    faulty.seen.clear()
    stream.batch(3, storage_through)
    assert asked_for_notes() == []
    assert read(table, storage, branch="ingest") == sorted([0, 1, 2, 3, 100, *others])
