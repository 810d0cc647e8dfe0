"""``spark.readStream.format("lance")``: what Spark asks for and gets.

What each commit gives, where a stream begins and what it refuses: tests/streams/test_streams_source.py, without Spark.
"""

import pickle
from collections import Counter
from uuid import uuid4

import lance
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from support.feeds import replayed, state

from lance_spark import LanceCatalog, register
from lance_spark.core.refs import PinnedVersion
from lance_spark.streams.spark import ADMISSION_CONTROL

pytestmark = [pytest.mark.spark, pytest.mark.on_connect, pytest.mark.when(oldest=0.15)]


def table(first, end):
    return pa.table({"id": pa.array(range(first, end), pa.int64()), "v": pa.array([n % 3 for n in range(first, end)])})


def batches(stream, checkpoint):
    """The rows of the batches of one run that ends where nothing is new. On Connect another process has them."""
    kept = checkpoint.with_name(f"{checkpoint.name}-{uuid4()}")
    kept.mkdir()
    writer = stream.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = writer.foreachBatch(lambda rows, n: (kept / f"{n:09}").write_bytes(pickle.dumps(rows.collect()))).start()
    query.awaitTermination()
    return [pickle.loads(each.read_bytes()) for each in sorted(kept.iterdir())]


@pytest.mark.when(oldest=1.0)
def test_a_branch_in_batches_restarted_from_its_checkpoint(spark, uri, tmp_path):
    register(spark)
    checkpoint = tmp_path / "checkpoint"
    lance.write_dataset(table(0, 6), uri, max_rows_per_file=2)
    lance.dataset(uri).create_branch("exp")
    root = f"{uri}/tree/exp"

    def stream():
        reader = spark.readStream.format("lance").option("branch", "exp").option("checkpointLocation", str(checkpoint))
        reader = reader.option("max_files_per_trigger", 2).option("columns", "id").option("filter", "id <> 4")
        return reader.load(uri)

    first = batches(stream(), checkpoint)
    assert stream().columns == ["id"]
    # Before Spark 4.2 a query of this kind ends after one batch.
    assert [[row.id for row in rows] for rows in first] == [[0, 1, 2, 3], [5]][: 2 if ADMISSION_CONTROL else 1]
    lance.write_dataset(table(6, 8), root, mode="append")
    lance.dataset(root).optimize.compact_files()
    lance.dataset(root).delete("id = 0")

    def go_on():
        for _ in range(3):
            first.extend(batches(stream(), checkpoint))

    with pytest.raises(StreamingQueryException, match="appended rows only") as caught:
        go_on()
    assert "skip_change_commits" in str(caught.value)
    tag = next(name for name in lance.dataset(uri).tags.list() if name.startswith("reader-"))
    assert lance.dataset(uri).tags.list()[tag]["branch"] == "exp"


def test_a_change_feed_of_a_table_in_a_catalog(spark, tmp_path):
    register(spark)
    catalog = LanceCatalog(str(tmp_path / "lake"), spark=spark)
    uri = catalog.catalog.at("t").uri
    lance.write_dataset(table(0, 6), uri)
    catalog.register_table("t", "t")
    lance.dataset(uri).update({"v": "5"}, where="id = 2")
    lance.dataset(uri).delete("id = 1")
    reader = spark.readStream.format("lance").option("catalog", str(tmp_path / "lake")).option("changes", "true")
    stream = reader.option("starting_version", 1).option("key", "id").load("t")
    assert stream.columns == ["id", "v", "_change_type", "_commit_version", "_commit_timestamp", "_commit_branch"]
    rows = [row.asDict() for batch in batches(stream, tmp_path / "checkpoint") for row in batch]
    assert replayed(Counter(), rows, ["id", "v"]) == state(uri, PinnedVersion(None, 3), ["id", "v"])
    assert Counter(row["_change_type"] for row in rows) == {
        "insert": 6, "update_preimage": 1, "update_postimage": 1, "delete": 1,
    }  # fmt: skip
