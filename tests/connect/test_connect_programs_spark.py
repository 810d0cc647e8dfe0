"""Spark's own programs with the jar of ``lance-catalog jar``: shells, spark-pipelines, Thrift server, beeline."""

import os
import signal
import subprocess
import time

import lance
import pytest
from support.connect_server import processes_beside, thrift_server
from support.spark_cluster import HOME, LOOPBACK, environment

from lance_spark import LanceCatalog
from lance_spark.jvm.server.compiling import write_jar

pytestmark = [pytest.mark.spark, pytest.mark.when(day=0)]

STORY = """
CREATE NAMESPACE lake.ns;
CREATE TABLE lake.ns.t AS SELECT id, id % 7 AS k FROM range(100);
UPDATE lake.ns.t SET k = -1 WHERE id = 11;
MERGE INTO lake.ns.t t USING (SELECT 11 AS id, 5 AS k UNION ALL SELECT 200, 6) s ON t.id = s.id
  WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
/* all sevens */ delete FROM lake.ns.t WHERE id % 10 = 9;
ALTER TABLE lake.ns.t CREATE BRANCH exp;
INSERT INTO lake.ns.`t@exp` VALUES (300, 1);
USE lake.ns;
WITH s AS (SELECT 300 AS id, 2 AS k) MERGE INTO `t@exp` t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET k = s.k;
CALL lake.system.merge_branch(table => 'ns.t', branch => 'exp');
CREATE TABLE lake.ns.p PARTITIONED BY (k, bucket(2, id)) AS SELECT id, id % 3 AS k FROM range(30);
INSERT INTO lake.ns.p SELECT id + 100, 3 FROM range(4);
UPDATE lake.ns.p SET k = 4 WHERE id = 100;
ALTER TABLE p REPLACE PARTITION FIELD bucket(2, id) WITH bucket(4, id);
ALTER TABLE lake.ns.p WRITE ORDERED BY id;
ALTER TABLE lake.ns.`t@exp` PARTITIONED BY (k, bucket(2, id));
alter table `t@exp` DROP PARTITION FIELD bucket(2, id);
SELECT concat('pruned=', count(*)) FROM lake.ns.p WHERE k = 3;
SELECT concat('rows=', count(*)) FROM lake.ns.t;
SELECT concat('then=', count(*)) FROM lake.ns.t VERSION AS OF 1;
"""
KEPT = [{"id": each, "k": 5 if each == 11 else each % 7} for each in range(100) if each % 10 != 9]
ROWS = [*KEPT, {"id": 200, "k": 6}, {"id": 300, "k": 2}]


@pytest.fixture(scope="module")
def jar(tmp_path_factory):
    path = tmp_path_factory.mktemp("jar") / "lance.jar"
    write_jar(str(HOME), str(path))
    return path


@pytest.fixture
def settings(jar, tmp_path):
    told = {
        "spark.master": "local[2]",
        "spark.jars": jar,
        "spark.ui.enabled": "false",
        "spark.sql.extensions": "lance_spark.Extensions",
        "spark.sql.catalog.lake": "lance_spark.Catalog",
        "spark.sql.catalog.lake.root": f"{tmp_path}/lake",
        "spark.sql.catalog.wrong": "lance_spark.Catalog",
        "spark.sql.catalog.wrong.rood": "/x",
    }
    path = tmp_path / "spark.conf"
    path.write_text("".join(f"{name} {value}\n" for name, value in told.items()))
    return path


def stored(tmp_path):
    table = LanceCatalog(f"{tmp_path}/lake").table("ns.t")
    return lance.dataset(table.location.uri).to_table().sort_by("id").to_pylist()


def script(tmp_path, text):
    path = tmp_path / "story.sql"
    path.write_text(text)
    return path


def run(tmp_path, program, *arguments, typed=None, **added):
    command = [str(HOME / "bin" / program), *map(str, arguments)]
    env = {**environment(), "SPARK_HOME": str(HOME), **added}
    return subprocess.run(command, cwd=tmp_path, env=env, input=typed, capture_output=True, text=True, timeout=600)


def test_spark_sql_tells_the_whole_story(tmp_path, settings):
    done = run(tmp_path, "spark-sql", "--properties-file", settings, "-f", script(tmp_path, STORY))
    assert done.returncode == 0, done.stderr[-4000:]
    assert {"rows=92", "then=100", "pruned=3"} <= {*done.stdout.split()}
    assert stored(tmp_path) == ROWS
    lake = LanceCatalog(f"{tmp_path}/lake")
    layout = lake.table("ns.p").layout.describe()
    assert (layout.partition_by, layout.cluster_by) == ("k, bucket(4, id)", "id")
    assert lake.table("ns.t").checkout(branch="exp").layout.describe().partition_by == "k"
    assert lake.table("ns.t").layout.describe().partition_by == ""


SCALA = """
spark.sql("CREATE NAMESPACE lake.ns")
spark.range(100).selectExpr("id", "id % 7 AS k").writeTo("lake.ns.t").create()
spark.range(2).selectExpr("id + 200 AS id", "id AS k").writeTo("lake.ns.t").append()
spark.sql("UPDATE lake.ns.t SET k = -1 WHERE id = :id", Map("id" -> 11))
println("rows=" + spark.table("lake.ns.t").filter("k < 3").count)
println("then=" + spark.read.option("versionAsOf", "1").table("lake.ns.t").count)
val changed = spark.range(1).selectExpr("id", "id AS k").as("s").mergeInto("lake.ns.t", expr("lake.ns.t.id = s.id"))
val tried = scala.util.Try(changed.whenMatched.updateAll().merge())
println("refused=" + tried.failed.get.getMessage.contains("lance_spark.errors.Refused"))
"""


