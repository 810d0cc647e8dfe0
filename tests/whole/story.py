"""One story for every kind of session: python story.py URI classic|connect MASTER CHAPTERS.

MASTER can be the address of a server of Spark Connect.

CHAPTERS are names of CHAPTERS below with commas between them. Prints its findings as one line of JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lance
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit
from support.engines import everything_on_spark

from lance_spark import (
    CleanupPolicy,
    LanceCatalog,
    LanceTable,
    register_search,
)
from lance_spark.errors import LanceSparkError
from lance_spark.rows.action_rules import ChangeResult

FROZEN: dict[str, Any] = {
    "filter": "id < 500",
    "split": {"train": 0.8, "val": 0.2},
    "by": "day",
    "seed": 7,
}
"""A call of ``freeze``, of main."""


def session(kind: str, master: str) -> SparkSession:
    if master.startswith("sc://"):
        spark: SparkSession = SparkSession.builder.remote(master).getOrCreate()
        spark.conf.set("spark.sql.shuffle.partitions", "4")
        return spark
    builder = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").config("spark.api.mode", kind)
    return builder.config("spark.sql.shuffle.partitions", "4").master(master).getOrCreate()


def first_line(call: Callable[[], object]) -> str:
    try:
        call()
    except LanceSparkError as error:
        return f"{type(error).__name__}: {error.message}"
    except Exception as error:  # noqa: BLE001 - what a user sees, whatever its type
        return str(error).partition("\n")[0]
    return "no error"


def main(uri: str, kind: str, master: str, chapters: str) -> dict[str, object]:
    spark = session(kind, master)
    chosen = [name for name in chapters.split(",") if name]
    return (
        basics(spark, uri)
        | {"relative": relative(spark, uri, kind)}
        | {name: CHAPTERS[name](spark, f"{uri}-{name}") for name in chosen}
    )


def basics(spark: SparkSession, uri: str) -> dict[str, object]:
    """Rows are written, branched, tagged and read; what is there is told; old versions go."""
    rows = spark.range(0, 1000, 1, 4).selectExpr("id", "id % 7 AS day", "concat('n', id) AS name")
    rows.write.format("lance").mode("append").save(uri)
    table = LanceTable.for_path(uri, spark=spark)
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
        "queried": queried(spark, table),
        "feed": feed(table),
        "frozen": frozen(table),
        "counted": table.count_rows("day = 3"),
        "versions": [row.version for row in table.versions().collect()],
        "branches": [found.name for found in table.branches.list()],
        "view": view(spark, uri),
        "schema": table.schema.simpleString(),
        "missing": first_line(lambda: spark.read.format("lance").option("branch", "exp/b").load(uri).count()),
        "taken": first_line(lambda: table.tags.create("v1")),
        "bad type": first_line(lambda: rows.selectExpr("name AS id").write.format("lance").mode("append").save(uri)),
        "workers": workers(spark),
        "cleaned": cleaned(table),
    }


def relative(spark: SparkSession, uri: str, kind: str) -> list[str]:
    """What each verb says of a relative path, which a server would look for in a directory of its own."""
    rows = spark.range(3)
    read, table = spark.read.format("lance"), LanceTable.for_path(uri, spark=spark)

    def follow(source: str, target: str, schema: str | None = None) -> None:
        reader = spark.readStream.format("lance")
        stream = (reader if schema is None else reader.schema(schema)).load(source).writeStream.format("lance")
        stream = stream.option("checkpointLocation", f"{uri}-{target.rpartition('/')[2]}-checkpoint")
        stream.trigger(availableNow=True).start(target).awaitTermination()

    calls: list[Callable[[], object]] = [
        lambda: rows.write.format("lance").mode("append").save("rel.lance"),
        lambda: read.load("rel.lance").count(),
        lambda: LanceTable.for_path("rel.lance", spark=spark).count_rows(),
    ]
    if kind == "connect":
        calls += [
            lambda: rows.write.format("lance").mode("append").option("catalog", "rel").save("t"),
            lambda: spark.read.format("lance").schema("id bigint").load("file:rel.lance").count(),
            lambda: spark.sql("CREATE TEMPORARY VIEW rel USING lance OPTIONS (path 'rel.lance')"),
            lambda: follow("rel.lance", uri + "-followed"),
            lambda: follow(uri, "rel-followed"),
            lambda: LanceTable.for_path("rel.lance").count_rows(),
            lambda: LanceCatalog("rel", spark=spark).list_tables(),
            lambda: table.clone("rel-clone"),
            lambda: table.clone("rel-clone", follow=False),
            lambda: table.clone("rel-clone", "deep", follow=False),
            lambda: table.remotes.push("./rel-clone"),
            lambda: table.fsck(clones=["rel-clone"]),
            lambda: table.storage(clones=["rel-clone"]),
            lambda: table.cleanup(CleanupPolicy(clones=("rel-clone",))),
            lambda: table.relocate("rel-old"),
        ]
    said = [first_line(call) for call in calls]
    return [*said, *(str(path) for path in Path().glob("rel*"))]


def streamed(spark: SparkSession, uri: str) -> list[int]:
    """Rows of a stream from table to table after its first run, and after another one that goes on from there."""
    found = []
    for first in (0, 10):
        spark.range(first, first + 10, 1, 2).write.format("lance").mode("append").save(uri)
        stream = spark.readStream.format("lance").option("query_id", "story").load(uri)
        writer = stream.writeStream.format("lance").option("checkpointLocation", uri + "-checkpoint")
        writer.trigger(availableNow=True).start(uri + "-copy").awaitTermination()
        rows = spark.read.format("lance").load(uri + "-copy")
        found += [rows.count(), rows.distinct().count()]
    return found


def upserted(spark: SparkSession, uri: str) -> list[int]:
    """Rows, and those of them that are new, after upserts of a stream's batches."""
    for name, rows in (("", spark.range(5, 10, 1, 1)), ("-copy", spark.range(0, 7, 1, 1))):
        rows.withColumn("name", lit(name)).write.format("lance").mode("append").save(uri + name)
    upsert = LanceTable.for_path(uri + "-copy", spark=spark).streams.upsert(key="id", checkpoint=uri + "-checkpoint")
    stream = spark.readStream.format("lance").load(uri).writeStream.option("checkpointLocation", uri + "-checkpoint")
    stream.foreachBatch(upsert).trigger(availableNow=True).start().awaitTermination()
    table = LanceTable.for_path(uri + "-copy", spark=spark)
    return [table.count_rows(), table.count_rows("name = ''")]


