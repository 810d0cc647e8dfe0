"""Real processes that begin in no time: one server imports the slow modules, and each process is a fork of it."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

PATIENCE = 120
"""Seconds after which a process is taken to hang."""


class Job(NamedTuple):
    """What a process has to do. ``prepare`` is done before it says that it is ready; its result is the first argument.

    Both have to be functions of modules.
    """

    run: Callable[..., Any]
    given: tuple[Any, ...] = ()
    prepare: Callable[..., Any] | None = None


def processes() -> ForkServerContext:
    """Where to make processes. All tests share one server, so it imports what any of them needs."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            "pytest",
            "lance.namespace",
            "pyarrow.parquet",
            "s3fs",
            "lance_spark.cleanup.cleanup",
            "lance_spark.merge.merge",
            "lance_spark.catalog.doctor",
            "lance_spark.spark.catalog",
        ]
    )
    return context


class Team:
    """Processes that stay, and begin at one moment."""

    def __init__(self, size: int, patience: float = PATIENCE) -> None:
        """``patience`` is in seconds, as PATIENCE."""
        self._size, self._patience = size, patience
        self._ends: list[Connection] = []
        self._members: list[BaseProcess] = []
        self._working = 0
        """How many of them are about to begin, or have begun and were not asked for their outcome."""

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prepare(self, jobs: Sequence[Job]) -> None:
        """Give every job to one process, and wait until all could begin at once."""
        assert len(jobs) <= self._size
        if self._working or not self._members:  # a test failed half way, or this is the first one
            self.close()
            self._start()
        self._working = len(jobs)
        for end, job in zip(self._ends, jobs, strict=False):
            end.send(job)
        assert self._received() == [None] * len(jobs)

    def go(self) -> None:
        for end in self._ends[: self._working]:
            end.send(None)

    def outcomes(self) -> list[Any]:
        """What each of them returned, in the order of the jobs. An exception of theirs fails the test."""
        results = self._received()
        self._working = 0
        return results

    def run(self, jobs: Sequence[Job]) -> list[Any]:
        self.prepare(jobs)
        self.go()
        return self.outcomes()

    def close(self) -> None:
        for member in self._members:
            member.kill()
            member.join(PATIENCE)
        for end in self._ends:
            end.close()
        self._members, self._ends, self._working = [], [], 0

    def _start(self) -> None:
        context = processes()
        for _ in range(self._size):
            ours, theirs = context.Pipe()
            member = context.Process(target=_serve, args=(theirs,), daemon=True)
            member.start()
            theirs.close()
            self._ends.append(ours)
            self._members.append(member)

    def _received(self) -> list[Any]:
        results = []
        for end in self._ends[: self._working]:
            assert end.poll(self._patience), "a process hangs"
            result, problem = end.recv()
            assert problem is None, problem
            results.append(result)
        return results


def _serve(end: Connection) -> None:
    while True:
        job = end.recv()
        with _told(end) as tell:
            given = job.given if job.prepare is None else (job.prepare(*job.given), *job.given)
            tell(None)
            end.recv()
            tell(job.run(*given))


@contextmanager
def _told(end: Connection) -> Iterator[Callable[[Any], None]]:
    try:
        yield lambda result: end.send((result, None))
    except Exception:  # noqa: BLE001 - the test shows it
        end.send((None, traceback.format_exc()))
