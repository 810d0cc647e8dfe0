"""A platform before the server that refuses artifacts, and a network that drops them midway."""

from itertools import repeat

import grpc
import lance
import pytest
from support.connect_clients import client, connect_server
from support.connect_proxy import dropped_at_the_end, dropped_midway, proxy, refused

from lance_spark import LanceTable, capabilities, register
from lance_spark.errors import Refused

pytestmark = [pytest.mark.spark, pytest.mark.when(day=0)]

LOST = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL)


@pytest.fixture(scope="module")
def address(spark):
    with connect_server(spark) as address:
        yield address


@pytest.fixture
def way(address):
    """To the server."""
    with proxy(address) as way:
        yield way


@pytest.fixture
def remote(way, monkeypatch):
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")  # pyspark.sql.functions make columns of the client
    with client(way.url) as session:
        yield session


def counted_natively(session, root):
    register(session, catalog="lake", root=root)
    assert capabilities(session).native
    session.sql("CREATE NAMESPACE IF NOT EXISTS lake.ns")
    session.sql("CREATE OR REPLACE TABLE lake.ns.t AS SELECT id, id % 7 AS k FROM range(100)")
    session.sql("UPDATE lake.ns.t SET k = 9 WHERE id = 3").collect()
    return session.sql("SELECT count(*), max(k) FROM lake.ns.t").collect() == [(100, 9)]


@pytest.mark.parametrize("code", [grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNIMPLEMENTED], ids=str)
def test_where_artifacts_are_refused_the_plain_way_does_it_and_says_why(way, remote, code, tmp_path):
    way.fates = {name: repeat(refused(code)) for name in ("AddArtifacts", "ArtifactStatus")}
    reason = f"the server takes no artifacts: {code.name}: not here"
    with pytest.raises(Refused) as refusal:
        register(remote, catalog="lake", root=f"{tmp_path}/lake")
    assert reason in refusal.value.message
    told = capabilities(remote)
    assert (told.native, told.catalogs, reason in told.reason) == (False, (), True)
    path = f"{tmp_path}/t.lance"
    remote.range(100).selectExpr("id", "id % 7 AS k").write.format("lance").mode("append").save(path)
    assert remote.read.format("lance").load(path).where("k = 3").count() == 14
    table = LanceTable.for_path(path, spark=remote)
    changes = remote.createDataFrame([(3, 9), (200, 9)], "id long, k long")
    table.merge(changes, on="id").when_matched_update_all().execute()
    assert table.query(lambda frame: frame.where("k = 9")).count() == 1
    assert lance.dataset(path).count_rows() == 100


def test_the_way_to_a_catalog_asks_for_no_status_of_artifacts(way, remote, tmp_path):
    way.fates = {"ArtifactStatus": repeat(refused(grpc.StatusCode.UNIMPLEMENTED))}
    assert counted_natively(remote, f"{tmp_path}/lake")


@pytest.mark.parametrize("code", LOST, ids=str)
@pytest.mark.parametrize("drop", [dropped_midway, dropped_at_the_end])
def test_an_upload_that_is_lost_is_repeated_or_said_and_the_next_one_succeeds(way, remote, drop, code, tmp_path):
    way.fates = {"AddArtifacts": iter([drop(code)])}
    if code is not grpc.StatusCode.UNAVAILABLE:  # which PySpark's client repeats by itself
        with pytest.raises(Refused, match=f"{code.name}: the stream was dropped"):
            register(remote, catalog="lake", root=f"{tmp_path}/lake")
        assert not capabilities(remote).native
    assert counted_natively(remote, f"{tmp_path}/lake")
    assert way.asked.count("AddArtifacts") == 2
