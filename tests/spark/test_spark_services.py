"""Catalog services in Spark: SQL, and credentials that are renewed on executors and shown nowhere."""

import time

import pytest
from support.rest_catalogs import KEY, Server, said, served
from support.vending import Gate

from lance_spark import CleanupPolicy, LanceCatalog, register, unregister
from lance_spark.errors import Refused
from lance_spark.spark.registering import configured
from lance_spark.storage import vended

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest", day=0)]


@pytest.fixture
def session(spark):
    unregister(spark)
    yield spark
    unregister(spark)


def rows(spark, statement):
    return [tuple(row) for row in spark.sql(statement).collect()]


def test_sql_works_as_in_a_directory(session, tmp_path):
    with served(str(tmp_path / "lake")) as properties:
        register(session, catalog="prod", impl="rest", properties=properties)
        session.sql("CREATE NAMESPACE prod.a WITH PROPERTIES (x='1')")
        session.sql("CREATE NAMESPACE prod.a.b")
        session.sql("CREATE TABLE prod.a.t (id INT, s STRING) TBLPROPERTIES (p='q')")
        session.sql("INSERT INTO prod.a.t VALUES (1, 'x'), (2, 'y')")
        session.sql("CREATE TABLE prod.a.b.u AS SELECT * FROM prod.a.t")
        session.sql("CREATE OR REPLACE TABLE prod.a.b.u AS SELECT id FROM prod.a.t")
        session.sql("UPDATE prod.a.t SET s = 'z' WHERE id = 1")
        session.sql("DELETE FROM prod.a.t WHERE id = 2")
        session.sql("CALL prod.system.create_branch('a.t', 'exp')")
        session.sql("INSERT INTO prod.a.`t@exp` VALUES (9, 'branch')")
        session.sql("CALL prod.system.merge_branch('a.t', 'exp')")
        assert rows(session, "SELECT * FROM prod.a.t ORDER BY id") == [(1, "z"), (9, "branch")]
        assert rows(session, "SELECT id FROM prod.a.b.u ORDER BY id") == [(1,), (2,)]
        assert rows(session, "SHOW NAMESPACES IN prod.a") == [("a.b",)]
        assert [row[1] for row in rows(session, "SHOW TABLES IN prod.a")] == ["t"]
        with pytest.raises(Refused, match="rename_table"):
            session.sql("ALTER TABLE prod.a.t RENAME TO a.v")
        with pytest.raises(Refused, match="__manifest"):
            session.sql("SELECT * FROM prod.system.branches").collect()
        session.sql("DROP NAMESPACE prod.a CASCADE")
        assert rows(session, "SHOW NAMESPACES IN prod") == []


def test_the_settings_of_a_session_name_services(session, tmp_path):
    with served(str(tmp_path / "lake")) as properties:
        settings = {"impl": "rest", **properties}
        for key, value in settings.items():
            session.conf.set(f"spark.sql.catalog.ours.{key}", value)
        session.conf.set("spark.sql.catalog.theirs", "org.example.Catalog")
        session.conf.set("spark.sql.catalog.theirs.impl", "rest")
        try:
            assert configured(session) == {"ours": ("rest", properties)}
            register(session)
            session.sql("CREATE NAMESPACE ours.a")
            session.range(5).writeTo("ours.a.t").create()
            assert session.table("ours.a.t").count() == 5
        finally:
            for key in (*(f"ours.{key}" for key in settings), "theirs", "theirs.impl"):
                session.conf.unset(f"spark.sql.catalog.{key}")


@pytest.mark.s3
def test_executors_renew_what_a_service_hands_out(session, faulty, table, capfd):
    gate = Gate(faulty, seconds=6.0)
    keys: list[dict[str, str]] = []

    def answer(path, _body):
        if not path.partition("?")[0].endswith("/describe"):
            return said({"code": 0, "error": "no"}, 406)
        keys.append(gate.key())
        return said({"location": table, "storage_options": keys[-1]})

    with Server(answer) as server:
        vended._known.clear()
        catalog = LanceCatalog.connect("rest", server.properties, spark=session)
        frame = session.range(0, 4000, numPartitions=8)
        catalog.write_table(frame, "t", "append")
        time.sleep(5.0)
        catalog.write_table(frame, "t", "append")
        read = catalog.table("t").to_df()
        time.sleep(5.0)
        assert read.count() == 8000
        assert read.selectExpr("sum(id)").first()[0] == 2 * sum(range(4000))
        read.explain("extended")
        plans = [read._jdf.queryExecution().toString()]
        gate.revoke()
        assert catalog.table("t").to_df().where("id < 10").count() == 20
        faulty.rule = lambda _: "403 AccessDenied"
        with pytest.raises(Exception) as denied:  # noqa: PT011 - whatever Spark makes of it shows no secret
            catalog.table("t").to_df().collect()
        shown = "".join([*plans, str(denied.value), repr(catalog), *capfd.readouterr()])
    secrets = {value for key in keys for name, value in key.items() if "secret" in name or "token" in name}
    assert not [secret for secret in {*secrets, KEY} if secret in shown]
    assert len(keys) > 4


@pytest.mark.s3
def test_jobs_and_streams_outlive_keys_of_seconds(session, faulty, table, tmp_path):
    gate = Gate(faulty, seconds=4.0)
    gate.slowly(0.05)
    asked: list[float] = []

    def answer(path, _body):
        if not path.partition("?")[0].endswith("/describe"):
            return said({"code": 0, "error": "no"}, 406)
        asked.append(time.monotonic())
        return said({"location": table, "storage_options": gate.key()})

    with Server(answer) as server:
        vended._known.clear(), vended._early.clear()
        register(session, catalog="prod", impl="rest", properties=server.properties)
        catalog = LanceCatalog.connect("rest", server.properties, spark=session)
        for _ in range(4):
            catalog.write_table(session.range(0, 1000, numPartitions=4), "t", "append")
        t = catalog.table("t")
        session.range(500, 1500).withColumnRenamed("id", "key").createOrReplaceTempView("news")
        session.sql("MERGE INTO prod.t USING news ON id = key WHEN MATCHED THEN DELETE")
        session.sql("DELETE FROM prod.t WHERE id < 100")
        assert session.table("prod.t").count() == 4 * 400
        t.branches.create("exp")
        options = {f"storage.{key}": value for key, value in t.location.options}
        source = str(tmp_path / "in")
        session.range(10_000, 10_600, numPartitions=6).write.parquet(source)
        incoming = session.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(source)
        sink = incoming.writeStream.format("lance").options(**options, branch="exp")
        sink = sink.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
        sink.start(t.location.uri).awaitTermination()
        there = catalog.table("t", branch="exp").to_df().count()
        assert there == 1600 + 600
        read = session.readStream.format("lance").options(**options, branch="exp").load(t.location.uri)
        out = read.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "d"))
        out.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
        assert session.read.parquet(str(tmp_path / "out")).count() == there
        policy = CleanupPolicy(retain_versions=1, commit_window="0s")
        assert catalog.table("t").cleanup(policy, run_on="spark").apply().exit_code == 0
        checkpoints = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert gate.handed_out > 5
    for secret in (KEY, "very-secret-", "token-of-"):
        assert secret.encode() not in checkpoints
