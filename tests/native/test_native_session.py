"""Registering a session: catalogs, errors, threads, and what is left when it is taken back."""

import gc
import os
import time
import weakref
import zipfile
from concurrent.futures import ThreadPoolExecutor

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.readwriter import DataFrameReader

from lance_spark import LanceCatalog, LanceTable, capabilities, register, unregister
from lance_spark.errors import InvalidOption, NotFound, Refused
from lance_spark.jvm import names, switches
from lance_spark.jvm.switches import SWITCH
from lance_spark.native import scan

OFF = os.environ.get(SWITCH) == "0"
pytestmark = [
    pytest.mark.spark,
    pytest.mark.when(newest=0.45, oldest=0.1),
    pytest.mark.skipif(OFF, reason="the native way is switched off"),
]


@pytest.fixture
def session(spark):
    """The session that all tests share, as it was before anybody registered it."""
    unregister(spark)
    yield spark
    spark.catalog.setCurrentCatalog("spark_catalog")
    unregister(spark)


@pytest.fixture
def configured():
    """Sets a configuration of a session for one test."""
    done = []

    def configure(session, key, value):
        session.conf.set(key, value)
        done.append((session, key))

    yield configure
    for session, key in done:
        session.conf.unset(key)


@pytest.fixture
def table(uri):
    lance.write_dataset(pa.table({"id": list(range(10))}), uri)
    return uri


def test_one_line_switches_it_on(session, table):
    assert not capabilities(session).native
    register(session)
    found = capabilities(session)
    assert found.native
    assert found.catalogs == ("lance",)
    assert session.sql(f"SELECT sum(id) FROM lance.`{table}`").first()[0] == 45


@pytest.mark.when(oldest=1.0)
def test_unregister_takes_everything_back(session, table):
    register(session, catalog="lake", root=table.rpartition("/")[0])
    unregister(session)
    assert not capabilities(session).native
    assert session.catalog.listCatalogs("lake") == []
    assert type(session.read.format("lance")) is DataFrameReader
    assert session.read.format("lance").load(table).count() == 10


def test_other_formats_are_left_alone(session, tmp_path):
    register(session)
    session.range(3).write.parquet(str(tmp_path / "p"))
    assert type(session.read.format("parquet")) is DataFrameReader
    assert session.read.format("lance").format("parquet").load(str(tmp_path / "p")).count() == 3


def test_options_count_wherever_they_were_given(session, table):
    register(session)
    lance.dataset(table).delete("id > 4")
    assert session.read.option("version", 1).format("lance").load(table).count() == 10
    assert session.read.format("lance").options(version="1").load(path=table).count() == 10
    assert session.read.format("lance").load(table, version=1).count() == 10
    assert session.read.load(table, format="lance", version=1).count() == 10


def test_time_travel_in_sql(session, table):
    register(session)
    LanceTable.for_path(table, spark=session).tags.create("t1")
    LanceTable.for_path(table, spark=session).branches.create("exp/a")
    lance.dataset(table).delete("id > 4")
    refs = {"1": 10, "2": 5, "'1'": 10, "'t1'": 10, "'exp/a'": 10, "'main'": 5, "'main@1'": 10}
    for ref, rows in refs.items():
        assert session.sql(f"SELECT * FROM lance.`{table}` VERSION AS OF {ref}").count() == rows, ref
    moment = lance.dataset(table).versions()[0]["timestamp"]
    found = session.sql(f"SELECT * FROM lance.`{table}` TIMESTAMP AS OF '{moment.isoformat()}'")
    assert found.count() == 10


def test_a_catalog_of_a_root(session, tmp_path):
    catalog = LanceCatalog(str(tmp_path), spark=session)
    catalog.create_namespace("ns1")
    catalog.write_table(session.range(5), "ns1.numbers")
    catalog.write_table(session.range(3), "top")
    register(session, catalog="lake", root=str(tmp_path))
    assert session.sql("SELECT * FROM lake.ns1.numbers n JOIN lake.top t ON n.id = t.id").count() == 3
    assert [row.tableName for row in session.sql("SHOW TABLES IN lake.ns1").collect()] == ["numbers"]
    assert [row.namespace for row in session.sql("SHOW NAMESPACES IN lake").collect()] == ["ns1"]
    session.sql("USE lake.ns1")
    assert session.table("numbers").count() == 5
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        session.table("lake.ns1.nothing")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        session.sql("USE lake.nowhere")


