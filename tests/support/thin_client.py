"""What a client with the thin PySpark does, without Java or access to the store: thin_client.py URL ROOT.

The server has this package and the access. Prints one JSON object: what came out of each step.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

TYPED = (
    "CREATE NAMESPACE lake.ns",
    "CREATE TABLE lake.ns.t AS SELECT id, id % 7 AS k FROM range(100)",
    "INSERT INTO lake.ns.t VALUES (200, 3)",
    "UPDATE lake.ns.t SET k = -1 WHERE id = 11",
    "MERGE INTO lake.ns.t t USING (SELECT 11 AS id, 5 AS k UNION ALL SELECT 201, 6) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "DELETE FROM lake.ns.t WHERE id % 10 = 9",
    "ALTER TABLE lake.ns.t ADD COLUMN note STRING",
    "ALTER TABLE lake.ns.t RENAME COLUMN note TO remark",
    "ALTER TABLE lake.ns.t CREATE BRANCH other",
    "INSERT INTO lake.ns.`t@other` VALUES (300, 1, 'new')",
    "SELECT count(*) FROM lake.ns.`t@other`",
    "SELECT count(*) FROM lake.ns.t",
    "SELECT count(*) FROM lake.ns.t VERSION AS OF 1",
    "SELECT k, count(*) FROM lake.ns.t WHERE id > 150 GROUP BY k ORDER BY k",
    "CREATE TABLE lake.ns.gone (id BIGINT)",
    "DROP TABLE lake.ns.gone",
    "SHOW TABLES IN lake.ns",
)
REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "branches.create": lambda table, _: table.branches.create("exp"),
    "branches.list": lambda table, _: table.branches.list(),
    "tags.create": lambda table, _: table.tags.create("v1"),
    "optimize": lambda table, _: table.optimize(),
    "storage": lambda table, _: table.storage(),
    "log": lambda table, _: table.log(),
    "delete": lambda table, _: table.delete("id = 1"),
    "list_tables": lambda _, lake: lake.list_tables("ns"),
    "lake.branches.create": lambda _, lake: lake.branches.create("exp"),
}
"""Verbs of a table and a lake that take access to the store."""


def main(url: str, root: str) -> None:
    """The story. Raises AssertionError if this process has more than a thin client has."""
    assert importlib.util.find_spec("py4j") is None
    assert shutil.which("java") is None
    assert not [name for name in os.environ if name.startswith("AWS_") and "KEY" in name]
    from pyspark.sql import SparkSession

    from lance_spark import capabilities, register

    spark = SparkSession.builder.remote(url).getOrCreate()
    register(spark, catalog="lake", root=root)
    told: dict[str, Any] = {
        "client": importlib.metadata.version("pyspark-client"),
        "native": capabilities(spark).native,
        "sql": {text: _rows(spark.sql(text)) for text in TYPED},
    }
    details = {row[0]: row[1] for row in spark.sql("DESCRIBE TABLE EXTENDED lake.ns.t").collect()}
    told["frames"] = dict(_of_frames(spark, details["Location"]))
    told["handles"] = dict(_of_handles(spark, root, details["Location"]))
    for kind in ("branches", "tags"):
        named = spark.sql(f"SELECT name FROM lake.ns.t.{kind} ORDER BY name").collect()
        told[kind] = [row["name"] for row in named]
    told["rows"] = sorted(_rows(spark.table("lake.ns.t").select("id", "k", "remark")))
    spark.stop()
    print(json.dumps(told))


def _rows(frame: Any) -> list[list[Any]]:
    return [list(row) for row in frame.collect()]


def _of_frames(spark: Any, uri: str) -> Iterator[tuple[str, Any]]:
    from pyspark.sql import functions as f

    table = spark.table("lake.ns.t")
    yield "table", _rows(table.where("k = 3").agg(f.count("*"), f.max("id")))
    yield "path", spark.read.format("lance").load(uri).where("id < 5").count()
    yield "version", spark.read.format("lance").option("version", 1).load(uri).count()
    more = spark.range(400, 403).selectExpr("id", "id % 7 AS k", "'frame' AS remark")
    more.writeTo("lake.ns.t").append()
    more.selectExpr("id + 10 AS id", "k", "remark").write.format("lance").mode("append").save(uri)
    changes = spark.createDataFrame([(400, 9, "merged"), (500, 9, "merged")], "id long, k long, remark string")
    merging = changes.alias("s").mergeInto("lake.ns.t", f.expr("lake.ns.t.id = s.id"))
    merging.whenMatched().updateAll().whenNotMatched().insertAll().merge()
    yield "written", spark.table("lake.ns.t").where("id >= 400").count()


def _of_handles(spark: Any, root: str, uri: str) -> Iterator[tuple[str, Any]]:
    from lance_spark import LanceCatalog, LanceTable

    table = LanceTable.for_path(uri, spark=spark)
    yield "to_df", table.to_df(columns=["id"], filter="id < 10").count()
    yield "query", table.query(lambda frame: frame.where("id = 500")).collect()[0]["remark"]
    yield "count_rows", [table.count_rows(), table.count_rows("k = 9")]
    yield "head", table.head(2).num_rows
    yield "schema", table.schema.names
    yield "at a version", table.checkout(version=1).to_df().count()
    lake = LanceCatalog(root, spark=spark)
    for name, verb in REFUSED.items():
        yield name, _typed_instead(spark, partial(verb, table, lake))


def _typed_instead(spark: Any, verb: Callable[[], Any]) -> str:
    """The statement that the error names, which is executed as it stands there."""
    from lance_spark.errors import StorageFailure

    try:
        verb()
    except StorageFailure as failure:
        statement = str(failure.hint).partition("Where the server has it, type: ")[2]
        if not statement:
            return f"no statement: {failure}"
        spark.sql(statement.replace("WHERE ...", "WHERE id = 1")).collect()
        return statement
    return "was done here"


if __name__ == "__main__":
    main(*sys.argv[1:])
