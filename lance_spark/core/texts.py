"""Values as users read and type them: sizes, counts, moments, spans, suggestions, and texts without secrets. Pure."""

from __future__ import annotations

import difflib
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone
from decimal import Decimal

from lance_spark.core.irreversible import proposable
from lance_spark.errors import InvalidOption

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_USER = re.compile(r"(?<![\w+.-])([A-Za-z][\w+.-]*)://([^/\s?#]*)@")
_QUERY = re.compile(r"(?<![\w+.-])([A-Za-z][\w+.-]*://[^\s?#]*)[?#][^\s'\"]*")
_UNSEEN = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
"""Without the joiners: Persian and many pictures of emoji need them."""
_STYLED = re.compile(rf"(\x1b\[[0-9;]*m)|{_UNSEEN}")
_UNSTYLED = re.compile(_UNSEEN)
_CONTAINERS = frozenset({"az", "abfs", "abfss", "wasb", "wasbs"})
"""In URIs of these schemes, the name before the @ is a container."""


def readable(size: int) -> str:
    amount = float(size)
    for unit in _UNITS[:-1]:
        if amount < 1024:
            return f"{amount:,.0f} {unit}" if unit == "B" else f"{amount:,.1f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} {_UNITS[-1]}"


def columns_of(text: str) -> int:
    """The columns that a text takes on a terminal: two for each character of Chinese, Japanese and Korean."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(letter: str) -> int:
    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def fitting(text: str, columns: int) -> int:
    """How many of its first characters fit into so many columns."""
    if text.isascii():
        return max(0, columns)
    taken = 0
    for at, letter in enumerate(text):
        taken += _columns(letter)
        if taken > columns:
            return at
    return len(text)


def wrapped(text: str, columns: int) -> list[str]:
    """The text in lines of at most so many columns: broken between words, or within one that is longer."""
    if text.isascii():
        return textwrap.wrap(text, columns, break_on_hyphens=False)
    lines = [""]
    for word in text.split():
        if lines[-1] and columns_of(f"{lines[-1]} {word}") <= columns:
            lines[-1] = f"{lines[-1]} {word}"
            continue
        rest = word if not lines[-1] or columns_of(word) <= columns else f"{lines.pop()} {word}"
        while columns_of(rest) > columns:
            most = max(1, fitting(rest, columns))
            lines.append(rest[:most])
            rest = rest[most:]
        lines.append(rest)
    return [line for line in lines if line]


_BAR, _SHORTEST_BAR = 24, 6


def bar_of(stage: str, done: int, total: int, told: str, columns: int | None = None) -> str:
    """``copy [#####-----] 40 of 120``: on a narrow terminal with a shorter bar, or with none."""
    room = _BAR if columns is None else min(_BAR, columns - columns_of(stage) - columns_of(told) - 4)
    if room < _SHORTEST_BAR:
        return cut_to(f"{stage} {told}", columns)
    full = room * min(done, total) // total
    return f"{stage} [{'#' * full}{'-' * (room - full)}] {told}"


def cut_to(text: str, columns: int | None) -> str:
    """The text, or the beginning of it that fits, with a sign that it goes on."""
    if columns is None or columns_of(text) <= columns:
        return text
    return f"{text[: fitting(text, columns - 1)]}…"


def quoted_name(name: str) -> str:
    """An identifier in backticks, as SQL takes any."""
    return "`" + name.replace("`", "``") + "`"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """``1 file``, ``2 files``."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def moment(when: datetime) -> str:
    """A moment in UTC, to the second."""
    return f"{when.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def few(names: Sequence[str], most: int) -> str:
    """The first names, and the count of the rest."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def masked(text: str) -> str:
    """The text without possible secrets in its URIs: user names, passwords and queries.

    This package writes no such URIs, but other tools might have written them into manifests and ref files.
    """
    return _QUERY.sub(r"\1?***", _USER.sub(_without_user, text))


def _without_user(match: re.Match[str]) -> str:
    scheme, user = match[1], match[2]
    return match[0] if scheme.lower() in _CONTAINERS and ":" not in user else f"{scheme}://***@"


def one_line(text: str) -> str:
    """The text for one cell or line: masked, and without line breaks and control characters."""
    return masked("".join(letter if letter.isprintable() else " " for letter in text))


def visible(text: str, styled: bool = False) -> str:
    """The text with the characters that nobody sees, or that turn the order of others round, spelled out.

    A value with an escape sequence would move the cursor of a terminal, or clear it. ``styled`` lets colors pass.
    """
    if styled:
        return _STYLED.sub(lambda match: match[1] or _spelled(match[0]), text)
    return _UNSTYLED.sub(lambda match: _spelled(match[0]), text)


def _spelled(character: str) -> str:
    return f"\\u{ord(character):04x}"


# --- Moments from the numbers in clocks and manifests

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def moment_at(nanoseconds: int) -> datetime:
    """The moment that many nanoseconds after 1970, UTC, exact to the microsecond; a float of seconds can round."""
    return EPOCH + timedelta(microseconds=nanoseconds // 1000)


# --- Spans of time: ``14d``, ``36h``

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])", re.IGNORECASE)
_LONGEST_SPAN = 10_000 * 365 * 86_400


def to_span(option: str, value: str) -> timedelta:
    """A span of time: ``14d``, ``36h``, ``90m``, ``0s``, ``2w``."""
    match = _SPAN.fullmatch(value.strip())
    seconds = Decimal(match[1]) * _SECONDS[match[2].lower()] if match else Decimal(-1)
    if not 0 <= seconds <= _LONGEST_SPAN:
        expected = "a span such as 14d, 36h, 90m or 0s"
        raise InvalidOption(
            f"Option '{option}' is '{value}', but it must be {expected}.",
            hint="Units are w, d, h, m and s; 30d stands for a month, 365d for a year.",
        )
    return timedelta(seconds=float(seconds))


def from_span(span: timedelta) -> str:
    """A span of time as :func:`to_span` reads it, in the largest unit that makes a whole number: ``14d``, ``36h``."""
    seconds = span.total_seconds()
    for unit in ("d", "h", "m"):
        if seconds and seconds % _SECONDS[unit] == 0:
            return f"{seconds / _SECONDS[unit]:.0f}{unit}"
    return f"{seconds:g}s"


# --- Suggestions for an unknown name


def meant(name: str, known: Iterable[str], lead: str = "There are") -> str:
    """A hint: the nearest known name that can be undone, ignoring case, or else all of them after ``lead``."""
    names = list(known)
    folded = {each.lower(): each for each in reversed(proposable(names))}
    near = difflib.get_close_matches(name.lower(), folded, n=1)
    if near:
        return f"Did you mean '{folded[near[0]]}'?"
    return f"{lead} {', '.join(names)}." if names else f"{lead} none."
