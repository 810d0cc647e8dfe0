"""``python -m benchmarks.streams``: what a streaming query writes per second to a branch, beside Spark's Parquet sink.

A trigger every ten seconds takes the rows of ten seconds: give ``--rows`` so many that a batch takes about that.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks import report
from benchmarks.data import HOME
from benchmarks.peers import OURS, session
from lance_spark import register

_TARGET = 0.7
_PLACE = HOME / "streams"
_COLUMNS = (
    "id",
    "id % 1000 as customer",
    "rand(7) as amount",
    "md5(cast(id as string)) as note",
    "transform(sequence(1, 32), n -> cast(rand(7) as float)) as features",
)


def main() -> None:
    arguments = _arguments()
    spark = session()
    register(spark, OURS)
    source = _source(spark, arguments.rows, arguments.batches)
    found: dict[str, list[float]] = {"parquet": [], "ours": []}
    for _ in range(arguments.rounds):
        for name, rates in found.items():
            rates.extend(_rates(spark, name, source))
    facts = {**report.machine(), "rows": arguments.rows, "rounds": arguments.rounds}
    rate = {name: median(rates) for name, rates in found.items()}
    share = rate["ours"] / rate["parquet"]
    print(f"{report.headline(facts)}\n")
    print("| sink | rows per second | of Parquet's |\n|---|---:|---:|")
    print(f"| Parquet | {rate['parquet']:,.0f} | 1.00 |\n| lance_spark, a branch | {rate['ours']:,.0f} | {share:.2f} |")
    print(f"\ntarget: {_TARGET} of Parquet's, {'reached' if share >= _TARGET else 'MISSED'}")
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps({**facts, "rates": found}, indent=1))


def _source(spark: SparkSession, rows: int, batches: int) -> DataFrame:
    """A stream of Parquet files, one batch's worth in each directory entry."""
    place = _PLACE / f"source-{rows}-{batches}"
    if not (place / "_SUCCESS").exists():
        shutil.rmtree(place, ignore_errors=True)
        spark.range(rows * batches).selectExpr(*_COLUMNS).repartition(2 * batches).write.parquet(str(place))
    schema = spark.read.parquet(str(place)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 2).parquet(str(place))


def _rates(spark: SparkSession, name: str, source: DataFrame) -> list[float]:
    """Rows per second of every batch but the first, from what Spark says of a trigger."""
    place = _PLACE / f"sink-{name}"
    shutil.rmtree(place, ignore_errors=True)
    settings = {"checkpointLocation": str(place / "checkpoint"), "path": str(place / "table")}
    if name == "ours":
        spark.range(0).selectExpr(*_COLUMNS).write.format(OURS).mode("append").save(settings["path"])
        settings |= {"branch": "ingest", "create_branch": "true"}
    writer = source.writeStream.format(OURS if name == "ours" else "parquet").options(**settings)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    batches: list[dict[str, Any]] = [json.loads(entry.json) for entry in query.recentProgress]
    return [
        1000 * entry["numInputRows"] / entry["durationMs"]["triggerExecution"]
        for entry in batches[1:]
        if entry["numInputRows"]
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streams", description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000, help="in a batch, of 200 bytes each (default 4,000,000)")
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=HOME / "streams.json", metavar="FILE")
    return parser.parse_args()


if __name__ == "__main__":
    main()
