"""Queries on Spark Connect whose server is killed with its JVM, or whose client alone; another client goes on.

See tests/streams/test_streams_killed_spark.py.
"""

import pytest
from support.connect_server import Server
from support.killed_streams import Queries
from support.streamed_tables import KINDS, streamed_tables

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.when(spark="newest", day=0)]


@pytest.fixture
def server(tmp_path):
    """Not started yet."""
    server = Server(tmp_path)
    yield server
    server.kill()


@pytest.mark.parametrize("group", range(10))
@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_there_once(kind, group, server, tmp_path):
    tables = streamed_tables(kind, group, tmp_path, str(tmp_path))
    queries = Queries(tables, tmp_path, server)
    queries.follow_to_the_end(group)
    print(*queries.died, sep="\n")
    for table in tables:
        table.check(queries.died)