def test_a_catalog_has_its_own_storage_options(session, table):
    register(session, catalog="other", storage_options={"aws_region": "nowhere-1"})
    assert session.table(f"other.`{table}`").count() == 10
    assert "nowhere-1" not in session.table(f"other.`{table}`")._jdf.queryExecution().toString()


def test_a_name_is_for_one_catalog(session, tmp_path, configured):
    configured(session, "spark.sql.catalog.taken", "some.other.Catalog")
    with pytest.raises(Refused, match="already has a catalog 'taken'"):
        register(session, catalog="taken", root=str(tmp_path))
    with pytest.raises(InvalidOption, match="needs the name of a catalog"):
        register(session, root=str(tmp_path))


def test_a_catalog_of_somebody_else_stays(session, configured):
    configured(session, "spark.sql.catalog.lance", "some.other.Catalog")
    register(session)
    assert capabilities(session).native
    assert capabilities(session).catalogs == ()


@pytest.mark.parametrize(
    "question",
    [
        lambda session, uri: session.read.format("lance").load(f"{uri}.not"),
        lambda session, uri: session.read.format("lance").option("version", 9).load(uri),
        lambda session, uri: session.table(f"lance.`{uri}.not`"),
        lambda session, uri: session.sql(f"SELECT * FROM lance.`{uri}` VERSION AS OF 9"),
        lambda session, uri: session.sql(f"SELECT * FROM lance.`{uri}` VERSION AS OF 'tagg'"),
    ],
)
def test_errors_are_ours_and_sparks(session, table, question):
    register(session)
    with pytest.raises(NotFound) as ours:
        question(session, table)
    assert isinstance(ours.value, AnalysisException)
    assert "Traceback" not in str(ours.value)


def test_a_bad_option_says_so(session, table):
    register(session)
    with pytest.raises(InvalidOption, match="colums"):
        session.read.format("lance").option("colums", "id").load(table)


def test_a_filter_of_the_user_that_cannot_be_read(session, table):
    register(session)
    with pytest.raises(InvalidOption, match="nope"):
        session.read.format("lance").option("filter", "nope > 5").load(table).collect()


def test_brackets_of_the_users_filter_are_its_own(session, table):
    register(session)
    with pytest.raises(InvalidOption, match="closes a parenthesis"):
        session.read.format("lance").option("filter", "id > 1) OR (id < 1").load(table)
    frame = session.read.format("lance").option("filter", "id IN (8, 1) OR id = length(')')").load(table)
    assert [row.id for row in frame.where("id > 5").collect()] == [8]


def test_many_threads(session, table, monkeypatch):
    register(session)
    monkeypatch.setattr(scan, "LOCAL_ROWS", 0)
    frame = session.read.format("lance").load(table)

    def ask(at):
        return frame.where(f"id >= {at % 10}").count(), session.table(f"lance.`{table}`").count()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(24))) == [(10 - at % 10, 10) for at in range(24)]


@pytest.mark.parametrize("missing", [names.PYTHON_READER_FACTORY, names.RELATION, names.ARROW_CONVERTERS])
def test_a_missing_name_leads_to_the_plain_source(session, table, monkeypatch, missing):
    monkeypatch.setattr(names, "CLASSES", (*names.CLASSES, f"{missing}Gone"))
    register(session)
    found = capabilities(session)
    assert not found.native
    assert f"{missing}Gone" in found.reason
    assert type(session.read.format("lance")) is DataFrameReader
    assert session.read.format("lance").load(table).where("id > 5").count() == 4
    assert LanceTable.for_path(table, spark=session).to_df().count() == 10
    with pytest.raises(Refused, match="cannot have a catalog"):
        register(session, catalog="lake", root=table)
    assert not session.sparkContext._gateway.callback_server_parameters.propagate_java_exceptions


def test_it_can_be_switched_off(session, table, monkeypatch):
    register(session, native=False)
    assert "native=False" in capabilities(session).reason
    assert LanceTable.for_path(table, spark=session).to_df().count() == 10
    assert not capabilities(session).native
    register(session)
    assert capabilities(session).native
    unregister(session)
    monkeypatch.setenv(switches.SWITCH, "0")
    register(session)
    assert switches.SWITCH in capabilities(session).reason


