"""When a test runs: on which Spark, by day or at night, and in which process. CONTRIBUTING.md explains ``when``."""

from __future__ import annotations

import os
import random
from importlib.metadata import version
from itertools import groupby
from typing import Any

import pytest

NIGHT = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
SPARK = "oldest" if version("pyspark").startswith("4.0.") else "newest"
SETTINGS = {"day", "night", "newest", "oldest", "spark"}


def leave_out(items: list[pytest.Item]) -> None:
    """Deselects the tests that their marks ``when`` leave to the other Spark or to the night."""
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for _, group in groupby(items, lambda item: item.nodeid.partition("[")[0]):
        every = list(group)
        chosen = [case for case in every if _setting(case, "spark") in (None, SPARK)]
        if not NIGHT:
            chosen = _by_day(chosen)
        kept += chosen
        left_out += [case for case in every if case not in chosen]
    if left_out:
        left_out[0].config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def take_turns(items: list[pytest.Item]) -> None:
    """For runs with several processes (``--dist loadgroup --no-loadscope-reorder``).

    One process has all tests that need the Spark session, as every session takes a JVM that has to warm up. Other
    files stay whole. What takes long begins first, so that no process is alone with it at the end.
    """
    turns: dict[str, int] = {}
    for item in items:
        file = item.nodeid.partition("::")[0]
        item.add_marker(pytest.mark.xdist_group("spark" if _needs_the_session(item) else file))
        turns[file] = min(turns.get(file, 9), _turn(item))
    items.sort(key=lambda item: turns[item.nodeid.partition("::")[0]])


def _needs_the_session(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


def _turn(item: pytest.Item) -> int:
    marks = {mark.name for mark in item.iter_markers()}
    if _needs_the_session(item):
        return 0
    order = ("spark", "slow", "hypothesis")
    return next((turn for turn, name in enumerate(order, 1) if name in marks), 4 + ("pure" in marks))


def _setting(case: pytest.Item, name: str) -> Any:
    """What the mark that is closest to a case says."""
    for mark in case.iter_markers("when"):
        if mark.args or not set(mark.kwargs) <= SETTINGS:
            raise pytest.UsageError(f"{case.nodeid}: when() takes {', '.join(sorted(SETTINGS))} by name.")
    return next((mark.kwargs[name] for mark in case.iter_markers("when") if name in mark.kwargs), None)


def _by_day(cases: list[pytest.Item]) -> list[pytest.Item]:
    chosen = [case for case in cases if not _is_for_the_night(case)]
    part = _setting(chosen[0], "day") if chosen else None
    if isinstance(part, float):
        chosen = _sample(chosen, part)
    return [case for case in chosen if _is_for_this_spark(case)]


def _is_for_the_night(case: pytest.Item) -> bool:
    day, night = _setting(case, "day"), _setting(case, "night") or {}
    if day == 0:
        return True
    values = getattr(case, "callspec").params if isinstance(day, dict) or night else {}  # noqa: B009
    return any(values[name] in some for name, some in night.items()) or (
        isinstance(day, dict) and not all(values[name] in some for name, some in day.items())
    )


def _sample(cases: list[Any], part: float) -> list[Any]:
    """That part of the cases: always the same ones, and every value of each parameter at least once."""
    shuffled = random.Random(cases[0].originalname).sample(cases, len(cases))
    seen: set[tuple[str, str]] = set()
    chosen: list[Any] = []
    others: list[Any] = []
    for case in shuffled:
        values = {(name, repr(value)) for name, value in case.callspec.params.items()}
        (others if values <= seen else chosen).append(case)
        seen |= values
    return chosen + others[: max(0, round(part * len(cases)) - len(chosen))]


def _is_for_this_spark(case: pytest.Item) -> bool:
    """What the other Spark has all cases of runs here with some of them: always the same ones."""
    parts = [mark.kwargs[SPARK] for mark in case.iter_markers("when") if SPARK in mark.kwargs]
    return all(random.Random(case.name).random() < part for part in parts)