def queried(spark: SparkSession, table: LanceTable) -> list[object]:
    """The rows of a query, and which of the table's columns Spark read for it."""
    frame = table.query(lambda read: read.where("id = 5").select("name"))
    (row,) = spark.sql("EXPLAIN SELECT * FROM {frame}", frame=frame).collect()
    return [[found.name for found in frame.collect()], [name for name in ("id", "day", "name") if f"{name}#" in row[0]]]


def changed_columns(spark: SparkSession, uri: str) -> list[object]:
    """A row whose columns came from SQL, a class, a DataFrame and an append, and what a wrong function says."""

    class Model:
        def __call__(self, batch: pa.RecordBatch) -> dict[str, object]:
            return {"v": [[number, 1.0] for number in batch["id"].to_pylist()]}

    spark.range(0, 100, 1, 4).write.format("lance").mode("append").save(uri)
    table = LanceTable.for_path(uri, spark=spark)
    table.add_columns({"twice": "id * 2"})
    table.add_columns_with(Model, schema="v array<float>", vector={"v": 2})
    table.add_columns_from(spark.createDataFrame([(5, "five")], "id bigint, name string"), on="id")
    table.update_columns({"twice": "id * 3"})
    table.update_columns_with(
        lambda batch: {"twice": [-1] * batch.num_rows}, schema=["twice"], columns=["id"], where="id IN (5, 6)"
    )
    table.write(spark.sql("SELECT 100L AS id, true AS late"), merge_schema=True)
    wrong = first_line(lambda: table.add_columns_with(lambda _: {"w": [1]}, schema="w int"))
    (row,) = table.to_df().where("id = 5").collect()
    return [list(row), table.count_rows(), wrong.partition(" of fragment")[0]]


