"""``python -m benchmarks.first_use``: what the first and the second client of a Spark Connect server wait for.

Each round starts a server, and another one for a client without Lance, whose first query is slow as well. Beside the
seconds on the clock stand the seconds of CPU of all processes of the server and of the client, for busy machines.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

from benchmarks import report
from benchmarks.data import HOME

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
STEPS = ("import", "session", "register", "first read", "first update")
PROMISED = {"first": 5.0, "second": 1.0}
"""Seconds for a session that registers a catalog, on a machine that does nothing else."""


def main() -> None:
    arguments = _arguments()
    if arguments.client is not None:
        print(json.dumps(_client(*arguments.client)))
        return
    found: dict[str, list[dict[str, list[float]]]] = {}
    for number in range(arguments.rounds + 1):
        with tempfile.TemporaryDirectory() as directory:
            keeps = None if number == 0 else HOME / "first_use"
            for who, steps in _round(Path(directory), keeps).items():
                found.setdefault(f"{who}, nothing compiled" if number == 0 else who, []).append(steps)
    print(f"\n{report.machine_line(report.machine())}; median of {arguments.rounds}, each with a new server\n")
    print("| client | " + " | ".join(STEPS) + " |\n|---|" + "---:|" * len(STEPS))
    for who, rounds in found.items():
        cells = [[median(each[step][at] for each in rounds) for at in (0, 1)] for step in STEPS if step in rounds[0]]
        told = dict(zip((step for step in STEPS if step in rounds[0]), cells, strict=True))
        texts = ("{:.2f} s ({:.2f} s of CPU)".format(*told[step]) if step in told else "" for step in STEPS)
        print(f"| {who} | " + " | ".join(texts) + " |")
    for who, limit in PROMISED.items():
        seconds = sum(median(each[step][0] for each in found[who]) for step in ("session", "register"))
        print(f"{who} client, session and register: {seconds:.2f} s; promised {limit:g} s")
    arguments.json.write_text(json.dumps({**report.machine(), "rounds": found}))


def _round(directory: Path, keeps: Path | None) -> dict[str, dict[str, list[float]]]:
    """What two clients, one after the other, took; ``keeps`` is where the server keeps its compiled classes."""
    keeps = keeps or directory
    keeps.mkdir(parents=True, exist_ok=True)
    found = {}
    for clients in (("first", "second"), ("without Lance",)):
        with _server(directory, keeps) as (url, process):
            for who in clients:
                given = [url, str(directory), str(process), who]
                command = [sys.executable, "-m", "benchmarks.first_use", "--client", *given]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                found[who] = json.loads(done.stdout.splitlines()[-1])
                told = ", ".join(f"{step} {clock:.2f} ({cpu:.2f})" for step, (clock, cpu) in found[who].items())
                print(f"{who}: {told}", flush=True)
    return found


def _client(url: str, directory: str, server: str, who: str) -> dict[str, list[float]]:
    """Seconds on the clock, and of CPU, of each step."""
    found: dict[str, list[float]] = {}
    before = time.perf_counter(), _cpu(int(server))

    def done(step: str) -> None:
        nonlocal before
        now = time.perf_counter(), _cpu(int(server))
        found[step] = [now[0] - before[0], now[1] - before[1]]
        before = now

    from pyspark.sql import SparkSession

    from lance_spark import register

    done("import")
    spark = SparkSession.builder.remote(url).getOrCreate()
    assert spark.version
    done("session")
    if who == "without Lance":
        assert spark.sql("SELECT count(*) FROM range(1000) WHERE id % 7 = 1").count() == 1
        done("first read")
        return found
    register(spark, catalog="lake", root=f"{directory}/lake")
    done("register")
    if not spark.sql("SHOW NAMESPACES IN lake").collect():
        spark.sql("CREATE NAMESPACE lake.ns")
        spark.sql("CREATE TABLE lake.ns.t AS SELECT id, id % 7 AS k FROM range(1000)")
        before = time.perf_counter(), _cpu(int(server))
    assert [tuple(row) for row in spark.sql("SELECT count(*) FROM lake.ns.t WHERE k = 1").collect()] == [(143,)]
    done("first read")
    spark.sql("UPDATE lake.ns.t SET k = 1 WHERE id = 1").collect()
    done("first update")
    spark.stop()
    return found


@contextmanager
def _server(directory: Path, keeps: Path) -> Iterator[tuple[str, int]]:
    """A server that has answered nothing yet: its address, and the id of its session of processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    from pyspark.find_spark_home import _find_spark_home

    given = {"spark.connect.grpc.binding.port": port, "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": 2}
    settings = [part for name, value in given.items() for part in ("--conf", f"{name}={value}")]
    submit = os.path.join(_find_spark_home(), "bin", "spark-submit")
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "TMPDIR": str(keeps)}
    with (directory / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [submit, "--master", "local[2]", *settings, "--class", SERVER, "spark-internal"],
            stdout=log, stderr=log, cwd=directory, env=environment, start_new_session=True,
        )  # fmt: skip
    try:
        while not _listens(port):
            if process.poll() is not None:
                raise RuntimeError((directory / "server.log").read_text()[-2000:])
            time.sleep(0.1)
        time.sleep(3)  # in which the JVM ends what it does at its start
        yield f"sc://127.0.0.1:{port}", process.pid
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _cpu(session: int) -> float:
    """Seconds of CPU of this process, and of all in a session, with the children that they have waited for."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                ticks += sum(int(each) for each in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK") + time.process_time()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_use", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=HOME / "first_use.json", metavar="FILE")
    parser.add_argument("--client", nargs=4, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
