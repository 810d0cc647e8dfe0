"""``python -m benchmarks.layout``: planning, joins, MERGE, wide tables and small batches, with a layout and without."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import lance
import pyarrow as pa

import lance_spark
from benchmarks import layout_spark, report
from benchmarks.changing.delta import SETTINGS as DELTA_SETTINGS
from benchmarks.peers import session
from lance_spark.core.table_options import ReadOptions
from lance_spark.engine.local import LocalRunner
from lance_spark.rows.rows import delete_where
from lance_spark.scan.fragment_reads import read_batches
from lance_spark.scan.read import PinnedRead, plan_read
from lance_spark.storage.datasets import locate, pin_latest
from lance_spark.tables.write import begin, finish, plan_write
from lance_spark.write.data_files import write_rows

PARTS = ("plan", "joins", "wide", "week")


def main() -> None:
    """Prints tables of seconds; medians of the rounds."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory() as directory:
        if "plan" in arguments.only:
            _print_plans(directory, arguments.fragments, arguments.rounds)
        if {*arguments.only} - {"plan"}:
            _print_with_spark(Path(directory), arguments)


def _print_plans(directory: str, fragments: int, rounds: int) -> None:
    uris = {name: f"{directory}/{name}" for name in ("partitioned", "plain")}
    for name, uri in uris.items():
        _write(uri, fragments, name == "partitioned")
    print(f"{fragments:,} fragments, one day each; seconds, median of {rounds}\n")
    print("| | PARTITIONED BY (day) | no layout |\n|---|---:|---:|")
    for what, measure in (("plan `day = 77`", _plan), ("read `day = 77`", _read), ("DELETE `day = n`", _delete)):
        times = [_median(measure, uri, rounds) for uri in uris.values()]
        print(f"| {what} | {times[0]:.3f} | {times[1]:.3f} |", flush=True)


def _print_with_spark(home: Path, arguments: argparse.Namespace) -> None:
    jars = [str(path.resolve()) for path in (*arguments.delta_jars, *arguments.iceberg_jars)]
    settings = {
        **(DELTA_SETTINGS if arguments.delta_jars else {}),
        **(layout_spark.ICEBERG_SETTINGS if arguments.iceberg_jars else {}),
    }
    spark = session(jars=jars, settings=settings)
    place = layout_spark.prepare(spark, home, bool(arguments.delta_jars), bool(arguments.iceberg_jars))
    print(f"\n{report.machine_line(report.machine())}; {lance_spark.capabilities(spark)}")
    if "joins" in arguments.only:
        print(f"\n{arguments.rows:,} rows, with half as many; seconds, median of {arguments.rounds}\n")
        print("\n".join(layout_spark.joins(place, arguments.rows, arguments.rounds)), flush=True)
    if "wide" in arguments.only:
        print(f"\nMERGE of 200 whole rows into 10,000; seconds, median of {arguments.rounds}\n")
        print("\n".join(layout_spark.wide(place, arguments.columns, arguments.rounds)), flush=True)
    if "week" in arguments.only:
        print(f"\n{arguments.batches:,} batches of up to 2,000 rows\n")
        print("\n".join(layout_spark.week(place, arguments.batches)), flush=True)
    spark.stop()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layout", description=__doc__)
    parser.add_argument("--only", type=_parts, default=list(PARTS), metavar="A,B", help=f"of {','.join(PARTS)}")
    parser.add_argument("--fragments", type=int, default=10_000, help="of the table that is planned (default 10,000)")
    parser.add_argument("--rows", type=int, default=4_000_000, help="of the tables that are joined (default 4,000,000)")
    parser.add_argument("--batches", type=int, default=300, help="a week has 2,016 of five minutes (default 300)")
    parser.add_argument("--columns", type=_numbers, default=[200, 1000], metavar="N,M", help="of the wide tables")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delta-jars", type=_paths, default=[], metavar="A,B", help="delta-spark and delta-storage")
    parser.add_argument("--iceberg-jars", type=_paths, default=[], metavar="A", help="Iceberg's runtime for this Spark")
    return parser.parse_args()


def _parts(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(PARTS):
        raise argparse.ArgumentTypeError(f"no such part: {', '.join(sorted(unknown))}")
    return names


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _paths(text: str) -> list[Path]:
    return [Path(part) for part in text.split(",")]


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
