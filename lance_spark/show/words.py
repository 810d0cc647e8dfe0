"""Numbers, moments and names as people read them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timezone

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_USER = re.compile(r"(?<![\w+.-])([A-Za-z][\w+.-]*)://([^/\s?#]*)@")
_QUERY = re.compile(r"(?<![\w+.-])([A-Za-z][\w+.-]*://[^\s?#]*)[?#][^\s'\"]*")
_CONTAINERS = frozenset({"az", "abfs", "abfss", "wasb", "wasbs"})
"""In their URIs the name before the @ is that of a container."""


def readable(size: int) -> str:
    """A number of bytes with a unit."""
    amount = float(size)
    for unit in _UNITS[:-1]:
        if amount < 1024:
            return f"{amount:,.0f} {unit}" if unit == "B" else f"{amount:,.1f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} {_UNITS[-1]}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """``1 file``, ``2 files``."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def moment(when: datetime) -> str:
    """A moment in UTC, to the second."""
    return f"{when.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def few(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def masked(text: str) -> str:
    """The text without what may be a secret in its URIs: user names, passwords and queries.

    This package writes no such URIs, but other tools may have written them into manifests and ref files.
    """
    return _QUERY.sub(r"\1?***", _USER.sub(_without_user, text))


def _without_user(match: re.Match[str]) -> str:
    scheme, user = match[1], match[2]
    return match[0] if scheme.lower() in _CONTAINERS and ":" not in user else f"{scheme}://***@"


def one_line(text: str) -> str:
    """The text for one cell or line: masked, and without line breaks and control characters."""
    return masked("".join(letter if letter.isprintable() else " " for letter in text))
