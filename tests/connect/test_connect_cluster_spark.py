"""A server of Spark Connect in front of a cluster: executors get this package's classes, whenever they come."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import lance
import pytest
from support.connect_clients import client
from support.connect_server import PATIENCE, Server
from support.spark_cluster import has_an_executor, standalone_cluster, start_worker

from lance_spark import LanceCatalog, capabilities, register

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.when(spark="newest", day=0)]

ROWS = 1000


def until(what):
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end
        time.sleep(0.1)


def slow():
    """A function without a module: executors have none of the tests'."""

    def slowly(batches):
        import time

        for batch in batches:
            time.sleep(3)
            yield batch

    return slowly


def test_an_executor_that_joins_later_has_the_classes_and_one_that_dies_loses_nothing(tmp_path):
    first, second, kept = tmp_path / "cluster" / "first", tmp_path / "cluster" / "second", []
    with standalone_cluster(tmp_path / "cluster", workers=0) as url, ThreadPoolExecutor(1) as aside:
        server = Server(tmp_path, url)
        try:
            kept.append(start_worker(first, url))
            server.start({})
            with client(server.url, release=False) as session:
                register(session, catalog="lake", root=f"{tmp_path}/lake")
                session.sql("CREATE NAMESPACE lake.ns")
                session.range(0, ROWS, 1, 4).selectExpr("id", "id % 7 AS k").writeTo("lake.ns.t").create()
                data = os.path.join(LanceCatalog(f"{tmp_path}/lake").table("ns.t").location.uri, "data")
                before = len(os.listdir(data))
                kept.append(start_worker(second, url))
                until(lambda: has_an_executor(second))
                more = session.range(ROWS, ROWS + 8, 1, 8).selectExpr("id", "id % 7 AS k")
                writing = aside.submit(more.mapInArrow(slow(), "id BIGINT, k BIGINT").writeTo("lake.ns.t").append)
                until(lambda: writing.done() or len(os.listdir(data)) > before)
                assert not writing.done(), writing.result()
                os.killpg(kept[0].pid, signal.SIGKILL)
                writing.result(PATIENCE)
                assert capabilities(session).no_batches is None
                sums = session.sql("SELECT k, count(*), sum(id) FROM lake.ns.t WHERE id >= 7 GROUP BY k").collect()
                model = {k: [each for each in range(7, ROWS + 8) if each % 7 == k] for k in range(7)}
                assert {row[0]: (row[1], row[2]) for row in sums} == {k: (len(v), sum(v)) for k, v in model.items()}
                assert session.sql("UPDATE lake.ns.t SET k = -1 WHERE id % 2 = 0").first()[0] == (ROWS + 8) // 2
                server.kill()
        finally:
            server.kill()
            for worker in kept:
                if worker.poll() is None:
                    os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()
    stored = lance.dataset(os.path.dirname(data))
    assert stored.version == 3
    assert stored.to_table().sort_by("id").to_pylist() == [
        {"id": each, "k": each % 7 if each % 2 else -1} for each in range(ROWS + 8)
    ]
