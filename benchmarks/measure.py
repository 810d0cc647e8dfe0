"""Times callables against each other: alternating, warmed up, the median of several rounds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

Answer = Sequence[float | int | None]
Work = Callable[[], Answer]


@dataclass(frozen=True)
class Target:
    """What the project promises: a peer's time divided by ours is at least ``factor``, or ours is below a limit."""

    text: str
    peer: str | None = None
    factor: float = 1.0
    seconds: float = math.inf
    who: str = "ours"
    """Whose promise it is, where there is more than one of ours."""

    def reached(self, medians: dict[str, float]) -> bool | None:
        """None when the peer was not measured."""
        if self.who not in medians:
            return False
        if self.peer is None:
            return medians[self.who] <= self.seconds
        return medians[self.peer] / medians[self.who] >= self.factor if self.peer in medians else None


@dataclass(frozen=True)
class Case:
    """One question, asked of everyone. Answers are compared unless a peer makes up its rows."""

    work: dict[str, Work]
    targets: tuple[Target, ...] = ()
    incomparable: frozenset[str] = frozenset({"floor"})


@dataclass
class Result:
    """What a case took, and what went wrong."""

    name: str
    case: Case
    seconds: dict[str, list[float]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    details: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What else there is to know about the last round of each."""

    @property
    def medians(self) -> dict[str, float]:
        return {name: median(times) for name, times in self.seconds.items()}


def run(name: str, case: Case, rounds: int) -> Result:
    """Ask each peer in turn, once to warm up and then ``rounds`` times. One that fails is left out, with the reason."""
    result = Result(name, case)
    answers: dict[str, Answer] = {}
    for peer, work in case.work.items():
        try:
            answers[peer] = work()
        except Exception as error:  # noqa: BLE001 - a peer that fails is a finding, not the end of the run
            result.problems[peer] = _telling_line(error)
    for peer, answer in answers.items():
        if peer not in case.incomparable and not _agree(answer, answers.get("ours", answer)):
            result.problems[peer] = "gives another answer than ours"
    for turn in range(rounds):
        order = list(answers) if turn % 2 == 0 else list(reversed(answers))
        for peer in order:
            started = time.perf_counter()
            case.work[peer]()
            result.seconds.setdefault(peer, []).append(time.perf_counter() - started)
    return result


def _telling_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return next((line for line in lines if "Error" in line or "Exception: " in line), lines[0])[:160]


def _agree(left: Answer, right: Answer) -> bool:
    return len(left) == len(right) and all(
        a == b or (a is not None and b is not None and math.isclose(a, b, rel_tol=1e-6))
        for a, b in zip(left, right, strict=True)
    )
