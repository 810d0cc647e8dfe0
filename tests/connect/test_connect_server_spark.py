"""A server of Spark Connect in a process of its own, and the process that this package starts beside it."""

import os
import time

import pytest
from support.connect_clients import client
from support.connect_server import Server, processes_beside

from lance_spark import LanceCatalog, register

pytestmark = [pytest.mark.spark, pytest.mark.when(day=0)]


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="this system does not tell")
def test_the_process_ends_with_the_server_however_it_ends(tmp_path):
    server, root = Server(tmp_path), f"{tmp_path}/lake"
    mark = str(os.getpid())
    try:
        for rows in (10, 20):
            server.start({"MARK": mark, "ROUND": str(rows)})
            with client(server.url, release=False) as session:
                register(session, catalog="lake", root=root)
                session.sql("CREATE NAMESPACE IF NOT EXISTS lake.ns")
                session.sql(f"CREATE OR REPLACE TABLE lake.ns.t AS SELECT id FROM range({rows})")
                session.sql("UPDATE lake.ns.t SET id = -1 WHERE id = 0").collect()
                assert LanceCatalog(root).table("ns.t").count_rows("id >= 0") == rows - 1
                assert len(processes_beside(mark)) == 1
                server.kill()
            end = time.monotonic() + 60
            while processes_beside(mark):
                assert time.monotonic() < end
                time.sleep(0.1)
    finally:
        server.kill()
