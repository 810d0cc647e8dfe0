"""Clients of Spark Connect in Go and Rust, which know nothing of this package, and a server with the jar.

Wheels bring them compiled: ADBC's driver for Spark, and Spark's own client in Rust, with a face like PySpark's.
"""

import json
import subprocess

import lance
import pytest
from support.connect_server import Server
from support.environments import environment_with
from support.spark_cluster import HOME

from lance_spark import LanceCatalog
from lance_spark.jvm.server.compiling import write_jar

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest", day=0)]

CLIENTS = {
    "Go": ("adbc-driver-spark>=0.3,<0.4", "adbc-driver-manager", "pyarrow"),
    "Rust": ("pyspark-client-rust>=4.2", "pandas<3"),
}
"""Of each language what pip installs."""
OPENED = {
    "Go": """
import adbc_driver_spark.dbapi as spark
cursor = spark.connect(sys.argv[1]).cursor()
def rows(statement):
    cursor.execute(statement)
    return cursor.fetchall()
""",
    "Rust": """
import pyspark
from pyspark.sql import SparkSession
assert pyspark.__engine__ == "rust"
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
def rows(statement):
    return map(tuple, spark.sql(statement).collect())
""",
}
PROGRAM = """
import json, os, sys
{opened}
told = []
for statement in json.load(sys.stdin):
    try:
        told.append([str(row) for row in rows(statement)])
    except Exception as problem:
        told.append(str(problem))
print(json.dumps(told), flush=True)
os._exit(0)
"""
STORY = {
    "CREATE NAMESPACE lake.ns": [],
    "CREATE TABLE lake.ns.t AS SELECT id, id % 7 AS k FROM range(100)": [],
    "UPDATE lake.ns.t SET k = -1 WHERE id = 11": ["(1, 1, 0, 0)"],
    "MERGE INTO lake.ns.t t USING (SELECT 11 AS id, 5 AS k UNION ALL SELECT 200, 6) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *": ["(2, 1, 0, 1)"],
    "DELETE FROM lake.ns.t WHERE id % 10 = 9": ["(10, 0, 10, 0)"],
    "ALTER TABLE lake.ns.t CREATE BRANCH exp": ["('exp', 'main', 4)"],
    "INSERT INTO lake.ns.`t@exp` VALUES (300, 1)": [],
    "SELECT count(*) FROM lake.ns.`t@exp`": ["(92,)"],
    "SELECT count(*) FROM lake.ns.t VERSION AS OF 1": ["(100,)"],
    "SELECT k, count(*) FROM lake.ns.t WHERE id > 150 GROUP BY k": ["(6, 1)"],
}
REFUSED = {
    "CREATE VIEW lake.ns.v AS SELECT 1": "lance_spark.errors.Refused: Catalog lake does not support views",
    "UPDATE lake.ns.`t@nope` SET k = 1": "lance_spark.errors.NotFound: There is no branch or tag 'nope'",
}


@pytest.mark.parametrize("language", CLIENTS)
def test_a_client_in_another_language_has_the_catalog_and_all_statements(tmp_path, tmp_path_factory, language):
    programs = environment_with(tmp_path_factory.mktemp("client"), *CLIENTS[language])
    write_jar(str(HOME), f"{tmp_path}/lance.jar")
    settings = {
        "spark.jars": f"{tmp_path}/lance.jar",
        "spark.sql.extensions": "lance_spark.Extensions",
        "spark.sql.catalog.lake": "lance_spark.Catalog",
        "spark.sql.catalog.lake.root": f"{tmp_path}/lake",
    }
    server = Server(tmp_path, settings=settings)
    try:
        server.start({})
        asked = json.dumps([*STORY, *REFUSED])
        command = [programs / "python", "-c", PROGRAM.format(opened=OPENED[language]), server.url]
        done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=600)
    finally:
        server.kill()
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout)
    assert told[: len(STORY)] == [*STORY.values()]
    assert [said for said, words in zip(told[len(STORY) :], REFUSED.values(), strict=True) if words not in said] == []
    stored = lance.dataset(LanceCatalog(f"{tmp_path}/lake").table("ns.t").location.uri).to_table().sort_by("id")
    kept = [{"id": each, "k": 5 if each == 11 else each % 7} for each in range(100) if each % 10 != 9]
    assert stored.to_pylist() == [*kept, {"id": 200, "k": 6}]
