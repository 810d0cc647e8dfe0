"""Trying again when somebody else commits in the same moment."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

_ATTEMPTS = 50
_LONGEST_PAUSE = 0.5
"""Seconds; others are given the time to finish their commits."""


def attempts() -> Iterator[bool]:
    """Whether each attempt is the last one; from the second on with a pause before it, longer and longer."""
    for number in range(_ATTEMPTS):
        if number:
            time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.01 * 2**number)))
        yield number + 1 == _ATTEMPTS