def searched(spark: SparkSession, uri: str) -> list[object]:
    """What searches find, in this process and on executors, for a DataFrame of queries, and in SQL; near duplicates."""
    rows = spark.range(0, 100, 1, 4).selectExpr(
        "id", "array(float(id), float(1)) AS v", "concat('note ', id % 50, ' of the day') AS note"
    )
    rows.withMetadata("v", {"arrow.fixed-size-list.size": 2}).write.format("lance").mode("append").save(uri)
    table = LanceTable.for_path(uri, spark=spark)
    near = [table.search([7.2, 1.0], k=2, columns=["id"], run_on=run_on).collect() for run_on in ("local", "spark")]
    words = table.search(text="note 31", phrase=True, columns=["id"], run_on="spark").collect()
    queries = spark.createDataFrame([("a", [5.1, 1.0]), ("b", [98.0, 1.0])], "who string, q array<double>")
    joined = queries.transform(table.nearest_join("q", k=1, columns=["id"])).collect()
    register_search(spark)
    in_sql = spark.sql(f"SELECT id FROM lance_search('{uri}', vector => array(9.0, 1.0), k => 1)").collect()
    return [
        *([row["id"] for row in found] for found in (*near, words, in_sql)),
        sorted([row["who"], row["id"]] for row in joined),
        table.near_duplicates("note").count(),
        first_line(lambda: table.search([1.0])),
    ]


def looked_after(spark: SparkSession, uri: str) -> list[object]:
    """Compactions of main and a branch, a merge and another order, on executors: what they did, and what is left."""
    spark.range(0, 40, 1, 4).selectExpr("id", "id % 3 AS day").write.format("lance").mode("append").save(uri)
    main = LanceTable.for_path(uri, spark=spark)
    main.branches.create("exp")
    branch = main.checkout(branch="exp")
    branch.write(spark.range(100, 110, 1, 1).selectExpr("id", "id % 3 AS day"))
    branch.delete("id = 3")
    main.delete("id = 17")
    with everything_on_spark():
        compacted = [side.optimize(own_only=False).fragments_removed for side in (main, branch)]
        merged = main.branches.merge("exp")
        ordered = main.optimize(sort_by=["day", "id"])
        sound = main.fsck(deep=True).sound
    return [compacted, merged.ran_on, ordered.rows, [row["id"] for row in main.to_df().collect()][:3], sound]


def feed(table: LanceTable) -> list[list[object]]:
    """The net of two versions of the branch, which need a shuffle: rows that stayed, and those that went."""
    found = table.changes("exp/a@2", "exp/a@3", key="id").collect()
    return sorted([row["_change_type"], row["id"], row["_commit_branch"]] for row in found)


def frozen(table: LanceTable) -> dict[str, object]:
    """A set that executors made, by split and in order; whether this process reads that order, and what is left."""
    with everything_on_spark():
        table.frozen.create("frozen-story", **FROZEN)
    rows = table.frozen.read("frozen-story", columns=["id"], with_position=True).collect()
    splits = {split: [row["id"] for row in rows if row["_split"] == split] for split in ("train", "val")}
    here = pa.Table.from_batches(table.frozen.batches("frozen-story", "train", columns=["id"]))["id"].to_pylist()
    days = {row["day"] for row in table.frozen.read("frozen-story", "val").collect()}
    kept = table.frozen.diff("frozen-story", "frozen-story").kept
    table.frozen.delete("frozen-story")
    found = [splits["train"] == here, sorted(days), kept, len(table.frozen.list())]
    return {"splits": splits, "found": found}


