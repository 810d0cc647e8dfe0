"""One story for every kind of session: python story.py URI [connect]. Prints its findings as one line of JSON."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from lance_spark import LanceTable
from lance_spark.errors import LanceSparkError


def session(kind: str) -> SparkSession:
    builder = SparkSession.builder.config("spark.sql.session.timeZone", "UTC")
    return (builder.remote("local[2]") if kind == "connect" else builder).getOrCreate()


def first_line(call) -> str:
    try:
        call()
    except LanceSparkError as error:
        return f"{type(error).__name__}: {error.message}"
    except Exception as error:  # noqa: BLE001 - what a user sees, whatever its type
        return str(error).partition("\n")[0]
    return "no error"


def main(uri: str, kind: str) -> dict[str, object]:
    spark = session(kind)
    rows = spark.range(0, 1000, 1, 4).selectExpr("id", "id % 7 AS day", "concat('n', id) AS name")
    rows.write.format("lance").mode("append").save(uri)
    table = LanceTable.for_path(spark, uri)
    table.tags.create("v1")
    rows.where("id < 10").write.format("lance").mode("append").option("branch", "exp/a").option(
        "create_branch", "true"
    ).save(uri)
    branch = spark.read.format("lance").option("branch", "exp/a").load(uri)
    pinned = branch.count()
    rows.where("id < 5").write.format("lance").mode("overwrite").option("branch", "exp/a").save(uri)
    filtered = table.to_df(columns=["name"], filter="id = 5")
    return {
        "main": spark.read.format("lance").load(uri).count(),
        "pinned": [pinned, branch.count(), branch.union(branch).where("id >= 0").count()],
        "branch": table.checkout(branch="exp/a").count_rows(),
        "older": spark.read.format("lance").option("branch", "exp/a").option("version", 2).load(uri).count(),
        "filtered": [row.name for row in filtered.collect()],
        "counted": table.count_rows("day = 3"),
        "versions": [row.version for row in table.versions().collect()],
        "branches": [found.name for found in table.branches.list()],
        "view": view(spark, uri),
        "schema": table.schema.simpleString(),
        "missing": first_line(lambda: spark.read.format("lance").option("branch", "exp/b").load(uri).count()),
        "taken": first_line(lambda: table.tags.create("v1")),
        "bad type": first_line(lambda: rows.selectExpr("name AS id").write.format("lance").mode("append").save(uri)),
        "failed job": failed(spark, rows, uri),
        "vectors": vectors(spark, uri + "_vectors"),
        "handle": handle(table, uri),
        "workers": workers(spark),
    }


def failed(spark: SparkSession, rows, uri: str) -> list[object]:
    broken = rows.selectExpr("if(id = 999, raise_error('own fault'), id) AS id", "day", "name")
    write = broken.write.format("lance").mode("append").option("branch", "new").option("create_branch", "true")
    try:
        write.save(uri)
        text = "no error"
    except Exception as error:  # noqa: BLE001 - its first line differs between the kinds of session
        text = str(error)
    return ["own fault" in text, spark.read.format("lance").load(uri).count()]


def vectors(spark: SparkSession, uri: str) -> list[object]:
    size = {"arrow.fixed-size-list.size": 2}
    frame = spark.sql("SELECT array(float(id), float(-id)) AS v, cast(id AS decimal(20,2)) AS d FROM range(3)")
    frame = frame.withMetadata("v", size)
    frame.write.format("lance").mode("overwrite").save(uri)
    again = spark.read.format("lance").load(uri)
    again.write.format("lance").mode("append").save(uri)
    found = spark.read.format("lance").load(uri)
    return [found.schema["v"].metadata == size, sorted(row.v[1] for row in found.collect())]


def handle(table: LanceTable, uri: str) -> dict[str, object]:
    """Every verb of the handle, which must not need more of a session than Connect has."""
    table.branches.create("verbs", tag="v1")
    table.tags.create("moved", branch="exp/a", version=2)
    table.tags.move("moved", branch="verbs")
    at_tag = table.checkout(tag="moved")
    restored = table.checkout(branch="exp/a", version=2).restore()
    shallow, deep = table.shallow_clone(uri + "_shallow"), at_tag.deep_clone(uri + "_deep")
    found = {
        "at tag": [at_tag.branch, at_tag.version],
        "restored": [restored.version, restored.count_rows()],
        "clones": [clone.to_df(columns=["id"]).count() for clone in (shallow, deep)],
        "limited": table.to_df(limit=3, with_row_id=True).columns,
        "refused": first_line(lambda: table.branches.delete("verbs")),
    }
    table.tags.delete("moved")
    table.branches.delete("verbs")
    return {**found, "left": [[tag.name for tag in table.tags.list()], [b.name for b in table.branches.list()]]}


def view(spark: SparkSession, uri: str) -> int:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING lance OPTIONS (path '{uri}', tag 'v1', columns 'day')")
    return spark.sql("SELECT count(DISTINCT day) FROM v").first()[0]


def workers(spark: SparkSession) -> int:
    """How many executors took part in a small job."""

    def where(batches):
        import os

        import pyarrow as pa

        for _ in batches:
            yield pa.record_batch({"home": [os.environ.get("SPARK_EXECUTOR_DIRS", "local")]})

    return spark.range(0, 40, 1, 8).mapInArrow(where, "home string").distinct().count()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")) + "\n")
