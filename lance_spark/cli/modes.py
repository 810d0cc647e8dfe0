"""Verbs that do one of several things, by flag, as ``git branch`` does: usage line by line, and what clashes.

No slow imports here: ``--help`` should answer at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource

from lance_spark.errors import InvalidOption


@dataclass(frozen=True)
class Mode:
    """One of the things that a verb does, such as deleting a branch."""

    usage: str
    """What follows the verb, such as ``-d NAME``."""
    when: str
    """For errors: "to list branches", "with -d"."""
    run: Callable[[Any, Any], None]
    """Does it, with the session and the verb's arguments."""
    flags: tuple[str, ...] = ()
    """The parameters, by name, that choose it."""
    names: tuple[int, int] = (1, 1)
    """How many names it takes, at least and at most."""
    options: tuple[str, ...] = ()
    """The parameters that it takes; those that no mode mentions are for all."""


def chosen(context: click.Context, modes: Sequence[Mode], names: Sequence[str]) -> Mode:
    """The mode that was typed: by its flag; without one the first if there are no names, otherwise the second.

    Raises InvalidOption, with the usage as the hint, for flags that clash and for too few or too many names.
    """
    flags = {
        parameter.name or "": parameter.opts[0]
        for parameter in context.command.params
        if context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
    }
    found = [mode for mode in modes if not flags.keys().isdisjoint(mode.flags)]
    if len(found) > 1:
        clash = " and ".join(flags[name] for name in flags if any(name in mode.flags for mode in found))
        raise InvalidOption(f"{clash} cannot be combined.", hint=usage_of(context, *found))
    mode = found[0] if found else modes[1 if names else 0]
    allowed = {*mode.flags, *mode.options}
    for name, flag in flags.items():
        takers = [other for other in modes if name in other.options]
        if takers and name not in allowed:
            raise InvalidOption(f"{flag} cannot be used {mode.when}.", hint=usage_of(context, *takers))
    least, most = mode.names
    if len(names) < least:
        raise InvalidOption(f"A name is missing {mode.when}.", hint=usage_of(context, mode))
    if len(names) > most:
        raise InvalidOption(f"Too many names {mode.when}: {', '.join(names)}.", hint=usage_of(context, mode))
    return mode


def usage_of(context: click.Context, *modes: Mode) -> str:
    """The usage of some modes, in one line."""
    return " or ".join(f"{context.command_path} {mode.usage}" for mode in modes)


def write_usage(context: click.Context, formatter: click.HelpFormatter, modes: Sequence[Mode]) -> None:
    """A line for each mode."""
    for number, mode in enumerate(modes):
        formatter.write_usage(context.command_path, mode.usage, prefix="   or: " if number else "Usage: ")


Records = list[tuple[str, str]]


def write_sections(formatter: click.HelpFormatter, sections: Mapping[str, Records]) -> None:
    """Lists below titles, with their second columns below each other."""
    width = max((len(name) for records in sections.values() for name, _ in records), default=0)
    for title, records in sections.items():
        with formatter.section(title):
            formatter.write_dl([(name.ljust(min(width, 30)), text) for name, text in records])
