"""``python -m benchmarks.layout``: planning over many fragments with a selective filter, with a layout and without."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import lance
import pyarrow as pa

from lance_spark.core.table_options import ReadOptions
from lance_spark.engine.local import LocalRunner
from lance_spark.rows.rows import delete_where
from lance_spark.scan.fragment_reads import read_batches
from lance_spark.scan.read import PinnedRead, plan_read
from lance_spark.storage.datasets import locate, pin_latest
from lance_spark.tables.write import begin, finish, plan_write
from lance_spark.write.data_files import write_rows


def main() -> None:
    """Prints a table of seconds; the median of the rounds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fragments", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        uris = {name: f"{directory}/{name}" for name in ("partitioned", "plain")}
        for name, uri in uris.items():
            _write(uri, arguments.fragments, name == "partitioned")
        print(f"{arguments.fragments:,} fragments, one day each; seconds, median of {arguments.rounds}\n")
        print("| | PARTITIONED BY (day) | no layout |\n|---|---:|---:|")
        for what, measure in (("plan `day = 77`", _plan), ("read `day = 77`", _read), ("DELETE `day = n`", _delete)):
            times = [_median(measure, uri, arguments.rounds) for uri in uris.values()]
            print(f"| {what} | {times[0]:.3f} | {times[1]:.3f} |")


def _write(uri: str, days: int, partitioned: bool) -> None:
    rows = pa.table({"id": pa.array(range(days), pa.int64()), "day": pa.array(range(days), pa.int32())})
    if not partitioned:
        lance.write_dataset(rows, uri, max_rows_per_file=1)
        return
    job = begin(plan_write({"path": uri, "partition_by": "day"}, rows.schema, False))
    finish(job, write_rows(job, rows.to_batches()))
    assert Path(uri).is_dir()


def _median(measure: Callable[[str, int], None], uri: str, rounds: int) -> float:
    times = []
    for number in range(rounds):
        start = time.perf_counter()
        measure(uri, number)
        times.append(time.perf_counter() - start)
    return median(times)


def _plan(uri: str, number: int) -> None:
    location = locate(uri)
    read = PinnedRead(location, pin_latest(location, None), ReadOptions(filter=f"day = {77 + number}"))
    plan_read(read, lance.dataset(uri).schema, 2)


def _read(uri: str, number: int) -> None:
    location = locate(uri)
    read = PinnedRead(location, pin_latest(location, None), ReadOptions(filter=f"day = {77 + number}"))
    plan = plan_read(read, lance.dataset(uri).schema, 2)
    assert sum(batch.num_rows for part in plan.partitions for batch in read_batches(plan.scan, part)) == 1


def _delete(uri: str, number: int) -> None:
    assert delete_where(locate(uri), None, f"day = {200 + number}", LocalRunner(2)).rows == 1


if __name__ == "__main__":
    main()
