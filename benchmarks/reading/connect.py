"""``python -m benchmarks.reading.connect``: answers questions on Spark Connect, a line of JSON for each.

A question that says ``native`` goes to a session that has registered a catalog, in the words of a classic session.
"""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks.measure import Answer
from benchmarks.reading.data import Tables
from benchmarks.reading.questions import ask, questions
from lance_spark import LanceTable, register


def main() -> None:
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the server prints where it likes
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for line in sys.stdin:
        try:
            told: dict[str, Any] = {"answer": _answer(json.loads(line))}
        except Exception as error:  # noqa: BLE001 - the one who asked says so
            told = {"error": str(error) or type(error).__name__}
        output.write(json.dumps(told) + "\n")
        output.flush()


def _answer(request: dict[str, Any]) -> Answer:
    tables = Tables(request["home"], request["rows"])
    question = questions(tables.rows)[request["question"]]
    storage = tuple(sorted(request["storage"].items()))
    if request["native"]:
        loaded = [_loaded(tables.lance(name), storage) for name in (question.table, "stations")]
        return ask(question, question.query(*loaded))
    stations = _table(tables.lance("stations"), storage)
    table = _table(tables.lance(question.table), storage)
    return ask(question, table.query(lambda frame: question.query(frame, stations.to_df())))


@cache
def _table(uri: str, storage: tuple[tuple[str, str], ...]) -> LanceTable:
    return LanceTable.for_path(uri, dict(storage), spark=_session())


@cache
def _loaded(uri: str, storage: tuple[tuple[str, str], ...]) -> DataFrame:
    options = {f"storage.{key}": value for key, value in storage}
    return _native().read.format("lance").options(**options).load(uri)


@cache
def _session() -> SparkSession:
    builder = SparkSession.builder.config("spark.driver.memory", "4g").config("spark.ui.enabled", "false")
    partitions = str(os.cpu_count())
    return builder.config("spark.sql.shuffle.partitions", partitions).remote("local[*]").getOrCreate()


@cache
def _native() -> SparkSession:
    """Another client of the same server."""
    _session()
    spark = SparkSession.builder.remote("sc://localhost").create()
    register(spark, catalog="lance")
    return spark


if __name__ == "__main__":
    main()