def test_each_session_is_registered_on_its_own(session, table):
    other = session.newSession()
    register(session)
    assert not capabilities(other).native
    register(other, catalog="more")
    assert other.table(f"more.`{table}`").count() == 10
    assert capabilities(session).catalogs == ("lance",)
    assert LanceTable.for_path(table, spark=other).to_df().count() == 10
    unregister(other)
    assert type(session.read.format("lance")) is not DataFrameReader


def test_proxies_are_let_go(session, table):
    """Python keeps what Java holds, no longer."""
    register(session)
    frame = session.read.format("lance").load(table)
    held = session.sparkContext._gateway.gateway_property.pool

    def ask():
        for at in range(20):
            frame.where(f"id > {at % 10}").collect()

    ask()
    before = len(held)
    for _ in range(5):
        ask()
        gc.collect()
        session.sparkContext._jvm.System.gc()
    for _ in range(50):
        if len(held) <= 2 * before:
            break
        time.sleep(0.1)
    assert len(held) <= 2 * before


def test_views_and_temporary_views(session, table):
    register(session)
    session.read.format("lance").load(table).createOrReplaceTempView("ten")
    assert session.sql("SELECT count(*) FROM ten WHERE id > 5").first()[0] == 4
    last = "id IN (SELECT max(id) FROM ten)"
    query = f"SELECT id FROM ten WHERE {last} OR EXISTS (SELECT 1 FROM ten b WHERE b.id = ten.id + 8)"
    assert sorted(row.id for row in session.sql(query).collect()) == [0, 1, 9]
    session.catalog.dropTempView("ten")


def test_spark_does_not_warn_that_our_data_source_replaces_itself(spark):
    register(spark)
    jvm = spark.sparkContext._jvm
    log4j = jvm.org.apache.logging.log4j
    appenders = log4j.LogManager.getContext(False).getConfiguration().getRootLogger().getAppenders().values()

    def is_kept_back(text):
        event = log4j.core.impl.Log4jLogEvent.newBuilder().setLevel(log4j.Level.WARN).setLoggerName("Any")
        made = event.setMessage(log4j.message.SimpleMessage(text)).build()
        found = {appender.isFiltered(made) for appender in appenders}
        assert len(found) == 1
        return found.pop()

    for kind in ("statically", "previously"):
        for known in ("lance", "lance_spark"):
            assert is_kept_back(f"The data source {known} replaced a {kind} registered data source.")
        assert not is_kept_back(f"The data source mine replaced a {kind} registered data source.")
    assert not is_kept_back("The data source lance cannot be loaded.")


# --- Sessions made from a registered one


def clone_of(session):
    """As Spark clones the session for a streaming query, and wraps the clone for a function of foreachBatch."""
    return SparkSession(session.sparkContext, session._jsparkSession.cloneSession())


