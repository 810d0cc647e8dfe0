"""A stream's batches on S3: checkpoint, tag, versions and rows lie there, with the stream's credentials."""

import json

import lance
import pyarrow as pa
import pytest
from support.s3_tables import rows

from lance_spark.actions.streams.sink import commit_stream, plan_stream
from lance_spark.errors import Refused, StorageFailure
from lance_spark.store import stream_sink
from lance_spark.store.writing import write_rows


def test_a_query_on_s3_is_exactly_once(table, storage, client, bucket, monkeypatch):
    client.put_object(Bucket=bucket, Key="c/metadata", Body=json.dumps({"id": "0-a"}))
    options = {
        "path": table,
        "checkpointLocation": f"s3://{bucket}/c",
        **{f"storage.{key}": value for key, value in storage.items()},
    }

    def batch(number):
        one = pa.table({"id": pa.array([number], pa.int64())})
        stream = plan_stream(options, one.schema, False)
        commit_stream(stream, write_rows(stream.job, one.to_batches()), number)

    def fails(*_, **__):
        raise StorageFailure("no answer")

    batch(0)
    with monkeypatch.context() as patch:
        patch.setattr(stream_sink.refs, "move_tag", fails)
        with pytest.raises(StorageFailure):
            batch(1)
    for number in (1, 2, 2):
        batch(number)
    assert rows(table, storage) == [0, 1, 2]
    dataset = lance.dataset(table, storage_options=storage)
    assert dataset.tags.list()["stream-0-a"]["version"] == dataset.version
    dataset.tags.delete("stream-0-a")
    with pytest.raises(Refused, match="is not there"):
        batch(3)
    assert rows(table, storage) == [0, 1, 2]
