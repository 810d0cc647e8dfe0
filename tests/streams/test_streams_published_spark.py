"""Write, audit, publish, as docs/tables/streaming.md has it, while the stream into the branch and one out of main run.

Step by step, and by day: tests/streams/test_streams_published.py.
"""

import json
import os
import re
import time
from collections import Counter
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import LanceTable, register

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest", day=0)]

PAGE = Path(__file__).parents[2] / "docs" / "tables" / "streaming.md"
HOURS, ROWS, PATIENCE = 3, 4, 120


def recipe():
    """The function ``publish`` of the recipe."""
    text = PAGE.read_text()
    return re.search(r"^def publish.*?(?=^publish\()", text[text.index("## Recipe") :], re.DOTALL | re.MULTILINE)[0]


def arrive(directory, number):
    """A file of the source, which one batch takes."""
    rows = [{"id": ROWS * number + row, "batch": number} for row in range(ROWS)]
    hidden = directory / f".{number}.json"
    hidden.write_text("\n".join(map(json.dumps, rows)))
    os.utime(hidden, (1_700_000_000 + number,) * 2)
    hidden.rename(directory / f"{number}.json")


def rows_of(uri, branch=None):
    dataset = lance.dataset(uri)
    if branch is not None and branch not in dataset.branches.list():
        return 0
    return (dataset if branch is None else dataset.checkout_version((branch, None))).count_rows()


def wait_for(ready, *queries):
    deadline = time.monotonic() + PATIENCE
    while not ready():
        for query in queries:
            assert query.isActive, query.exception()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_main_never_sees_a_half_while_the_stream_goes_on(spark, uri, tmp_path):
    register(spark)
    source, given, names = tmp_path / "in", [], {}
    source.mkdir()
    lance.write_dataset(pa.table({"id": [-1], "batch": [-1]}), uri)
    exec(recipe(), names)
    into = spark.readStream.schema("id bigint, batch bigint").option("maxFilesPerTrigger", 1).json(str(source))
    settings = {"branch": "ingest", "create_branch": "true", "optimize_every": "2"}
    writer = into.writeStream.format("lance").options(**settings, checkpointLocation=str(tmp_path / "c"))
    out = spark.readStream.format("lance").option("query_id", "out").load(uri)
    reader = out.writeStream.option("checkpointLocation", str(tmp_path / "d"))
    reader = reader.foreachBatch(lambda rows, _: given.extend(row.id for row in rows.collect()))
    queries = [each.trigger(processingTime="20 milliseconds") for each in (writer, reader)]
    writing, reading = queries[0].start(uri), queries[1].start()
    try:
        table = LanceTable.for_path(uri, spark=spark)
        for hour in range(HOURS):
            before = rows_of(uri)
            for number in (2 * hour, 2 * hour + 1):
                arrive(source, number)
            last = hour == HOURS - 1
            expected = 1 + 2 * HOURS * ROWS if last else before + 1
            wait_for(lambda wanted=expected: rows_of(uri, "ingest") >= wanted, writing, reading)
            names["publish"](table, lambda candidate: candidate.count_rows("id is null") == 0)
            whole = Counter(lance.dataset(uri).to_table()["batch"].to_pylist())
            assert whole == {-1: 1} | dict.fromkeys(whole.keys() - {-1}, ROWS)
            assert rows_of(uri) > before
        wait_for(lambda: len(given) >= rows_of(uri), writing, reading)
        assert sorted(given) == list(range(-1, 2 * HOURS * ROWS))
        ingest = lance.dataset(uri).checkout_version(("ingest", None))
        done = [type(ingest.read_transaction(number).operation).__name__ for number in range(2, ingest.version + 1)]
        assert "Rewrite" in done
    finally:
        writing.stop()
        reading.stop()
