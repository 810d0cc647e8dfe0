"""Times cleanups: everyone gets a fresh copy each time, and what is left is read afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import Case, Result, Target

Clean = Callable[[str], "dict[str, Any] | None"]
"""Cleans up the dataset at a URI. What it returns is kept beside the seconds."""


@dataclass(frozen=True)
class Scenario:
    """Where copies come from, and how to look at what is left of them."""

    copy: Callable[[], AbstractContextManager[str]]
    check: Callable[[str], None]
    """Raises AssertionError where rows are missing."""
    files: Callable[[str], int]
    """How many files there are."""
    work: dict[str, Clean]
    targets: tuple[Target, ...] = ()


def measure(name: str, scenario: Scenario, rounds: int) -> Result:
    """Each peer in turn, ``rounds`` times. One that fails, loses rows or removes other files is reported."""
    result = Result(name, Case(dict.fromkeys(scenario.work, tuple), scenario.targets))
    for turn in range(rounds):
        order = list(scenario.work) if turn % 2 == 0 else list(reversed(scenario.work))
        for who in order:
            if who in result.problems:
                continue
            try:
                seconds, details = _once(scenario, scenario.work[who])
            except Exception as error:  # noqa: BLE001 - a failure is a finding, not the end of the run
                result.problems[who] = f"{type(error).__name__}: {error}"[:200]
                result.seconds.pop(who, None)
                continue
            result.seconds.setdefault(who, []).append(seconds)
            result.details[who] = details
    return result


def _once(scenario: Scenario, clean: Clean) -> tuple[float, dict[str, Any]]:
    with scenario.copy() as uri:
        before = scenario.files(uri)
        started = time.perf_counter()
        details = clean(uri)
        seconds = time.perf_counter() - started
        removed = before - scenario.files(uri)
        scenario.check(uri)
        return seconds, {"files": before, "removed": removed, **(details or {})}
