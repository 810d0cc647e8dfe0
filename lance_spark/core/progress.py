"""Progress of long work. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from lance_spark.errors import InvalidOption


@dataclass(frozen=True)
class WorkProgress:
    stage: str
    """The current stage, or the last finished one."""
    done: int = 0
    total: int = 0
    """How many files, fragments or the like there are to do; 0 if unknown."""

    def __str__(self) -> str:
        """``copy: 40 of 120``; without numbers if there is nothing to count."""
        return f"{self.stage}: {self.done:,} of {self.total:,}" if self.total > 1 else self.stage


Tell: TypeAlias = Callable[[WorkProgress], object]
"""Receives progress in the caller's thread: when a stage begins, and then about twice a second."""


def untold(progress: WorkProgress) -> None:
    """Discards progress."""


def to_tell(progress: Callable[..., object] | None) -> Tell:
    """The argument ``progress`` of a verb. Raises InvalidOption if it is not callable."""
    check_progress(progress)
    return untold if progress is None else progress


def check_progress(progress: object) -> None:
    """Raise InvalidOption for a ``progress`` that cannot be called."""
    if progress is not None and not callable(progress):
        raise InvalidOption(
            "progress must be a function of one argument.", hint="For example, progress=lance_spark.progress_bar."
        )
