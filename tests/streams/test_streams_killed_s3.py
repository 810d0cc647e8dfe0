"""Queries out of and into datasets on S3 whose driver is killed. See tests/streams/test_streams_killed_spark.py."""

import pytest
from support.killed_streams import Queries
from support.streamed_tables import KINDS, streamed_tables

pytestmark = [pytest.mark.s3, pytest.mark.spark, pytest.mark.slow, pytest.mark.when(spark="newest", day=0)]


@pytest.mark.parametrize("group", range(10))
@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_there_once(kind, group, bucket, storage, tmp_path):
    tables = streamed_tables(kind, group, tmp_path, f"s3://{bucket}/warehouse", storage)
    queries = Queries(tables, tmp_path)
    queries.follow_to_the_end(group)
    print(*queries.died, sep="\n")
    for table in tables:
        table.check(queries.died)
