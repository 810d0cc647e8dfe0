"""How a verb is declared: ``@verb("name")`` over a function of the session, and the options that verbs share."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import click

from lance_spark.cli.call import CommandCall
from lance_spark.errors import InvalidOption

AnyCallable = TypeVar("AnyCallable", bound=Callable[..., Any])


def _switch_to_json(context: click.Context, _: click.Parameter, given: bool) -> None:
    if given and isinstance(context.obj, CommandCall):
        context.obj = replace(context.obj, output=replace(context.obj.output, json=True))


def _json_option() -> click.Option:
    return click.Option(
        ["--json"], is_flag=True, is_eager=True, expose_value=False, callback=_switch_to_json, help="Print JSON."
    )


class Verb(click.Command):
    """A verb: takes ``--json`` after its name, too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(_json_option())


class VerbGroup(click.Group):
    """A verb that has further verbs, such as ``remote add``."""

    command_class = Verb

    def __init__(self, *args: Any, words: Mapping[str, tuple[str, str]] | None = None, **kwargs: Any) -> None:
        """``words`` are those that people type, and that are no verbs: why not, and what to type instead."""
        super().__init__(*args, **kwargs)
        self.words = words or {}
        self.params.append(_json_option())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As in click, with the nearest verb in the error."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], [*self.list_commands(ctx), *self.words], n=1)
            word = args[0] if args[0] in self.words else near[0] if near else ""
            if word in self.words:
                why, instead = self.words[word]
                raise InvalidOption(f"{ctx.command_path} has no '{word}': {why}.", hint=instead)
            ctx.fail(f"'{args[0]}' is no verb of {ctx.command_path}." + (f" Did you mean '{near[0]}'?" if near else ""))
        return super().resolve_command(ctx, args)


def verb(name: str) -> Callable[[Callable[..., Any]], Verb]:
    """Declare a verb. The function's docstring is its help; what it returns is the exit code (None for 0)."""
    return click.command(name, cls=Verb)


def yes_option(function: AnyCallable) -> AnyCallable:
    """``--yes``."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask.")(function)


def dry_run_option(function: AnyCallable) -> AnyCallable:
    """``--dry-run``."""
    return click.option("-n", "--dry-run", is_flag=True, help="Only say what would happen.")(function)
