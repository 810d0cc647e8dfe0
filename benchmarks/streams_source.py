"""``python -m benchmarks.streams_source``: rows a second of a stream, beside a batch read of the same rows."""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession

from benchmarks import report
from benchmarks.data import CHUNK, HOME, prepare
from benchmarks.measure import Case, Result, Target
from benchmarks.peers import session
from lance_spark.datasource.datasource import register

OURS = "lance_py"
TARGET = Target("0.9 of the batch read", peer="batch read", factor=0.9)


def main() -> None:
    arguments = _arguments()
    tables = prepare(arguments.rows)
    spark = session()
    register(spark, OURS)  # nothing is read natively: a stream cannot be
    uri = tables.lance("narrow")
    results = [
        _measured(spark, uri, "whole table in one batch", {}, arguments.rounds),
        _measured(spark, uri, "one fragment a batch", {"max_files_per_trigger": "1"}, arguments.rounds),
        _measured(spark, uri, "change feed", {"changes": "true", "starting_version": "1"}, arguments.rounds),
    ]
    facts = {**report.machine(), "rows": arguments.rows, "rounds": arguments.rounds, "rows_of_a_file": CHUNK}
    print(f"{report.headline(facts)}\n\n{report.table(results)}\n")
    report.save(arguments.json, facts, results)
    print(f"all rounds: {arguments.json}")


def _measured(spark: SparkSession, uri: str, name: str, options: dict[str, str], rounds: int) -> Result:
    work: dict[str, Callable[[], tuple[float, int]]] = {
        "ours": lambda: _streamed(spark, uri, options),
        "batch read": lambda: _read(spark, uri),
    }
    targets = (TARGET,) if not options else ()
    result = Result(name, Case({who: lambda: () for who in work}, targets))
    for number in range(rounds + 1):
        for who, run in work.items():
            seconds, rows = run()
            if number:  # the first round warms up
                result.seconds.setdefault(who, []).append(seconds)
            result.details[who] = {"rows": rows, "rows_a_second": round(rows / seconds)}
    print({who: round(median(times), 2) for who, times in result.seconds.items()}, flush=True)
    return result


def _streamed(spark: SparkSession, uri: str, options: dict[str, str]) -> tuple[float, int]:
    """Seconds of the batches, without the start of the query, which takes the same time for any number of rows."""
    checkpoint = tempfile.mkdtemp(dir=HOME)
    try:
        stream = spark.readStream.format(OURS).options(**options).load(uri)
        writer = stream.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        done = [entry for entry in query.recentProgress if entry["numInputRows"]]
        return sum(entry["durationMs"]["triggerExecution"] for entry in done) / 1000, sum(
            entry["numInputRows"] for entry in done
        )
    finally:
        shutil.rmtree(checkpoint)


def _read(spark: SparkSession, uri: str) -> tuple[float, int]:
    rows: DataFrame = spark.read.format(OURS).load(uri)
    began = time.perf_counter()
    rows.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began, rows.count()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streams_source", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the flights (default 10,000,000)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=HOME / "streams-source.json", metavar="FILE")
    return parser.parse_args()


if __name__ == "__main__":
    main()
