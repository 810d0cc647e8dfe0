"""Processes that are killed: as an exception that nobody catches, or with SIGKILL, in a process of their own."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple, NoReturn

import pytest

from support.processes import PATIENCE, processes


class Killed(BaseException):
    """The process ends here: nothing is cleaned up after it."""


def kill(*_: Any, **__: Any) -> NoReturn:
    raise Killed


@contextmanager
def killed_at(owner: Any, name: str, call: int = 1, *, after: bool = False, alone: bool = False) -> Iterator[None]:
    """What is done inside dies right before, or right after, that call of a function.

    Calls of other threads that come later die as well, unless it dies ``alone``.
    """
    real, calls = getattr(owner, name), count(1)

    def dying(*given: Any, **named: Any) -> Any:
        number = next(calls)
        if number == call and after:
            real(*given, **named)
        if number == call or (number > call and not alone):
            raise Killed
        return real(*given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, dying)
        with pytest.raises(Killed):
            yield


def run_apart(act: Callable[..., object], *given: Any) -> int | None:
    """The exit code of a process that does it."""
    process = processes().Process(target=act, args=given)
    process.start()
    process.join(PATIENCE)
    return process.exitcode


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Act(NamedTuple):
    """What processes do that are killed, and how they tell a listener of their steps: both functions of modules."""

    do: Callable[..., object]
    tell_steps: Callable[[Callable[[int], object]], object]

    def cost(self, *given: Any) -> tuple[int, float]:
        """How many steps, and how many seconds, it takes if nobody disturbs it."""
        measured = processes().Array("d", 2)
        assert run_apart(self._measure, measured, *given) == 0
        return int(measured[0]), measured[1]

    def killed_at_step(self, number: int, *given: Any) -> None:
        assert run_apart(self._die_at_step, number, *given) == -signal.SIGKILL

    def killed_after(self, seconds: float, *given: Any) -> None:
        """Or soon after its end."""
        assert run_apart(self._die_after, seconds, *given) == -signal.SIGKILL

    def _measure(self, measured: Any, *given: Any) -> None:
        began, steps = time.monotonic(), list[int]()
        self.tell_steps(steps.append)
        self.do(*given)
        measured[:] = len(steps), time.monotonic() - began

    def _die_at_step(self, number: int, *given: Any) -> None:
        self.tell_steps(lambda step: die() if step == number else None)
        self.do(*given)

    def _die_after(self, seconds: float, *given: Any) -> None:
        threading.Timer(seconds, die).start()
        self.do(*given)
