"""A stream's batches on S3: checkpoint, tag, versions and rows lie there, with the stream's credentials."""

import json

import lance
import pyarrow as pa
import pytest
from support.s3_tables import read, rows, write

from lance_spark.actions.streams.sink import commit_stream, plan_stream
from lance_spark.errors import Refused, StorageFailure
from lance_spark.store import stream_sink
from lance_spark.store.writing import write_rows


def test_a_query_on_s3_is_exactly_once(table, storage, client, bucket, monkeypatch):
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

    def fails(*_, **__):
        raise StorageFailure("no answer")

    write(table, storage, [100])
    batch(0)
    with monkeypatch.context() as patch:
        patch.setattr(stream_sink.refs, "move_tag", fails)
        with pytest.raises(StorageFailure):
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
    with pytest.raises(Refused, match="is not there"):
        batch(3)
    assert read(table, storage, branch="ingest") == [0, 1, 2, 100]
    assert rows(table, storage) == [100]