@pytest.mark.when(newest=0.6, oldest=0.4)
@pytest.mark.parametrize("made", [lambda session: session.newSession(), clone_of], ids=["new", "clone"])
def test_a_session_made_from_a_registered_one_has_its_catalogs(lake, spark, made):
    spark.sql("CREATE TABLE lake.ns1.t AS SELECT 1 AS id, 'a' AS v")
    child = made(spark)
    assert child.sql("UPDATE lake.ns1.t SET v = 'b'").first()[0] == 1
    child.createDataFrame([(1, "c"), (2, "d")], "id int, v string").createOrReplaceTempView("s")
    merge = (
        "MERGE INTO lake.ns1.t t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert child.sql(merge).first()[0] == 2
    child.table("s").writeTo("lake.ns1.t").append()
    child.table("s").write.mode("append").saveAsTable("lake.ns1.t")
    assert child.table("lake.ns1.t").count() == 6
    path = LanceCatalog(lake.catalog.uri).table("ns1.t").location.uri
    child.table("s").write.format("lance").mode("append").save(path)
    assert child.sql(f"SELECT count(*) FROM lance.`{path}`").first()[0] == 8
    assert capabilities(child).catalogs == capabilities(spark).catalogs


@pytest.mark.when(day=0)
def test_a_function_of_foreach_batch_has_the_catalogs(lake, spark, tmp_path):
    spark.sql("CREATE TABLE lake.ns1.src AS SELECT 1 AS id")
    spark.sql("CREATE TABLE lake.ns1.t (id INT)")
    seen = []

    def insert(batch, _):
        batch.createOrReplaceTempView("batch")
        session = batch.sparkSession
        session.sql("MERGE INTO lake.ns1.t t USING batch s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
        register(session, catalog="own", root=lake.catalog.uri)  # as in code that does not know of the inheritance
        seen.append([row.id for row in session.sql("SELECT id FROM own.ns1.t ORDER BY id").collect()])

    query = spark.readStream.table("lake.ns1.src").writeStream.foreachBatch(insert)
    started = query.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    started.processAllAvailable()
    spark.sql("INSERT INTO lake.ns1.src VALUES (2)")
    started.processAllAvailable()
    started.stop()
    assert seen == [[1], [1, 2]]
    assert "own" not in capabilities(spark).catalogs


def test_a_session_made_from_another_has_no_more_rights(session, tmp_path):
    catalog = LanceCatalog(str(tmp_path), spark=session)
    catalog.create_namespace("ns1")
    catalog.write_table(session.range(3), "ns1.t")
    catalog.tags.create("v1")
    register(session, catalog="lake", root=str(tmp_path), tag="v1")
    catalog.write_table(session.range(2), "ns1.t", mode="append")
    for made in (session.newSession(), clone_of(session)):
        assert made.table("lake.ns1.t").count() == 3
        with pytest.raises(Refused, match="never changes"):
            made.sql("DELETE FROM lake.ns1.t")


def test_a_session_registers_for_those_made_from_it_and_not_the_other_way(session, tmp_path):
    register(session)
    child = session.newSession()
    register(child, name="lance_child", catalog="lake", root=str(tmp_path))
    assert capabilities(child).catalogs == ("lance", "lake")
    assert capabilities(session).catalogs == ("lance",)
    assert capabilities(child.newSession()).catalogs == ("lance", "lake")
    unregister(child)
    assert not capabilities(child).native
    assert capabilities(session).native


@pytest.mark.when(day=0)
def test_tasks_of_a_session_with_isolated_artifacts_have_the_classes(session, tmp_path):
    isolated = session.newSession()
    for number, made in enumerate((lambda found: found, lambda found: found.newSession(), clone_of)):
        with zipfile.ZipFile(tmp_path / f"{number}.jar", "w") as jar:
            jar.writestr("anything", "of the user")
        child = made(isolated)
        child.conf.set("spark.sql.artifact.isolation.enabled", "true")
        child.addArtifact(str(tmp_path / f"{number}.jar"))
        register(child, catalog=f"lake{number}", root=str(tmp_path / "lake"))
        child.sql(f"CREATE NAMESPACE IF NOT EXISTS lake{number}.ns")
        child.sql(f"CREATE OR REPLACE TABLE lake{number}.ns.t AS SELECT id, id % 3 AS k FROM range(30)")
        child.addArtifact(str(tmp_path / f"{number}.jar"))
        child.sql(f"INSERT INTO lake{number}.ns.t SELECT id, 7 FROM range(2)")
        found = child.sql(f"SELECT k, count(*) AS n FROM lake{number}.ns.t WHERE id > 0 GROUP BY k ORDER BY k")
        assert [tuple(row) for row in found.collect()] == [(0, 9), (1, 10), (2, 10), (7, 1)]
        assert capabilities(child).no_batches is None


def test_unregister_takes_back_what_was_inherited(session):
    register(session)
    children = [session.newSession(), clone_of(session)]
    unregister(session)
    assert [capabilities(each).native for each in children] == [False, False]
    assert not capabilities(session.newSession()).native


def test_a_session_that_was_made_from_another_can_go(session, table):
    register(session)
    child = clone_of(session)
    assert child.sql(f"SELECT * FROM lance.`{table}`").count() == 10
    gone = weakref.ref(child)
    del child
    clone_of(session)  # PySpark keeps the one that was made last
    gc.collect()
    assert gone() is None


def test_another_object_of_a_registered_session_is_that_session(session, table):
    other = SparkSession(session.sparkContext, session._jsparkSession)
    register(session)
    assert other.sql(f"DELETE FROM lance.`{table}` WHERE id > 5 OR id IN (SELECT 0)").first()[0] == 5
    assert SparkSession.active().sql(f"SELECT * FROM lance.`{table}`").count() == 5
