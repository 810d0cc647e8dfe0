"""Spans of time as people type and read them: ``14d``, ``36h``. Pure."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

from lance_spark.errors import InvalidOption

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])", re.IGNORECASE)
_LONGEST_SPAN = 10_000 * 365 * 86_400


def to_span(option: str, value: str) -> timedelta:
    """A span of time: ``14d``, ``36h``, ``90m``, ``0s``, ``2w``."""
    match = _SPAN.fullmatch(value.strip())
    seconds = Decimal(match[1]) * _SECONDS[match[2].lower()] if match else Decimal(-1)
    if not 0 <= seconds <= _LONGEST_SPAN:
        expected = "a span such as 14d, 36h, 90m or 0s"
        raise InvalidOption(f"Option '{option}' is '{value}', but it must be {expected}.")
    return timedelta(seconds=float(seconds))


def from_span(span: timedelta) -> str:
    """A span of time as :func:`to_span` reads it, in the largest unit that makes a whole number: ``14d``, ``36h``."""
    seconds = span.total_seconds()
    for unit in ("d", "h", "m"):
        if seconds and seconds % _SECONDS[unit] == 0:
            return f"{seconds / _SECONDS[unit]:.0f}{unit}"
    return f"{seconds:g}s"
