"""Catalogs that a client of Spark Connect registers, served by a process beside the server."""

import time
from datetime import datetime, timedelta, timezone

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.connect import functions as F  # noqa: N812 - the usual name for it
from support.connect_clients import client, connect_server, eventually, helper_process

from lance_spark import LanceCatalog, LanceTable, capabilities, register, unregister
from lance_spark.connect import messages
from lance_spark.errors import InvalidName, InvalidOption, NotFound, Refused

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


ERRORS = [
    ("SELECT * FROM lake.ns.`t@nope`", NotFound, "no branch or tag 'nope'"),
    ("SELECT * FROM lake.ns.t VERSION AS OF 99", NotFound, "no version 99"),
    ("UPDATE lake.ns.`t@nope` SET k = 1", NotFound, "no branch or tag 'nope'"),
    ("CALL lake.system.create_branch(table => 'ns.t', name => '..')", InvalidName, "not a valid branch name"),
    ("OPTIMIZE lake.ns.nope", NotFound, "there is no such table"),
]


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
    for statement, kind, said in ERRORS:
        with pytest.raises(kind, match=said) as raised:
            lake.sql(statement).collect()
        assert isinstance(raised.value, AnalysisException)


@pytest.mark.when(day=0)
def test_a_merge_of_a_data_frame_runs_on_the_server(lake, root):
    source = lake.createDataFrame([(11, 5), (200, 6)], "id bigint, k bigint").alias("s")
    same = F.expr("lake.ns.t.id = s.id")
    source.mergeInto("lake.ns.t", same).whenMatched().updateAll().whenNotMatched().insertAll().merge()
    by_source = source.mergeInto("lake.ns.t", same).whenMatched(F.expr("s.k > 5")).delete()
    by_source.whenNotMatchedBySource(F.expr("id = 3")).update({"k": F.lit(77)}).merge()
    changed = {3: 77, 11: 5}
    assert stored(root) == [{"id": each, "k": changed.get(each, each % 7)} for each in range(100)]
    twice = lake.createDataFrame([(11, 5), (11, 6)], "id bigint, k bigint").alias("s")
    with pytest.raises(Refused, match="match the row with id = 11"):
        twice.mergeInto("lake.ns.t", same).whenMatched().updateAll().merge()
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        source.mergeInto("lake.ns.t", F.expr("lake.ns.t.nope = s.id")).whenMatched().delete().merge()


@pytest.mark.when(day=0)
def test_a_save_goes_through_the_process(lake, tmp_path):
    path = f"{tmp_path}/w.lance"
    frame = lake.range(10).withColumn("s", F.col("id").cast("string"))
    frame.write.format("lance").mode("append").save(path)
    frame.write.format("lance").mode("append").option("commit_message", "again").save(path)
    assert lance.dataset(path).count_rows() == 20
    frame.write.mode("overwrite").save(path, format="lance")
    rows = [{"id": each, "s": str(each)} for each in range(10)]
    assert lance.dataset(path).to_table().sort_by("id").to_pylist() == rows
    told = LanceTable.for_path(path, spark=lake).history().collect()
    assert [row.message for row in told] == [None, "again", None]
    with pytest.raises(AnalysisException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        frame.write.format("lance").save(path)
    for act in (frame.write.format("lance").mode("append").save, lake.read.format("lance").load):
        with pytest.raises(InvalidOption, match="is a relative path"):
            act("relative.lance")
    catalog = LanceCatalog(f"{tmp_path}/named")
    catalog.create_namespace("ns")
    catalog.write_table(frame, "ns.t")  # a name, and no relative path
    frame.write.format("lance").mode("append").option("catalog", catalog.catalog.uri).save("ns.t")
    assert catalog.table("ns.t").count_rows() == 20


@pytest.mark.when(day=0)
def test_names_are_those_of_the_catalog_and_mistakes_are_told_as_in_a_classic_session(lake, root):
    lake.range(3).write.format("lance").mode("append").option("catalog", root).save("ns.w")
    assert lake.read.format("lance").option("catalog", root).load("ns.w").count() == 3
    lake.sql("CREATE TABLE lake.top AS SELECT 1 AS id")
    lake.catalog.setCurrentCatalog("lake")
    assert [table.name for table in lake.catalog.listTables()] == ["top"]
    lake.catalog.setCurrentCatalog("spark_catalog")
    names = ("lake.ns.t", "lake.ns.`t@1`", "lake.ns.`t@9`", "lake.ns.`nope@x`")
    assert [name for name in names if lake.catalog.tableExists(name)] == [*names[:2]]
    lake.sql("CREATE TEMPORARY VIEW seen AS SELECT * FROM lake.ns.t")
    merge = lake.range(3).alias("s").mergeInto("seen", F.expr("seen.id = s.id")).whenMatched().delete().merge
    for change in (lambda: lake.sql("UPDATE seen SET k = 1"), merge):
        with pytest.raises(Refused, match="it is a view"):
            change()
    with pytest.raises(Refused, match="There is nothing to analyze"):
        lake.sql("ANALYZE TABLES IN lake.ns COMPUTE STATISTICS")
    with pytest.raises(InvalidOption, match="but a stream continues"):
        lake.readStream.option("versionAsOf", "1").table("lake.ns.t")


@pytest.mark.when(day=0)
def test_a_moment_without_an_offset_is_one_of_the_sessions_zone(lake, tmp_path):
    path = f"{tmp_path}/t.lance"
    lance.write_dataset(pa.table({"id": [1]}), path)
    time.sleep(0.01)
    moment = datetime.now(timezone(timedelta(hours=9))).strftime("%Y-%m-%d %H:%M:%S.%f")  # of Tokyo
    lance.write_dataset(pa.table({"id": [2]}), path, mode="append")
    lake.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    assert lake.read.format("lance").option("timestampAsOf", moment).load(path).count() == 1
    lake.conf.set("spark.sql.session.timeZone", "America/New_York")
    assert lake.read.format("lance").option("timestampAsOf", moment).load(path).count() == 2


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
def test_a_second_client_starts_no_python_of_the_server(lake, address, root, monkeypatch):
    def knows_what_the_first_one_learned():  # the process writes it down beside the first statements
        with client(address) as other:
            return other.conf.get(messages.READY, "")

    eventually(knows_what_the_first_one_learned)
    monkeypatch.setattr("lance_spark.connect.client.learned", lambda *_: pytest.fail("took seconds"))
    with client(address) as second:
        register(second, catalog="lake", root=root)
        assert values(second.sql("UPDATE lake.ns.t SET k = 1 WHERE id = 3")) == [(1, 1, 0, 0)]


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
