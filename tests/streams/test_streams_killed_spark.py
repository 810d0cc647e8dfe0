"""Real streaming queries whose driver is killed with its JVM, and started again: every row is there once.

On S3: tests/streams/test_streams_killed_s3.py. On Spark Connect: tests/streams/test_streams_killed_connect.py. Without
Spark: tests/streams/test_streams_sink_killed.py.
"""

import pytest
from support.dying import function_at
from support.killed_streams import MOMENTS, Queries
from support.streamed_tables import KINDS, streamed_tables


@pytest.mark.parametrize("kind", KINDS)
def test_the_moments_at_which_they_die_are_in_the_code(kind):
    for moment in MOMENTS[kind]:
        assert moment.of_spark or callable(function_at(moment.place))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.when(day=0)
@pytest.mark.parametrize("group", range(10))
@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_there_once(kind, group, tmp_path):
    tables = streamed_tables(kind, group, tmp_path, str(tmp_path))
    queries = Queries(tables, tmp_path)
    queries.follow_to_the_end(group)
    print(*queries.died, sep="\n")
    for table in tables:
        table.check(queries.died)
