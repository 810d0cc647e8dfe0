"""Servers of Spark of their own process on loopback: Connect, killed with its JVM and started again; and Thrift."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from support.spark_cluster import HOME, LOOPBACK, environment, free_port

_SUBMIT = str(HOME / "bin" / "spark-submit")
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_THRIFT = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.connect.grpc.binding.address": LOOPBACK,
}
PATIENCE = 300


class Server:
    """The server; none runs at first."""

    def __init__(self, directory: Path, master: str = "local[2]", settings: Mapping[str, str] | None = None) -> None:
        self._directory, self._master, self._settings = directory, master, {**_SETTINGS, **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._added: dict[str, str] = {}
        self.url = ""

    def start(self, added: dict[str, str]) -> None:
        """Start it, unless it runs with just that in its environment."""
        if self.alive() and added == self._added:
            return
        self.kill()
        self._added = added
        port = free_port()
        self.url = f"sc://{LOOPBACK}:{port}"
        settings = {**self._settings, "spark.connect.grpc.binding.port": str(port)}
        given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        with (self._directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [_SUBMIT, "--master", self._master, *given, "--class", _CLASS, "spark-internal"],
                stdout=log, stderr=log, cwd=self._directory, start_new_session=True,
                env={**environment(), "SPARK_CONNECT_MODE": "0", **added},
            )  # fmt: skip
        _wait_for(port, self.alive, lambda: self.log)

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    @property
    def log(self) -> str:
        return _end_of(self._directory / "server.log")


def _wait_for(port: int, alive: Callable[[], bool], log: Callable[[], str]) -> None:
    end = time.monotonic() + PATIENCE
    while not _listens(port):
        assert alive(), f"the server ended at its start: {log()}"
        assert time.monotonic() < end, f"the server never listened: {log()}"
        time.sleep(0.05)


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-4000:]


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


@contextmanager
def thrift_server(directory: Path, settings: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Spark's server of JDBC with a file of settings, and its port."""
    port = free_port()
    at = ["--hiveconf", f"hive.server2.thrift.port={port}", "--hiveconf", f"hive.server2.thrift.bind.host={LOOPBACK}"]
    command = [_SUBMIT, "--properties-file", settings, "--class", _THRIFT, "spark-internal", *at]
    env = {**environment(), "SPARK_HOME": str(HOME), "MARK": str(port)}
    with (directory / "server.log").open("ab") as log:
        process = subprocess.Popen(
            [*map(str, command)], cwd=directory, env=env, stdout=log, stderr=log, start_new_session=True
        )
    try:
        _wait_for(port, lambda: process.poll() is None, lambda: _end_of(directory / "server.log"))
        yield process, port
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def processes_beside(mark: object) -> list[int]:
    """Ids of this package's processes beside servers that were started with ``MARK=mark`` in their environment."""
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout.splitlines()
    helpers = [int(line.split()[0]) for line in listed if "lance_spark.spark.helper" in line]
    return [each for each in helpers if f"MARK={mark}\0" in _environment_of(each)]


def _environment_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/environ").read_text()
    except OSError:
        return ""
