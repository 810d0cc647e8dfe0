"""Moments, from the numbers in which clocks and manifests tell them. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def moment_at(nanoseconds: int) -> datetime:
    """The moment so long after 1970, in UTC: all microseconds, which a float of seconds may round."""
    return EPOCH + timedelta(microseconds=nanoseconds // 1000)