@pytest.mark.when(spark="newest")
def test_the_shell_of_scala_has_frames_and_statements_and_ends(tmp_path, settings):
    done = run(tmp_path, "spark-shell", "--properties-file", settings, typed=SCALA)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    rows = [{"id": each, "k": -1 if each == 11 else each % 7} for each in range(100)]
    rows += [{"id": 200, "k": 0}, {"id": 201, "k": 1}]
    few = sum(row["k"] < 3 for row in rows)
    assert {f"rows={few}", "then=100", "refused=true"} <= {*done.stdout.split()}, (done.stdout + done.stderr)[-4000:]
    assert stored(tmp_path) == rows


REFUSED = {
    "SELECT * FROM lake.ns.nope": "TABLE_OR_VIEW_NOT_FOUND",
    "SHOW NAMESPACES IN wrong": "There is no setting spark.sql.catalog.wrong.rood",
    "UPDATE lake.ns.t SET nope = 0": "UNRESOLVED_COLUMN",
    "UPDATE lake.ns.`t@v9` SET k = 0": "lance_spark.errors.NotFound",
    "CREATE OR REPLACE VIEW lake.ns.v AS SELECT 1": "Refused: Catalog lake does not support views",
    "UPDATE spark_catalog.default.t SET k = 0": "TABLE_OR_VIEW_NOT_FOUND",
    "BEGIN UPDATE lake.ns.t SET k = 0 WHERE id = 1; END": "set spark.sql.extensions to lance_spark.Extensions",
}


def test_what_cannot_be_done_is_said_and_changes_nothing(tmp_path, settings):
    made = "CREATE NAMESPACE lake.ns; CREATE TABLE lake.ns.t AS SELECT id, id AS k FROM range(2)"
    text = ";\n".join([made, *REFUSED])
    on = ("--hiveconf", "hive.cli.errors.ignore=true")
    done = run(tmp_path, "spark-sql", "--properties-file", settings, *on, "-f", script(tmp_path, text))
    assert [said for said in REFUSED.values() if said.lower() not in (done.stdout + done.stderr).lower()] == []
    assert stored(tmp_path) == [{"id": 0, "k": 0}, {"id": 1, "k": 1}]


SPEC = """
name: nightly
storage: file://{tmp_path}/storage
catalog: lake
database: ns
libraries:
  - glob:
      include: transformations/**
"""
VIEWS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F

@dp.materialized_view
def base():
    return SparkSession.active().range(100).withColumn("k", F.col("id") % 7)

@dp.table
def streamed():
    return SparkSession.active().readStream.table("base")
"""


@pytest.mark.when(spark="newest")
def test_a_declarative_pipeline_fills_a_branch_of_the_lake(tmp_path, settings):
    lake = LanceCatalog(f"{tmp_path}/lake")
    lake.create_namespace("ns")
    lake.branches.create("nightly")
    kept = [line for line in settings.read_text().splitlines() if not line.startswith("spark.master")]
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("\n".join([*kept, "spark.sql.catalog.lake.branch nightly"]))
    (tmp_path / "spark-pipeline.yml").write_text(SPEC.format(tmp_path=tmp_path))
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "views.py").write_text(VIEWS)
    view = "CREATE MATERIALIZED VIEW counts AS SELECT k, count(*) AS n FROM base GROUP BY k"
    (tmp_path / "transformations" / "counts.sql").write_text(view)
    done = run(tmp_path, "spark-pipelines", "run", SPARK_CONF_DIR=f"{tmp_path}/conf")
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    nightly, tables = lake.checkout(branch="nightly"), {"ns.base": 100, "ns.counts": 7, "ns.streamed": 100}
    assert {name: nightly.table(name).count_rows() for name in tables} == tables
    assert lake.list_tables("ns") == []
    assert lake.branches.merge("nightly").state == "published"
    assert {name: lake.table(name).count_rows() for name in tables} == tables


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="this system does not tell")
def test_beeline_tells_the_whole_story_and_the_process_ends_with_the_server(tmp_path, settings):
    with thrift_server(tmp_path, settings) as (process, port):
        url = f"jdbc:hive2://{LOOPBACK}:{port}"
        # A session that ends closes the class loader of spark.jars: what comes later finds its classes all the same.
        first = run(tmp_path, "beeline", "-u", url, "-e", "SHOW NAMESPACES IN lake")
        assert first.returncode == 0, first.stderr[-4000:]
        done = run(tmp_path, "beeline", "-u", url, "-n", "me", "-f", script(tmp_path, STORY))
        assert done.returncode == 0, done.stderr[-4000:]
        assert "rows=92" in done.stdout
        assert stored(tmp_path) == ROWS
        (helper,) = processes_beside(port)
        os.kill(helper, signal.SIGKILL)
        again = run(tmp_path, "beeline", "-u", url, "-e", "UPDATE lake.ns.t SET k = 3 WHERE id = 300")
        assert again.returncode == 0, again.stderr[-4000:]
        assert stored(tmp_path)[-1] == {"id": 300, "k": 3}
        assert processes_beside(port) not in ([], [helper])
        os.killpg(process.pid, signal.SIGKILL)
        end = time.monotonic() + 60
        while processes_beside(port):
            assert time.monotonic() < end
            time.sleep(0.1)
