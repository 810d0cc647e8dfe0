"""When a test runs: on which Spark, by day or at night, and in which process. CONTRIBUTING.md explains ``when``."""

from __future__ import annotations

import os
import random
from itertools import groupby
from typing import Any

import pyspark
import pytest

NIGHT = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
SPARK = "oldest" if pyspark.__version__.startswith("4.0.") else "newest"
GRID = 0.08
"""The part of the cases of a test with several parameters that runs by day, if no mark says another one."""
SERIES = 0.5
"""The part of the cases of a test of datasets with one parameter and more than four values."""
HEAVY = 0.4
"""The part of the tests of a store over HTTP, and of those with processes of their own, that runs by day."""
CLASSIC, CONNECT = "classic", "connect"
"""Values of the fixture ``spark``."""
_BEGUN = pytest.StashKey[bool]()
SETTINGS = {"day", "night", "newest", "oldest", "spark", "sample"}


def leave_out(items: list[pytest.Item]) -> None:
    """Deselects the tests that their marks ``when`` leave to the other Spark or to the night."""
    kept: list[pytest.Item] = []
    for _, group in groupby(items, lambda item: item.nodeid.partition("[")[0]):
        every = list(group)
        chosen = [case for case in every if _may_differ_here(case) and not _is_of_both(case)]
        kept += chosen if NIGHT else _by_day(chosen)
    _keep(items, kept)


def takes_clients(metafunc: pytest.Metafunc) -> bool:
    """Whether a test also runs with a client of Spark Connect: at night, or with ``on_connect(day=True)``."""
    marks = [*metafunc.definition.iter_markers("on_connect")]
    unasked = bool(marks) or "both_ways" in metafunc.fixturenames
    asked = next((bool(mark.args[0]) for mark in marks if mark.args), unasked)
    by_day = any(mark.kwargs.get("day") for mark in marks)
    return asked and (NIGHT or (by_day and SPARK == "newest"))


def take_share(items: list[pytest.Item], share: str) -> None:
    """Deselects all but every Nth test, from the Kth on, for a share K/N: the shares together have each test once."""
    number, _, count = share.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise pytest.UsageError(f"--share takes K/N, with K from 1 to N; not {share!r}.")
    _keep(items, items[int(number) - 1 :: int(count)])


def _keep(items: list[pytest.Item], kept: list[pytest.Item]) -> None:
    chosen = set(kept)
    left_out = [item for item in items if item not in chosen]
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


def give_way(item: pytest.Item) -> None:
    """Of several processes, those that begin without the Spark session let its process go first: it is done last."""
    if "PYTEST_XDIST_WORKER" in os.environ and not item.config.stash.setdefault(_BEGUN, False):
        item.config.stash[_BEGUN] = True
        os.nice(0 if _needs_the_session(item) else 5)


