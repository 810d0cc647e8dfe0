"""Those who are asked, each in a session that was started before; tables are loaded before the first question."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.measure import Answer, Work
from benchmarks.peers import OURS, Peers, session
from benchmarks.reading.data import Tables
from benchmarks.reading.questions import Question, ask
from lance_spark.datasource import datasource

PLAIN = "lance_plain"
"""Our data source as Spark sees any other one in Python: what there is where Spark cannot plan into Lance."""
Load = Callable[[str], DataFrame]


@dataclass(frozen=True)
class Jars:
    """Files for the session's class path."""

    connector: Path | None = None
    """The JVM connector's bundle."""
    s3a: Sequence[Path] = ()
    """hadoop-aws and what it needs, for Parquet on the object store."""

    def start(self) -> SparkSession:
        """A classic session with ours registered natively, and as the plain data source."""
        given = [*([self.connector] if self.connector else []), *self.s3a]
        spark = session(jars=[str(path.resolve()) for path in given])
        datasource.register(spark, PLAIN)
        return spark


def loads(spark: SparkSession, tables: Tables, storage: Mapping[str, str], jars: Jars) -> dict[str, Load]:
    """How each way gets a DataFrame of a table, by the table's name; on the object store those that can read there."""
    prefixed = {f"storage.{key}": value for key, value in storage.items()}
    ways: dict[str, Load] = {
        "ours": lambda name: spark.read.format(OURS).options(**prefixed).load(tables.lance(name)),
        "plain": lambda name: spark.read.format(PLAIN).options(**prefixed).load(tables.lance(name)),
        "parquet": lambda name: spark.read.parquet(tables.parquet(name).replace("s3://", "s3a://")),
        "jvm": lambda name: spark.read.format("lance").options(**storage).load(tables.lance(name)),
    }
    missing = {"jvm"} if jars.connector is None else set()
    if storage and not jars.s3a:
        missing.add("parquet")
    if storage and jars.s3a:
        _let_s3a_in(spark, storage)
    return {name: cache(load) for name, load in ways.items() if name not in missing}


def work(question: Question, ways: Mapping[str, Load]) -> dict[str, Work]:
    """The question to everyone who reads in this process."""

    def asked(load: Load) -> Work:
        return lambda: ask(question, question.query(load(question.table), load("stations")))

    return {name: asked(load) for name, load in ways.items()}


def floor(spark: SparkSession, tables: Tables, question: Question) -> Work:
    """The rows of an export, ready-made: Spark's channel from Python alone."""
    peers = Peers(spark, has_jvm=False)
    exported = min(tables.rows, 1_000_000)
    load = peers.floor(tables.lance(question.table), Path(tables.home), filter=f"id < {exported}")
    return lambda: ask(question, load())


def _let_s3a_in(spark: SparkSession, storage: Mapping[str, str]) -> None:
    for key, value in {
        "endpoint": storage["aws_endpoint"],
        "access.key": storage["aws_access_key_id"],
        "secret.key": storage["aws_secret_access_key"],
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
    }.items():
        spark.conf.set(f"spark.hadoop.fs.s3a.{key}", value)
        spark.conf.set(f"fs.s3a.{key}", value)


@dataclass(frozen=True)
class Connect:
    """A process with a Spark Connect session and its server: a process has one kind of session."""

    process: subprocess.Popen[str]

    def work(self, number: int, tables: Tables, storage: Mapping[str, str], native: bool) -> Work:
        """A question, by its number in the list, natively or through the plain data source."""

        def asked() -> Answer:
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            request = {"question": number, "home": tables.home, "rows": tables.rows, "native": native}
            request["storage"] = dict(storage)
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            answer = json.loads(self.process.stdout.readline() or '{"error": "Error: the process ended"}')
            if "error" in answer:
                raise RuntimeError(answer["error"])
            found: list[float | int | None] = answer["answer"]
            return found

        return asked


@contextmanager
def connect() -> Iterator[Connect]:
    """The process, which starts its server with the first question."""
    command = [sys.executable, "-m", "benchmarks.reading.connect"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield Connect(process)
        finally:
            process.kill()
