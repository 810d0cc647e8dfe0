"""A stream on S3: manifests, refs and rows are read, and the tag is moved, with the credentials of the stream."""

import lance
import pytest
from support.s3_tables import write
from support.stream_sources import Query, ids

from lance_spark.core.refs import RefSpec
from lance_spark.errors import Refused
from lance_spark.refs.refs import create_branch
from lance_spark.storage.datasets import locate

pytestmark = pytest.mark.s3


def test_a_branch_is_followed_and_versions_that_are_gone_are_refused(table, storage, client, bucket):
    write(table, storage, [1, 2, 3])
    location = locate(table, storage)
    create_branch(location, "exp", RefSpec())
    options = {f"storage.{key}": value for key, value in storage.items()}
    query = Query(table, branch="exp", query_id="s3", max_versions_per_trigger=1, **options)
    assert ids(query.drain()) == [1, 2, 3]
    for number in (4, 5):
        write(table, storage, [number], branch="exp")
    assert ids(query.restart().drain()) == [1, 2, 3, 4, 5]
    assert [len(batch) for batch in query.batches] == [3, 1, 1]
    branch = lance.dataset(location.branch_uri("exp"), storage_options=storage)
    tag = lance.dataset(table, storage_options=storage).tags.list()["reader-s3-exp"]
    assert (tag["branch"], tag["version"]) == ("exp", branch.version)
    feed = Query(table, branch="exp", changes="true", starting_version=1, **options)
    branch.delete("id = 2")
    assert [(row["id"], row["_change_type"]) for row in feed.restart().drain()][-1] == (2, "delete")
    with pytest.raises(Refused, match="appended rows only"):
        query.drain()
    for number in (6, 7, 8):
        write(table, storage, [number], branch="exp")
    keys = [entry["Key"] for entry in client.list_objects_v2(Bucket=bucket)["Contents"]]
    (gone,) = (key for key in keys if f"/tree/exp/_versions/{2**64 - 1 - 5:020}" in key)
    client.delete_object(Bucket=bucket, Key=gone)
    with pytest.raises(Refused, match="is gone"):
        feed.drain()
    # What version 6 changed is not known without version 5.
    assert [row["id"] for row in feed.restart(fail_on_data_loss="false").drain()][-2:] == [2, 8]
