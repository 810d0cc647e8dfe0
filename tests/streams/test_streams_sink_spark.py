"""A streaming query into a branch, through Spark."""

import json
import os
import time
from pathlib import Path

import lance
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812

from lance_spark import LanceTable, register
from lance_spark.core.catalog_options import OWN_NAME

pytestmark = [pytest.mark.spark, pytest.mark.on_connect, pytest.mark.when(oldest=0)]


@pytest.fixture(autouse=True)
def known(spark):
    register(spark, OWN_NAME)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "in").mkdir()
    return Files(tmp_path / "in")


class Files:
    """A source of JSON files, one batch each."""

    def __init__(self, directory):
        self.directory = directory
        self.count = 0

    def add(self, *rows):
        path = self.directory / f".{self.count}.json"
        path.write_text("\n".join(map(json.dumps, rows)))
        os.utime(path, (1_700_000_000 + self.count,) * 2)  # Spark takes them in the order of their times
        path.rename(self.directory / f"{self.count}.json")
        self.count += 1

    def stream(self, spark, schema="id bigint, v string"):
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(self.directory))


def run(writer, seconds=120):
    """Spark Connect starts a process for a function of foreachBatch, and gives it ten seconds: too few when busy."""
    end = time.monotonic() + seconds
    while True:
        try:
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            return query
        except PySparkException as problem:
            if "Python worker failed to connect back" not in str(problem) or time.monotonic() > end:
                raise


def ids(uri, branch=None):
    dataset = lance.dataset(uri)
    dataset = dataset.checkout_version((branch, None)) if branch else dataset
    return sorted(dataset.to_table().column("id").to_pylist())


@pytest.mark.when(oldest=1.0)
def test_a_query_goes_on_where_it_was_and_a_branch_takes_its_rows(spark, uri, files, tmp_path):
    spark.range(3).selectExpr("id + 100 as id", "'x' as v").write.format(OWN_NAME).mode("append").save(uri)
    checkpoint = str(tmp_path / "c")

    def writer():
        settings = {"branch": "ingest", "create_branch": "true", "checkpointLocation": checkpoint, "path": uri}
        return files.stream(spark).writeStream.format(OWN_NAME).options(**settings)

    for number in range(2):
        files.add({"id": number, "v": "a"})
    query = run(writer())
    files.add({"id": 2, "v": "a"})
    run(writer())
    assert ids(uri, "ingest") == [0, 1, 2, 100, 101, 102]
    assert ids(uri) == [100, 101, 102]
    tag = lance.dataset(uri).tags.list()[f"stream-{query.id}"]
    assert (tag["branch"], tag["version"]) == ("ingest", 4)
    Path(checkpoint, "commits", "2").unlink()
    Path(checkpoint, "commits", ".2.crc").unlink()
    run(writer())
    assert ids(uri, "ingest") == [0, 1, 2, 100, 101, 102]


def test_a_batch_whose_commit_fails_leaves_its_files(spark, uri, files, tmp_path):
    """Spark then calls abort with every message: the commit may have arrived."""
    files.add({"id": 0, "v": "a"})
    writer = files.stream(spark).writeStream.format(OWN_NAME).option("checkpointLocation", str(tmp_path / "c"))
    query = run(writer.option("path", uri))
    lance.dataset(uri).tags.delete(f"stream-{query.id}")
    files.add({"id": 1, "v": "a"})
    with pytest.raises(StreamingQueryException, match=r"streams\.resume"):
        run(writer)
    assert ids(uri) == [0]
    assert len([*Path(uri, "data").iterdir()]) == 2


def test_complete_mode_replaces_the_rows_and_update_mode_is_refused(spark, uri, files, tmp_path):
    counts = files.stream(spark).groupBy("v").agg(F.count("*").alias("id"))
    writer = counts.writeStream.format(OWN_NAME).option("checkpointLocation", str(tmp_path / "c")).option("path", uri)
    for number in range(2):
        files.add({"id": number, "v": "a"}, {"id": number, "v": "b"})
    run(writer.outputMode("complete"))
    assert lance.dataset(uri).to_table().sort_by("v").to_pylist() == [{"v": "a", "id": 2}, {"v": "b", "id": 2}]
    with pytest.raises(Exception, match=r"(?i)update"):
        run(writer.outputMode("update").option("checkpointLocation", str(tmp_path / "d")))


def test_upserts_by_foreach_batch_are_exactly_once(spark, uri, files, tmp_path):
    spark.createDataFrame([(1, "old"), (9, "kept")], "id bigint, v string").write.format(OWN_NAME).mode("append").save(
        uri
    )
    lance.dataset(uri).create_branch("ingest")
    checkpoint = str(tmp_path / "c")
    upsert = LanceTable.for_path(uri, branch="ingest").streams.upsert("id", checkpoint, optimize_every=1)

    def start():
        stream = files.stream(spark).writeStream.option("checkpointLocation", checkpoint)
        return run(stream.foreachBatch(upsert))

    files.add({"id": 1, "v": "new"}, {"id": 2, "v": "new"})
    files.add({"id": 2, "v": "newer"}, {"id": 3, "v": "new"})
    start()
    for name in ("1", ".1.crc"):
        Path(checkpoint, "commits", name).unlink()
    versions = len(lance.dataset(uri).checkout_version(("ingest", None)).versions())
    start()
    assert len(lance.dataset(uri).checkout_version(("ingest", None)).versions()) == versions
    found = lance.dataset(uri).checkout_version(("ingest", None)).to_table().sort_by("id").to_pylist()
    assert [(row["id"], row["v"]) for row in found] == [(1, "new"), (2, "newer"), (3, "new"), (9, "kept")]


@pytest.mark.when(spark="newest")
def test_an_upsert_into_a_handle_and_the_mode_that_names_it(spark, uri, files, tmp_path):
    spark.createDataFrame([(1, "old")], "id bigint, v string").write.format(OWN_NAME).mode("append").save(uri)
    upsert = LanceTable.for_path(uri, spark=spark).streams.upsert(["id"], query_id="orders")
    batch = spark.createDataFrame([(1, "new"), (2, "new")], "id bigint, v string")
    for frame, number in ((batch.limit(0), 0), (batch, 1), (batch, 1), (batch.limit(0), 2)):
        upsert(frame, number)
    assert ids(uri) == [1, 2]
    assert lance.dataset(uri).tags.list()["stream-orders"]["version"] == lance.dataset(uri).version == 3
    files.add({"id": 1, "v": "a"})
    writer = files.stream(spark).writeStream.format(OWN_NAME).option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(StreamingQueryException, match=r"streams\.upsert"):
        run(writer.options(path=uri, mode="upsert", key="id"))