def _needs_the_session(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


def _turn(item: pytest.Item) -> int:
    marks = {mark.name for mark in item.iter_markers()}
    if _needs_the_session(item):
        return 0
    order = ("spark", "slow", "hypothesis")
    return next((turn for turn, name in enumerate(order, 1) if name in marks), 4 + ("pure" in marks))


def _settings(case: pytest.Item, name: str) -> list[Any]:
    """What a case's marks say: its own, those of its test, and those of the file."""
    marks = list(case.iter_markers("when"))
    if any(mark.args or not set(mark.kwargs) <= SETTINGS for mark in marks):
        raise pytest.UsageError(f"{case.nodeid}: when() takes {', '.join(sorted(SETTINGS))} by name.")
    return [mark.kwargs[name] for mark in marks if name in mark.kwargs]


def _by_day(cases: list[pytest.Item]) -> list[pytest.Item]:
    clients = [case for case in cases if _is_a_client(case)]
    chosen = [case for case in cases if case not in clients and not _is_for_the_night(case)]
    parts = [part for part in _settings(chosen[0], "day") if isinstance(part, float)] if chosen else []
    if (parts and len(chosen) > 1) or _is_a_grid(chosen) or _is_a_series(chosen):
        chosen = _sample(chosen, parts[0] if parts else GRID if _is_a_grid(chosen) else SERIES)
    return [case for case in chosen if _is_for_this_spark(case)] + clients[:1]


def _is_a_client(case: Any) -> bool:
    return hasattr(case, "callspec") and case.callspec.params.get("spark") == CONNECT


def _is_a_grid(cases: list[Any]) -> bool:
    """Several parameters in a test of datasets; of a grid of both ways to read, each Spark has its part."""
    return (
        len(cases) > 3
        and not {"pure", "hypothesis"} & {mark.name for mark in cases[0].iter_markers()}
        and len(_parameters(cases[0])) > 1
        and "both_ways" not in cases[0].callspec.params
    )


def _is_a_series(cases: list[Any]) -> bool:
    return len(cases) > 4 and not {"pure", "hypothesis"} & {mark.name for mark in cases[0].iter_markers()}


def _is_of_both(case: Any) -> bool:
    """A catalog of a service asked by a client of Spark Connect: each of the two is tried by itself."""
    parameters = case.callspec.params if hasattr(case, "callspec") else {}
    return parameters.get("spark") == CONNECT and parameters.get("lake_of", "dir") != "dir"


def _is_for_the_night(case: pytest.Item) -> bool:
    days = _settings(case, "day")
    if 0 in days:
        return True
    by_day = [named for named in days if isinstance(named, dict)]
    return any(_value(case, name) not in some for named in by_day for name, some in named.items()) or any(
        _value(case, name) in some for named in _settings(case, "night") for name, some in named.items()
    )


def _parameters(case: Any) -> dict[str, Any]:
    """All but the session, which says where a case runs and not which."""
    return {name: value for name, value in case.callspec.params.items() if name != "spark"}


def _value(case: Any, name: str) -> Any:
    return case.callspec.params[name]


def _sample(cases: list[Any], part: float) -> list[Any]:
    """That part of the cases, always the same ones. Of several parameters each value is there at least once."""
    shuffled = random.Random(cases[0].originalname).sample(cases, len(cases))
    if len(_parameters(cases[0])) == 1:
        return shuffled[: max(1, round(part * len(cases)))]
    seen: set[tuple[str, str]] = set()
    chosen: list[Any] = []
    others: list[Any] = []
    for case in shuffled:
        values = {(name, repr(value)) for name, value in _parameters(case).items()}
        (others if values <= seen else chosen).append(case)
        seen |= values
    return chosen + others[: max(0, round(part * len(cases)) - len(chosen))]


def _may_differ_here(case: pytest.Item) -> bool:
    """Whether no mark leaves it to the other Spark, but for the sample that runs on this one at night."""
    elsewhere = [mark.kwargs for mark in case.iter_markers("when") if mark.kwargs.get("spark", SPARK) != SPARK]
    place = random.Random(case.name).random()
    return all(NIGHT and place < settings.get("sample", 0) for settings in elsewhere)


def _is_for_this_spark(case: pytest.Item) -> bool:
    """Of parts that make 1 together, each Spark has other cases: always the same ones."""
    place = random.Random(case.name).random()
    return all(place < part if SPARK == "newest" else place >= 1 - part for part in _parts(case))


def _parts(case: Any) -> list[float]:
    """Of this Spark. The mark of a test counts instead of its file's; the one of a case counts beside both."""
    of_test = [mark.kwargs[SPARK] for mark in getattr(case.function, "pytestmark", ()) if SPARK in mark.kwargs]
    own = [mark.kwargs[SPARK] for mark in case.own_markers if SPARK in mark.kwargs]
    usual = [HEAVY] if {"s3", "slow"} & {mark.name for mark in case.iter_markers()} else []
    return own if of_test else _settings(case, SPARK) or usual
