"""What a store from hell does to a verb, each at moments that a seed draws."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

from support.faulty_store import FaultyStore, Request

Fault = Callable[[FaultyStore, random.Random], None]
PREFIXES = ("/_refs/", "/data/", "/_versions/", "/_transactions/", "/tree/", "/_indices/", "lake/")


def _now_and_then(part: float, fate: str, writes: bool | None = None) -> Fault:
    """That part of the requests, or of those that write or only read."""

    def install(store: FaultyStore, chance: random.Random) -> None:
        def rule(request: Request) -> str | None:
            meant = writes in (None, request.writes) and chance.random() < part
            if meant and request.batched:
                return "error SlowDown"
            return fate if meant else None

        store.rule = rule

    return install


def _first_answers(fate: str) -> Fault:
    """The first answer to a write of each key: it arrived, and the client asks again."""

    def install(store: FaultyStore, _: random.Random) -> None:
        seen: set[tuple[str, str]] = set()

        def rule(request: Request) -> str | None:
            known = (request.method, request.key) in seen
            seen.add((request.method, request.key))
            return fate if request.writes and not known and not request.batched else None

        store.rule = rule

    return install


def _from_then_on(fate: str, first: str | None = None, writes: bool = False) -> Fault:
    """Every request from one on; that one has a fate of its own. With ``writes`` it is one that writes."""

    def install(store: FaultyStore, chance: random.Random) -> None:
        moment = int(2 ** chance.uniform(0, 4.3 if writes else 6.5))
        counting = threading.Lock()
        moments: Iterator[int] = iter(range(1, 10**9))
        gone: list[bool] = []

        def rule(request: Request) -> str | None:
            with counting:
                if gone:
                    return fate
                if (writes and not request.writes) or next(moments) < moment:
                    return None
                gone.append(True)
                return fate if first is None or request.batched else first

        store.rule = rule

    return install


def _denied(store: FaultyStore, chance: random.Random) -> None:
    """One prefix: its writes, or reads as well."""
    prefix, writes = chance.choice(PREFIXES), chance.random() < 0.7
    store.rule = lambda request: (
        "403 AccessDenied" if prefix in request.key and (request.writes or not writes) else None
    )


def _clock(days: int) -> Fault:
    def install(store: FaultyStore, _: random.Random) -> None:
        store.clock = timedelta(days=days)

    return install


def _nothing(_: FaultyStore, __: random.Random) -> None:
    """The listings are frozen elsewhere."""


FAULTS: dict[str, Fault] = {
    "throttled": _now_and_then(0.25, "503 SlowDown"),
    "failing": _now_and_then(0.2, "500 InternalError"),
    "time-outs": _now_and_then(0.08, "silent 0.3"),
    "slow bytes": _now_and_then(0.3, "slow 0.2"),
    "torn answers": _now_and_then(0.15, "torn", writes=False),
    "first answers lost": _first_answers("lost"),
    "first answers 500": _first_answers("late 500"),
    "out": _from_then_on("500 InternalError"),
    "out after a write": _from_then_on("500 InternalError", "late 500", writes=True),
    "gone after a write": _from_then_on("503 SlowDown", "lost", writes=True),
    "denied": _denied,
    "a day ahead": _clock(1),
    "a day behind": _clock(-1),
    "clock refused": _from_then_on("403 RequestTimeTooSkewed"),
    "listings frozen": _nothing,
    "listings late": _nothing,
}
"""``listings frozen``: they show nothing that the verb does. ``listings late``: nor what others did just before."""
