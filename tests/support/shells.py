"""Shells that are typed into line by line, as by somebody who pastes an example: ``pyspark``, ``python`` and ``bash``.

Each reads from a pipe and believes that it is interactive. It prints a prompt before every line that it reads, so what
stands between two prompts is what came out after one line. The prompts are a character that nothing else prints.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

BIN = Path(sys.executable).parent
STARTUP = Path(__file__).with_name("shell_startup.py")
BASH_STARTUP = STARTUP.with_suffix(".sh")
PROMPT = "\x1e"
GRACE, PATIENCE = 60.0, 300.0
"""Seconds that a shell gets to end, and those without a prompt after which a line counts as one that never ends."""

_HERE = {
    "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
    "PYTHONSTARTUP": str(STARTUP),
    "PYTHONWARNINGS": "ignore",
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_DRIVER_PYTHON": sys.executable,
    "PYSPARK_DRIVER_PYTHON_OPTS": "-i",
    "LANCE_LOG": "error",
    "SPARK_CONNECT_PROGRESS_BAR_ENABLED": "false",
    "COLUMNS": "100",
}
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn256m -Dlog4j2.level=OFF -Dspark.log.level=OFF"


class Shell:
    """A process that prints a prompt before each line that it reads."""

    def __init__(self, command: Sequence[str], directory: Path) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=directory,
            env={**os.environ, **_HERE, "PWD": str(directory)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._parts = [""]
        self._news = threading.Condition()
        self._ended = False
        threading.Thread(target=self._listen, daemon=True).start()
        self._wait(2)

    def type(self, lines: Sequence[str]) -> list[str]:
        """Type lines, and say what came out after each of them."""
        first = len(self._parts) - 1
        assert self._process.stdin is not None
        self._process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        self._process.stdin.flush()
        self._wait(first + len(lines) + 1)
        return self._parts[first : first + len(lines)]

    def close(self) -> None:
        """End the process, and those that it started."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        while piece := os.read(self._process.stdout.fileno(), 1 << 16):
            first, *rest = decoder.decode(piece).split(PROMPT)
            with self._news:
                self._parts[-1] += first
                self._parts += rest
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def _wait(self, parts: int) -> None:
        """Until there are so many parts, the last of which is still growing."""
        with self._news:
            while len(self._parts) < parts:
                told = self._ended or self._news.wait(PATIENCE)
                if len(self._parts) < parts and (self._ended or not told):
                    so_far = "".join(self._parts)[-5000:]
                    raise AssertionError(f"The shell {'ended' if self._ended else 'waits'} after:\n{so_far}")


def bash(directory: Path) -> Shell:
    """An interactive bash without anybody's settings."""
    return Shell(["bash", "--noediting", "--rcfile", str(BASH_STARTUP), "-i"], directory)


def python(directory: Path) -> Shell:
    """Python's interactive shell."""
    return Shell([sys.executable, "-i", "-q"], directory)


def pyspark(directory: Path, remote: str = "") -> Shell:
    """Spark's shell for Python, with ``spark`` in it: a classic session, or one of a server of Spark Connect."""
    if remote:
        return Shell([str(BIN / "pyspark"), "--remote", remote], directory)
    conf = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "2"}
    settings = [f"--conf={key}={value}" for key, value in conf.items()]
    return Shell([str(BIN / "pyspark"), "--master=local[2]", f"--driver-java-options={_JVM}", *settings], directory)
