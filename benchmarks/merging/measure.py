"""Times what changes a table: everyone gets a fresh copy each time, and what was written is counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.measure import Case, Result, Target
from benchmarks.merging.data import files_of

Details = dict[str, Any]
Run = Callable[[], "Details | None"]
Prepare = Callable[[str], Run]
"""Gets ready with a table at a URI, which is not measured; what it returns is."""


class Place(Protocol):
    """A table that every round gets a fresh copy of."""

    @property
    def home(self) -> str:
        """The directory in which a round writes."""
        ...

    def copy(self) -> AbstractContextManager[str]:
        """What a copy is opened by; it is gone afterwards."""
        ...

    def check(self, uri: str) -> None:
        """Raise AssertionError unless a copy has what it should have after the work."""
        ...


@dataclass(frozen=True)
class Work:
    """What one of those that are compared does, and to which table."""

    table: Place
    prepare: Prepare
    check: bool = True
    """Whether main has to have all rows afterwards."""


def measure(name: str, work: Mapping[str, Work], targets: tuple[Target, ...], rounds: int) -> Result:
    """Each peer in turn, once to warm up and then ``rounds`` times. Peers that fail or lose rows are reported."""
    print(f"measuring: {name}", flush=True)
    result = Result(name, Case(dict.fromkeys(work, tuple), targets))
    for turn in range(rounds + 1):
        for who in list(work) if turn % 2 == 0 else list(reversed(list(work))):
            if who in result.problems:
                continue
            try:
                seconds, details = _once(work[who])
            except Exception as error:  # noqa: BLE001 - a failure is a finding, not the end of the run
                result.problems[who] = f"{type(error).__name__}: {error}"[:200]
                result.seconds.pop(who, None)
                continue
            if turn:
                result.seconds.setdefault(who, []).append(seconds)
                result.details[who] = details
    return result


def _once(work: Work) -> tuple[float, Details]:
    with work.table.copy() as uri:
        run = work.prepare(uri)
        before = files_of(work.table.home)
        started, worked = time.perf_counter(), time.process_time()
        details = run() or {}
        seconds, cpu = time.perf_counter() - started, time.process_time() - worked
        sizes = files_of(work.table.home)
        new = [size for path, size in sizes.items() if path not in before]
        if work.check:
            work.table.check(uri)
        return seconds, {"bytes_written": sum(new), "files_written": len(new), "cpu_seconds": cpu, **details}


def problems(results: Sequence[Result]) -> list[str]:
    """Which peers failed, and why."""
    return [f"{result.name}, {who}: {why}" for result in results for who, why in result.problems.items()]
