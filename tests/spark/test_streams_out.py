"""``spark.readStream.format("lance")``: what Spark asks for and gets.

What each commit gives, where a stream begins and what it refuses: tests/store/test_stream_source.py, without Spark.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from support.feeds import replayed, state

from lance_spark import LanceCatalog, register
from lance_spark.refs.model import PinnedVersion
from lance_spark.spark.streaming.source import ADMISSION_CONTROL

pytestmark = [pytest.mark.spark]

FOLLOWING = Path(__file__).parents[1] / "support" / "following_stream.py"


def table(first, end):
    return pa.table({"id": pa.array(range(first, end), pa.int64()), "v": pa.array([n % 3 for n in range(first, end)])})


def batches(stream, checkpoint):
    """The rows of the batches of one run that ends where nothing is new."""
    found = []
    writer = stream.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = writer.foreachBatch(lambda rows, _: found.append(rows.collect())).start()
    query.awaitTermination()
    return found


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
    catalog = LanceCatalog(spark, str(tmp_path / "lake"))
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


@pytest.mark.one_spark
@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(50))
def test_a_query_that_is_killed_neither_skips_nor_repeats(tmp_path, seed):
    uri, checkpoint, out = (str(tmp_path / name) for name in ("t.lance", "checkpoint", "out"))
    chance = random.Random(seed)
    rows = 6
    lance.write_dataset(table(0, rows), uri, max_rows_per_file=2)
    for _ in range(1 if seed == 0 else chance.randint(1, 3)):
        with Following(uri, checkpoint, out, "always") as query:
            done = committed(checkpoint) + chance.randint(0, 2)
            deadline = time.monotonic() + 240
            while committed(checkpoint) <= done and query.poll() is None and time.monotonic() < deadline:
                if chance.random() < 0.1:
                    lance.write_dataset(table(rows, rows + 3), uri, mode="append", max_rows_per_file=2)
                    rows += 3
                time.sleep(0.2)
            time.sleep(chance.random() * 0.5)
            assert query.poll() is None, "the query ended by itself"
    lance.write_dataset(table(rows, rows + 3), uri, mode="append")
    with Following(uri, checkpoint, out, "now") as query:
        assert query.wait(300) == 0
    found = [value for path in Path(out).rglob("*.parquet") for value in pq.read_table(path)["id"].to_pylist()]
    assert sorted(found) == list(range(rows + 3))


class Following:
    """A process with a query; it is killed with its JVM in the end."""

    def __init__(self, *arguments):
        self._process = subprocess.Popen(
            [sys.executable, str(FOLLOWING), *arguments],
            start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def __enter__(self):
        return self._process

    def __exit__(self, *_):
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def committed(checkpoint):
    """How many batches were committed. Spark keeps the notes of the last ones only."""
    names = [path.name for path in Path(checkpoint, "commits").glob("*")]
    return 1 + max((int(name) for name in names if name.isdecimal()), default=-1)
