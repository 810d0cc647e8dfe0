"""Streaming queries whose driver is killed at chosen moments, and started again from the checkpoint to the end.

What others do to the dataset meanwhile, and what pylance has to read in the end, is here as well. The query itself is
``stream_job.py``; Spark Connect's server, if there is one, is what is killed then, or only its client.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from support import dying
from support.connect_server import Server
from support.spark_cluster import environment
from support.streamed_tables import StreamedTable

JOB = Path(__file__).with_name("stream_job.py")
PATIENCE = 900
"""Seconds after which a query is taken to hang."""


class Moment(NamedTuple):
    """A moment at which a query dies."""

    name: str
    place: str
    """As ``dying`` takes it; or a directory of the checkpoint in which Spark made one more file."""
    most: int
    """The last time at which they die there. They come there at least so often, all queries together."""

    @property
    def of_spark(self) -> bool:
        return ":" not in self.place


PLANNED = Moment("Spark noted what a batch reads", "offsets", 12)
NOTED = Moment("Spark noted that a batch is done", "commits", 12)
_STARTED_FROM = b"which the job started from, no longer exists"
"""What a batch says if a cleanup took the version on which it was planned."""
_SINK = "lance_spark.streams.sink"
_SOURCE = "lance_spark.streams.source:StreamSource"
_ROWS = "lance_spark.rows.row_files"
_BEFORE_FIRST_TAG = Moment("before a query's first tag", "lance_spark.storage.refs:TagWriter.create:before", 4)
_AFTER_FIRST_TAG = Moment("after a query's first tag", "lance_spark.storage.refs:TagWriter.create:after", 4)
_BEFORE_TAG = Moment("between Lance's commit and the tag", "lance_spark.storage.refs:TagWriter.move:before", 12)
_AFTER_TAG = Moment("between the tag and Spark's note", "lance_spark.storage.refs:TagWriter.move:after", 12)
_BEFORE_COMPACTION = Moment("before a compaction's commit", "lance_spark.optimize.rewrites:commit_rewrites:before", 4)
_AFTER_COMPACTION = Moment("after a compaction's commit", "lance_spark.optimize.rewrites:commit_rewrites:after", 4)
MOMENTS = {
    "sink": (
        _BEFORE_TAG,
        _AFTER_TAG,
        _BEFORE_FIRST_TAG,
        Moment("before Lance's commit", "lance_spark.write.data_files:commit_checked:before", 12),
        _AFTER_FIRST_TAG,
        Moment("after Lance's commit", "lance_spark.write.data_files:commit_checked:after", 12),
        _BEFORE_COMPACTION,
        Moment("a batch is planned, its branch is made", f"{_SINK}:plan_stream:after", 12),
        _AFTER_COMPACTION,
        Moment("a task wrote its rows", "lance_spark.write.data_files:write_rows:after", 20),
        PLANNED,
        NOTED,
        Moment("a batch is done, compaction included", f"{_SINK}:commit_stream:after", 12),
    ),
    "upsert": (
        _BEFORE_TAG,
        _AFTER_TAG,
        _BEFORE_FIRST_TAG,
        Moment("before Lance's commit", "lance_spark.rows.rows:commit_rows:before", 12),
        _AFTER_FIRST_TAG,
        Moment("after Lance's commit", "lance_spark.rows.rows:commit_rows:after", 12),
        _BEFORE_COMPACTION,
        Moment("a task wrote its rows", f"{_ROWS}:write_parts:after", 10),
        _AFTER_COMPACTION,
        Moment("a task wrote deletions", f"{_ROWS}:delete_offsets:after", 10),
        PLANNED,
        NOTED,
    ),
    "source": (
        Moment("before the source's tag moves", "lance_spark.storage.refs:TagWriter.move:before", 5),
        Moment("after the source's tag moved", "lance_spark.storage.refs:TagWriter.move:after", 5),
        _BEFORE_FIRST_TAG,
        Moment("the end of a batch is found", f"{_SOURCE}.latest:after", 12),
        _AFTER_FIRST_TAG,
        Moment("the parts of a batch are found", f"{_SOURCE}.parts:after", 12),
        Moment("a task gave its rows", "lance_spark.streams.source_tasks:read_task:after", 12),
        Moment("before the source hears that a batch is done", f"{_SOURCE}.commit:before", 8),
        PLANNED,
        NOTED,
    ),
}
"""Ten groups of queries die at each of them. At the first tags a run dies that is the first one: they are even."""


class Death(NamedTuple):
    """How one run of the queries is to end."""

    moment: Moment
    times: int
    client_only: bool = False
    """On Spark Connect: whether the server goes on, and the queries with it."""

    def __str__(self) -> str:
        return f"{'client only, ' if self.client_only else ''}{self.moment.name} (time {self.times})"


class Queries:
    """Queries of one kind that share a driver, as each start of a JVM takes seconds. All of them die at one moment."""

    def __init__(self, tables: Sequence[StreamedTable], directory: Path, server: Server | None = None) -> None:
        self._tables, self._directory, self._server = tables, directory, server
        self.died: list[str] = []
        """When they died, and how many had not noted all of their batches by then."""

    def follow_to_the_end(self, group: int) -> None:
        """Kill them as the number of the group says, start them again each time, and let the last run end."""
        for death in deaths(self._tables[0].kind, group, self._server is not None):
            self._others()
            if self._run(death):
                under_way = sum(not table.finished for table in self._tables)
                self.died.append(f"{death}, {under_way} of {len(self._tables)} under way")
        self._others()
        self._run(None)
        assert self.died, "they never came to the moment"

    def _others(self) -> None:
        for table in self._tables:
            table.others()

    def _run(self, death: Death | None) -> bool:
        """Whether they died; otherwise they ended, maybe before they came to the moment.

        A cleanup of others, which has no commit window, may take the version from which a batch started. Such a batch
        is refused, and the queries are started again.
        """
        while (died := self._once(death)) is None:
            continue
        return died

    def _once(self, death: Death | None) -> bool | None:
        """The same; None if a cleanup had a batch refused."""
        given: dict[str, Any] = {"remote": None, "jobs": [table.job() for table in self._tables]}
        log = self._directory / "log"
        before = log.stat().st_size if log.exists() else 0
        added = self._environment(death)
        if self._server is not None:
            self._server.start(added)
            given["remote"], added = self._server.url, {}
        with self._driver(given, added) as driver:
            code = self._wait(driver, death)
        died = code == -signal.SIGKILL or (self._server is not None and _dies(self._server, code))
        if code and not died and _STARTED_FROM in log.read_bytes()[before:]:
            return None
        assert died or code == 0, f"a query failed: {self._told()}"
        assert not died or death is not None, f"it died by itself: {self._told()}"
        return died

    def _environment(self, death: Death | None) -> dict[str, str]:
        if death is None or death.moment.of_spark:
            return {}
        return dying.environment(death.moment.place, death.times, self._directory / f"hits-{time.monotonic_ns()}")

    def _wait(self, driver: subprocess.Popen[bytes], death: Death | None) -> int | None:
        """Until it has ended or died; returns its exit code. Where Spark's notes are the moment, it is killed here."""
        end = time.monotonic() + PATIENCE
        notes = death.moment.place if death is not None and death.moment.of_spark else None
        before = self._noted(notes)
        while driver.poll() is None:
            assert time.monotonic() < end, f"it hangs: {self._told()}"
            if self._server is not None and not self._server.alive():
                _kill(driver)
            elif death is not None and notes is not None and self._noted(notes) >= before + death.times:
                if self._server is not None and not death.client_only:
                    self._server.kill()
                _kill(driver)
            elif death is not None:
                for table in self._tables:
                    table.meanwhile()
            time.sleep(0.01)
        return driver.returncode

    def _noted(self, notes: str | None) -> int:
        return 0 if notes is None else sum(table.noted(notes) for table in self._tables)

    @contextmanager
    def _driver(self, given: dict[str, Any], added: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
        command, around = [sys.executable, str(JOB), json.dumps(given)], {**environment(), **added}
        with (self._directory / "log").open("ab") as log:
            driver = subprocess.Popen(
                command, stdout=log, stderr=log, env=around, cwd=self._directory, start_new_session=True
            )
        try:
            yield driver
        finally:
            _kill(driver)

    def _told(self) -> str:
        told = _without_frames((self._directory / "log").read_text(errors="replace"))
        return told if self._server is None else f"{told}\nThe server:\n{_without_frames(self._server.log)}"


def deaths(kind: str, group: int, connect: bool) -> list[Death]:
    """How queries die, by the number of their group: at two moments, which are others in each group."""
    chance, moments = random.Random(group), MOMENTS[kind]
    chosen = [moments[(2 * group + number) % len(moments)] for number in range(2)]
    return [
        Death(moment, chance.randint(1, moment.most), connect and moment.of_spark and chance.random() < 0.7)
        for moment in chosen
    ]


def _without_frames(log: str) -> str:
    """The end of a log, without Java's stack frames: they would be all that is left of it."""
    return "\n".join([line for line in log.splitlines() if not line.lstrip().startswith("at ")][-60:])


def _dies(server: Server, code: int | None) -> bool:
    """A client may be faster to notice its server's death than this process."""
    end = time.monotonic() + 2
    while code and server.alive() and time.monotonic() < end:
        time.sleep(0.05)
    return not server.alive()


def _kill(driver: subprocess.Popen[bytes]) -> None:
    """The driver and its JVM; a process of Python that commits right now goes on until it notices."""
    with suppress(ProcessLookupError):
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
