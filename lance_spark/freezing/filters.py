"""Filters that would give other rows the next time: by the clock, or by chance."""

from __future__ import annotations

import re

from lance_spark.errors import InvalidOption

_STRING, _NAME, _COMMENT = r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""", r"`(?:[^`]|``)*`", r"--[^\n]*|/\*.*?\*/"
_PARTS = re.compile(f"(?P<string>{_STRING})|(?P<name>{_NAME})|(?P<comment>{_COMMENT})", re.DOTALL)
_QUOTED_CALL, _QUOTED = re.compile(r"`(\w+)`(?=\s*\()"), re.compile(_NAME)
_CALLED = re.compile(r"\b(now|today|random|rand|uuid)\s*\(", re.IGNORECASE)
_NAMED = re.compile(r"\b(current_date|current_time|current_timestamp)\b", re.IGNORECASE)
_CHANCE = frozenset({"random", "rand", "uuid"})


def check_repeatable(filter: str) -> None:
    """Raise InvalidOption for a filter whose rows depend on the time or on chance: each task would see other ones."""
    plain = _plain(filter)
    found = _CALLED.search(plain) or _NAMED.search(plain)
    if found is None:
        return
    name = found[1].lower()
    if name in _CHANCE:
        hint = "For a part of the rows, give it a split, as in {'train': 0.1, 'rest': 0.9}."
    else:
        hint = "Write the time itself, as in day < date '2026-11-01'; a column of that name goes in backticks."
    raise InvalidOption(f"The filter {filter!r} gives other rows each time, because of '{name}'.", hint=hint)


def _plain(filter: str) -> str:
    """Without strings, quoted columns and comments: a quoted name may be that of a function, before a comment."""
    parts = _PARTS.sub(lambda part: {"string": "''", "name": part[0], "comment": " "}[part.lastgroup or ""], filter)
    return _QUOTED.sub("''", _QUOTED_CALL.sub(r"\1", parts))
