"""Options of a dataclass as the table that a page of the documentation has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lance_spark.core.declared import Declared, Place, declared

_NAMED: Mapping[Place, str] = {"file": "policy file", "sql": "SQL"}


def as_markdown(*kinds: type) -> Iterator[str]:
    """The table of a dataclass' options, or of several, line by line."""
    options = declared(*kinds)
    places = {place for each in options for place in each.spelling.places}
    named = [title for place, title in _NAMED.items() if place in places]
    names, keys = [f"`{each.name}`" for each in options], [_key(each, named) for each in options]
    flags = [_flag(each) for each in options]
    columns = {"Python": names, "command line": flags, ", ".join(named): keys}
    if names == keys:  # the same everywhere
        columns = {", ".join(["Python", *named]): names, "command line": flags}
    if places == {"source"}:
        columns = {
            "option": [", ".join(f"`{name}`" for name in (each.key, *each.spelling.aliases)) for each in options]
        }
    columns["meaning"] = [each.help for each in options]
    shown = {title: cells for title, cells in columns.items() if {*cells} != {"-"}}
    yield f"| {' | '.join(shown)} |"
    yield "|---" * len(shown) + "|"
    yield from (f"| {' | '.join(row)} |" for row in zip(*shown.values(), strict=True))


def _flag(each: Declared) -> str:
    shown = "|".join(each.spelling.choices) if each.spelling.choices else each.metavar
    typed = f"`{each.flag}{f' {shown}' if shown else ''}`".replace("|", "\\|")
    return typed if {"job", "shell"} & set(each.spelling.places) else "-"


def _key(each: Declared, named: Sequence[str]) -> str:
    own = [title for place, title in _NAMED.items() if place in each.spelling.places]
    return f"`{each.key}`{'' if own == named else f' ({own[0]} only)'}" if own else "-"
