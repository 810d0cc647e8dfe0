"""A Spark Connect server of its own process on loopback, which is killed with its JVM and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from support.spark_cluster import HOME, LOOPBACK, environment, free_port

_SUBMIT = str(HOME / "bin" / "spark-submit")
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.connect.grpc.binding.address": LOOPBACK,
}
PATIENCE = 300


class Server:
    """The server; none runs at first."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
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
        settings = {**_SETTINGS, "spark.connect.grpc.binding.port": str(port)}
        given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        with (self._directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [_SUBMIT, "--master", "local[2]", *given, "--class", _CLASS, "spark-internal"],
                stdout=log, stderr=log, cwd=self._directory, start_new_session=True,
                env={**environment(), "SPARK_CONNECT_MODE": "0", **added},
            )  # fmt: skip
        end = time.monotonic() + PATIENCE
        while not _listens(port):
            assert self.alive(), f"the server ended at its start: {self.log}"
            assert time.monotonic() < end, f"the server never listened: {self.log}"
            time.sleep(0.05)

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
        return (self._directory / "server.log").read_text(errors="replace")[-4000:]


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


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
