"""How often a commit is tried again after another process was faster, and how long the pauses are."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from lance_spark.errors import Conflict
from lance_spark.refs.names import MAIN

_ATTEMPTS = 50
_LONGEST_PAUSE = 0.5
"""Seconds; other processes are given the time to finish their commits."""


def attempts() -> Iterator[int]:
    """How many more attempts there are, down to 0, with pauses in between."""
    for attempt in range(_ATTEMPTS):
        yield _ATTEMPTS - 1 - attempt
        time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.01 * 2**attempt)))


def overtaken(branch: str | None, outcome: str = "nothing was changed") -> Conflict:
    """The error after the last attempt."""
    return Conflict(
        f"Other processes committed to '{branch or MAIN}' again and again; {outcome}.", hint="Run it again."
    )
