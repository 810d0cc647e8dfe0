"""A change feed on S3: manifests, deletion files and rows are read with the credentials of the handle."""

import lance
import pytest
from support.feeds import brief
from support.s3_tables import rows, write

from lance_spark.changes.changes import feed_frame, find_ends, plan_changes
from lance_spark.changes.feed_rules import FeedOptions
from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import NotFound
from lance_spark.refs.refs import create_branch
from lance_spark.storage.datasets import locate
from lance_spark.storage.resolving import resolve

pytestmark = pytest.mark.s3


def test_what_a_branch_changed_and_a_version_that_is_gone(table, storage, client, bucket):
    write(table, storage, [1, 2, 3])
    write(table, storage, [4])
    location = locate(table, storage)
    create_branch(location, "exp", RefSpec())
    branch = lance.dataset(location.branch_uri("exp"), storage_options=storage)
    branch.delete("id = 2")
    branch.update({"id": "30"}, where="id = 3")
    write(table, storage, [5], branch="exp")
    assert rows(table, storage, "exp") == [1, 4, 5, 30]

    def feed(since):
        ends = find_ends(location, resolve(location, RefSpec("exp")), since, None)
        return brief(feed_frame(LocalRunner(), plan_changes(location, ends, FeedOptions())).to_pylist())

    assert feed("main") == sorted([(3, "del", 2), (4, "del", 3), (4, "ins", 30), (5, "ins", 5)], key=str)
    keys = [entry["Key"] for entry in client.list_objects_v2(Bucket=bucket)["Contents"]]
    (gone,) = (key for key in keys if f"/tree/exp/_versions/{2**64 - 1 - 4:020}" in key)
    client.delete_object(Bucket=bucket, Key=gone)
    with pytest.raises(NotFound, match="Version 4 of 'exp' is gone"):
        feed("main")
    assert feed("exp@5") == []
