"""How often a commit is tried again after another process was faster, and how long the pauses are."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping

from lance_spark.errors import Conflict
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import MAIN
from lance_spark.store.own_commits import find_own

_ATTEMPTS = 50
_LONGEST_PAUSE = 0.5
"""Seconds; other processes are given the time to finish their commits."""


def attempts() -> Iterator[int]:
    """How many more attempts there are, down to 0, with pauses in between."""
    for attempt in range(_ATTEMPTS):
        yield _ATTEMPTS - 1 - attempt
        time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.01 * 2**attempt)))


def commit_once(
    location: DatasetLocation,
    head: PinnedVersion,
    properties: Mapping[str, str],
    left: int,
    commit: Callable[[], PinnedVersion],
) -> PinnedVersion | None:
    """The version that ``commit`` made on top of ``head``; None if others were faster and it is to be tried again.

    A commit whose answer was lost ends as a conflict with itself: ``properties`` tell it from those of others. Raises
    Conflict after the last attempt, of which ``left`` is 0.
    """
    try:
        return commit()
    except Conflict:
        own = find_own(location, head, properties)
        if own is None and not left:
            raise
        return own


def overtaken(branch: str | None, outcome: str = "nothing was changed") -> Conflict:
    """The error after the last attempt."""
    return Conflict(
        f"Other processes committed to '{branch or MAIN}' again and again; {outcome}.", hint="Run it again."
    )
