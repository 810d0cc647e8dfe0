"""How fast to delete, and how long to wait for a store that is busy. Pure: the caller has the clock and sleeps."""

from __future__ import annotations

_FIRST_DELAY = 0.5
_LONGEST_DELAY = 20.0


class Pace:
    """Keeps deletion at a number of keys per second: a token bucket that is never ahead by more than one batch."""

    def __init__(self, per_second: float | None) -> None:
        """``per_second`` is keys per second, None for no limit. Raises ValueError for a limit that is not positive."""
        if per_second is not None and not per_second > 0:
            raise ValueError(f"{per_second} keys per second would never end.")
        self._per_second = per_second
        self._paid_until = float("-inf")

    def wait(self, now: float, keys: int) -> float:
        """Seconds to sleep before a batch of so many keys. ``now`` is a monotonic clock's time, in seconds.

        The batch counts as sent. Time in which nothing was deleted is not saved up: a store that was left alone for
        an hour is throttled by a burst all the same.
        """
        if self._per_second is None:
            return 0.0
        start = max(now, self._paid_until)
        self._paid_until = start + keys / self._per_second
        return start - now


def retry_delay(attempt: int, jitter: float) -> float:
    """Seconds to wait after a failed attempt (0, 1, ...): doubling, and spread by ``jitter`` (0 to 1) over a half.

    Without the spread, all tasks that were throttled together would come back together.
    """
    return min(_FIRST_DELAY * 2.0**attempt, _LONGEST_DELAY) * (1 + jitter) / 2
