"""Catalogs that a client of Spark Connect registers, served by a process beside the server."""

import time

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from support.connect_clients import client, connect_server, eventually, helper_process

from lance_spark import LanceCatalog, LanceTable, capabilities, register, unregister
from lance_spark.connect import messages
from lance_spark.errors import NotFound, Refused

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest")]


@pytest.fixture(scope="module")
def address(spark):
    with connect_server(spark) as address:
        yield address


@pytest.fixture
def remote(address):
    with client(address) as session:
        yield session


@pytest.fixture
def root(tmp_path):
    return f"{tmp_path}/lake"


@pytest.fixture
def lake(remote, root):
    register(remote, catalog="lake", root=root)
    remote.sql("CREATE NAMESPACE lake.ns")
    remote.sql("CREATE TABLE lake.ns.t AS SELECT id, id % 7 AS k FROM range(100)")
    return remote


def values(frame):
    return sorted(tuple(row) for row in frame.collect())


def stored(root):
    """The rows, as pylance reads them."""
    return lance.dataset(LanceCatalog(root).table("ns.t").location.uri).to_table().sort_by("id").to_pylist()


def test_a_catalog_has_everything_that_a_classic_session_has(lake, root):
    told = capabilities(lake)
    assert (told.native, told.catalogs, told.no_row_changes, told.no_batches) == (True, ("lake",), None, None)
    plan = lake.sql("EXPLAIN SELECT count(*) FROM lake.ns.t").first()[0]
    assert "LocalTableScan" in plan  # from metadata, without a job
    assert values(lake.sql("SELECT count(*), max(k) FROM lake.ns.t WHERE id > 50")) == [(49, 6)]
    assert values(lake.sql("DELETE FROM lake.ns.t WHERE id % 10 = 9")) == [(10, 0, 10, 0)]
    assert values(lake.sql("UPDATE lake.ns.t SET k = :k WHERE id = 11", args={"k": -1})) == [(1, 1, 0, 0)]
    source = lake.createDataFrame([(11, 5), (200, 6)], "id bigint, k bigint")
    merge = "MERGE INTO lake.ns.t t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * "
    assert values(lake.sql(f"{merge} WHEN NOT MATCHED THEN INSERT *", source=source)) == [(2, 1, 0, 1)]
    kept = [{"id": each, "k": 5 if each == 11 else each % 7} for each in range(100) if each % 10 != 9]
    assert stored(root) == [*kept, {"id": 200, "k": 6}]
    assert [row.version for row in lake.sql("DESCRIBE HISTORY lake.ns.t").collect()] == [4, 3, 2, 1]
    lake.sql("ALTER TABLE lake.ns.t CREATE BRANCH exp")
    lake.sql("INSERT INTO lake.ns.`t@exp` VALUES (300, 1)")
    names = ("t", "`t@exp`", "t VERSION AS OF 1")
    assert [lake.sql(f"SELECT count(*) FROM lake.ns.{name}").first()[0] for name in names] == [91, 92, 100]
    called = lake.sql("CALL lake.system.merge_branch(table => 'ns.t', branch => 'exp')")
    assert called.count() == 1
    assert len(stored(root)) == 92


@pytest.mark.when(day=0)
def test_a_load_and_a_handle_read_natively_and_stay_at_their_version(lake, root, tmp_path):
    path = f"{tmp_path}/t.lance"
    lance.write_dataset(pa.table({"id": [1, 2, 3]}), path)
    loaded = lake.read.format("lance").load(path)
    filtered = lake.read.format("lance").option("version", 1).option("filter", "id > 1").load(path)
    handle = LanceTable.for_path(path, spark=lake).to_df()
    lance.write_dataset(pa.table({"id": [4]}), path, mode="append")
    assert [frame.count() for frame in (loaded, filtered, handle)] == [3, 2, 3]
    assert messages.LOADED in loaded._plan.print()
    assert lake.read.format("lance").load(path).count() == 4
    given = lake.read.format("lance").schema("id long").load(path)
    assert values(given.where("id = 4")) == [(4,)]


@pytest.mark.when(day=0)
def test_errors_are_those_of_this_package(lake, tmp_path):
    with pytest.raises(NotFound, match="nope"):
        lake.read.format("lance").load(f"{tmp_path}/nope")
    lake.conf.set("spark.sql.catalog.other", "x")
    with pytest.raises(Refused, match="already has a catalog 'other'"):
        register(lake, catalog="other", root=f"{tmp_path}/lake")
    with pytest.raises(PySparkException, match="UNRESOLVED_COLUMN"):
        lake.sql("UPDATE lake.ns.t SET nope = 1")
    source = lake.range(3)
    with pytest.raises(PySparkException, match=r"spark\.sql"):
        source.mergeInto("lake.ns.t", source.id == 1).whenNotMatched().insertAll().merge()


@pytest.mark.when(day=0)
def test_sessions_do_not_see_each_others_catalogs(lake, address, tmp_path):
    with client(address) as second:
        register(second, catalog="lake", root=f"{tmp_path}/other")
        second.sql("CREATE NAMESPACE lake.only")
        assert values(second.sql("SHOW NAMESPACES IN lake")) == [("only",)]
        assert values(lake.sql("SHOW NAMESPACES IN lake")) == [("ns",)]
        unregister(second)
        assert not capabilities(second).native
        with pytest.raises(PySparkException):
            second.sql("SHOW NAMESPACES IN lake").collect()
    assert lake.sql("SELECT count(*) FROM lake.ns.t").first()[0] == 100


@pytest.mark.when(day=0)
def test_where_it_is_switched_off_there_is_no_catalog(remote, root, monkeypatch):
    monkeypatch.setenv("LANCE_SPARK_NATIVE", "0")
    with pytest.raises(Refused, match="LANCE_SPARK_NATIVE is '0'"):
        register(remote, catalog="lake", root=root)
    assert not capabilities(remote).native
    register(remote)


@pytest.mark.when(day=0)
def test_secrets_stand_in_no_setting_and_no_statement(remote, root):
    register(remote, catalog="lake", root=root, storage_options={"aws_secret_access_key": "verysecret"})
    assert not [row for row in remote.sql("SET").collect() if "verysecret" in str(row)]


@pytest.mark.when(day=0)
def test_a_process_that_is_killed_comes_back_with_its_catalogs(spark, lake, tmp_path):
    path = f"{tmp_path}/t.lance"
    lance.write_dataset(pa.table({"id": [1, 2, 3]}), path)
    loaded = lake.read.format("lance").load(path)
    for _ in range(2):
        time.sleep(10)  # one that dies at once is not started again by itself
        before = helper_process(spark)
        before.destroyForcibly().waitFor()
        assert eventually(lambda: lake.sql("SELECT count(*) FROM lake.ns.t").first()[0]) == 100
        assert helper_process(spark).pid() != before.pid()
        assert loaded.count() == 3
        assert values(lake.sql("UPDATE lake.ns.t SET k = 1 WHERE id = 5")) == [(1, 1, 0, 0)]


@pytest.mark.when(day=0)
def test_sessions_that_are_gone_leave_nothing(spark, address, root):
    gone = []
    for _ in range(4):
        with client(address) as session:
            register(session, catalog="lake", root=root)
            gone.append(session.session_id)
    with client(address) as session:
        register(session, catalog="lake", root=root)
        kept = spark.sparkContext._jvm.java.lang.System.getProperties()["lance_spark.helper"]["kept"]
        assert session.session_id in kept
        assert not {*gone} & {*kept}
        unregister(session)
        assert session.session_id not in kept