def retried(spark: SparkSession, uri: str) -> list[int]:
    """Rows, distinct rows, data files and fragments after each task failed once, having handed over all its rows."""

    def fail_once(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        from pyspark import TaskContext

        yield from batches
        task = TaskContext.get()
        assert task is not None
        if task.attemptNumber() == 0:
            raise ValueError(f"own fault of {os.getpid()}")

    spark.range(0, 100, 1, 4).mapInArrow(fail_once, "id bigint").write.format("lance").mode("append").save(uri)
    written = spark.read.format("lance").load(uri)
    fragments = len(lance.dataset(uri).get_fragments())
    return [written.count(), written.distinct().count(), len(list(Path(uri, "data").iterdir())), fragments]


def cleaned(table: LanceTable) -> dict[str, object]:
    """Old versions removed by Spark jobs; what a dry run had said, and what is left."""
    policy = CleanupPolicy(older_than=timedelta(0), commit_window=timedelta(0))
    said = table.cleanup(policy, run_on="spark").candidates().count()
    report = table.cleanup(policy, run_on="spark").apply()
    removed = {branch: counts["removed"] for branch, counts in report.versions.items()}
    return {"said": said, "deleted": report.count("deleted")[0], "removed": removed}


def catalogued(spark: SparkSession, root: str) -> list[object]:
    """A table made, found, read and asked by its name, and what is said when it is there already."""
    cat = LanceCatalog(root, spark=spark)
    cat.create_namespace("ns1")
    cat.write_table(spark.range(0, 10, 1, 2), "ns1.t")
    taken = first_line(lambda: cat.write_table(spark.range(1), "ns1.t"))
    read = spark.read.format("lance").option("catalog", root).load("ns1.t").count()
    views = cat.register_views(spark)
    return [cat.table("ns1.t").to_df().count(), read, views, _only(spark.sql("SELECT max(id) FROM ns1_t")), taken]


def changed(spark: SparkSession, uri: str) -> list[object]:
    """What changes of rows on a branch say, and the sum of a column afterwards."""
    spark.range(0, 1000, 1, 4).selectExpr("id", "id % 7 AS day").write.format("lance").mode("append").save(uri)
    table = LanceTable.for_path(uri, spark=spark)
    table.branches.create("exp")
    table = table.checkout(branch="exp")
    source = spark.range(0, 2000, 500).selectExpr("id", "100 AS day")
    merge = table.merge(source, on="id").when_matched_update_all().when_not_matched_insert_all()
    results: list[ChangeResult | None] = []
    results += [table.delete("day = 6 AND id > 7"), table.update({"day": "day * 10"}, where="id < 3"), merge.execute()]
    results += [table.overwrite(source, where="day = 100"), by_index(table)]
    rows = [(found.rows_deleted, found.rows_updated, found.rows_inserted) for found in results if found is not None]
    twice = first_line(lambda: table.merge(source.union(source), on="id").when_matched_update_all().execute())
    wide = first_line(lambda: table.update({"day": "'many'"}))
    return [rows, table.version, table.count_rows(), _only(table.to_df().selectExpr("sum(day)")), twice, wide]


def by_index(table: LanceTable) -> ChangeResult:
    """A merge whose rows executors find through an index, as those of a large table."""
    table.indexes.create("id", "btree")
    few = table.query(lambda read: read.where("id IN (500, 700)").selectExpr("id", "7 AS day"))
    with patch("lance_spark.rows.action_rules.uses_index", return_value=True):
        return table.merge(few, on="id").when_matched_update_all().execute()


def view(spark: SparkSession, uri: str) -> int:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING lance OPTIONS (path '{uri}', tag 'v1', columns 'day')")
    return _only(spark.sql("SELECT count(DISTINCT day) FROM v"))


def _only(frame: DataFrame) -> int:
    """The only value of a query with one row."""
    (row,) = frame.collect()
    return int(row[0])


def workers(spark: SparkSession) -> int:
    """How many executors took part in a small job."""

    def where(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        for _ in batches:
            yield pa.record_batch({"home": [os.environ.get("SPARK_EXECUTOR_DIRS", "local")]})

    return spark.range(0, 40, 1, 8).mapInArrow(where, "home string").distinct().count()


CHAPTERS: dict[str, Callable[[SparkSession, str], object]] = {
    "changed": changed,
    "catalogued": catalogued,
    "streamed": streamed,
    "upserted": upserted,
    "changed_columns": changed_columns,
    "searched": searched,
    "looked_after": looked_after,
    "retried": retried,
}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])) + "\n")
