"""A standalone Spark cluster of real processes on loopback, from the classes that pyspark brings."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

HOME = Path(pyspark.__file__).parent
LOOPBACK = "127.0.0.1"


@contextmanager
def standalone_cluster(directory: Path, workers: int = 2) -> Iterator[str]:
    """Start a master and workers of one core each; yields the master's URL once all workers are known to it."""
    port, page = free_port(), free_port()
    url = f"spark://{LOOPBACK}:{port}"
    processes = [_start("master.Master", directory / "master", "--port", str(port), "--webui-port", str(page))]
    try:
        _wait_for(directory / "master.log", "I have been elected leader", 1)
        processes += [start_worker(directory / f"worker{number}", url) for number in range(workers)]
        _wait_for(directory / "master.log", "Registering worker", workers)
        yield url
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def start_worker(home: Path, url: str) -> subprocess.Popen[bytes]:
    """One more worker of a cluster; killed as a process group, its executors end with it."""
    return _start("worker.Worker", home, "--cores", "1", "--memory", "1g", "--work-dir", str(home), url)


def has_an_executor(home: Path) -> bool:
    """Whether a worker has started one."""
    return "Asked to launch executor" in home.with_suffix(".log").read_text(errors="replace")


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_HOME": str(HOME),
        # Of every JVM: none of them runs long enough for the better compiler to pay off.
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }


def _start(role: str, directory: Path, *arguments: str) -> subprocess.Popen[bytes]:
    directory.mkdir(parents=True)
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", "--host", LOOPBACK, *arguments]
    with directory.with_suffix(".log").open("wb") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=log, env=environment(), cwd=directory, start_new_session=True
        )


def _wait_for(log: Path, text: str, times: int) -> None:
    for _ in range(600):
        if log.exists() and log.read_text(errors="replace").count(text) >= times:
            return
        time.sleep(0.1)
    raise AssertionError(f"'{text}' never came {times} times:\n{log.read_text(errors='replace')[-3000:]}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
