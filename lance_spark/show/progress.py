"""How far work is that takes long: one kind of value, whoever works and whoever shows it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from lance_spark.errors import InvalidOption


@dataclass(frozen=True)
class WorkProgress:
    """How far a piece of work is."""

    stage: str
    """What is being done, or was finished last."""
    done: int = 0
    total: int = 0
    """How many files, fragments or the like there are to do; 0 where nobody knows."""

    def __str__(self) -> str:
        """``copy: 40 of 120``; without numbers where there is nothing to count."""
        return f"{self.stage}: {self.done:,} of {self.total:,}" if self.total > 1 else self.stage


Tell: TypeAlias = Callable[[WorkProgress], object]
"""Is told, in the thread that called the verb, each time a stage begins, and while it goes on about twice a second."""


def untold(progress: WorkProgress) -> None:
    """For work that nobody wants to hear of."""


def to_tell(progress: Callable[..., object] | None) -> Tell:
    """The argument ``progress`` of a verb. Raises InvalidOption for what is no function."""
    check_progress(progress)
    return untold if progress is None else progress


def check_progress(progress: object) -> None:
    """Raise InvalidOption for what can be told nothing."""
    if progress is not None and not callable(progress):
        raise InvalidOption("progress is a function of one value.", hint="For example progress=print.")
