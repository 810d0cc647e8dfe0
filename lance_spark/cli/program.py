"""What all commands share: how verbs are declared and loaded, and errors as a line, a hint and an exit code.

No slow imports here: ``--help`` should answer at once.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from lance_spark.cli.modes import Mode, Records, write_sections, write_usage
from lance_spark.cli.output import (
    BAR,
    INTERRUPTED,
    NOT_DONE,
    Output,
    ReaderGone,
    prepare_streams,
    put,
    terminal_width,
    wants_color,
)
from lance_spark.core.declared import at
from lance_spark.core.irreversible import proposable
from lance_spark.core.location import is_not_text, printable
from lance_spark.core.show import WIDTH
from lance_spark.errors import Conflict, InvalidOption, LanceSparkError, NotFound
from lance_spark.hints import said

if TYPE_CHECKING:
    from lance_spark.engine.local import Engine

# --- The common base of all verbs


@dataclass(frozen=True)
class CommandCall:
    """One call of a command."""

    output: Output

    @property
    def engine(self) -> Engine:
        """The engine for copying files and other work: threads in this process."""
        from lance_spark.engine.local import LocalRunner

        return LocalRunner(tell=BAR.tell)

    def show(self, data: Mapping[str, Any], text: str) -> None:
        """Print the result."""
        self.output.show(data, text)

    def did(self, action: str, dry_run: bool, text: str, /, **data: Any) -> None:
        """Print what a verb did, or would do in a dry run."""
        self.show({"action": action, **data, "dry_run": dry_run}, text)


# --- Declaring verbs, and their shared options

AnyCallable = TypeVar("AnyCallable", bound=Callable[..., Any])


def _switch_to_json(context: click.Context, _: click.Parameter, given: bool) -> None:
    if given and isinstance(context.obj, CommandCall):
        context.obj = replace(context.obj, output=replace(context.obj.output, json=True))


def _json_option() -> click.Option:
    return click.Option(
        ["--json"], is_flag=True, is_eager=True, expose_value=False, callback=_switch_to_json, help="Print JSON."
    )


class Verb(click.Command):
    """A verb; also accepts ``--json`` after its name."""

    def __init__(
        self,
        *args: Any,
        modes: Sequence[Mode] = (),
        sections: Mapping[str, Sequence[str]] | None = None,
        counts: bool = False,
        **kwargs: Any,
    ) -> None:
        """``modes`` each have a line of the usage. ``sections`` give parameters by title; the rest are options.

        A verb that ``counts`` takes ``-3`` for ``-n 3``.
        """
        super().__init__(*args, **kwargs)
        self._counts = counts
        self.modes = modes
        self._sections = sections or {}
        self.params.append(_json_option())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Like click's, with ``-3`` if the verb counts."""
        if self._counts:
            args = [f"-n{word[1:]}" if re.fullmatch(r"-\d+", word) else word for word in args]
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line, or one for each mode."""
        if self.modes:
            write_usage(ctx, formatter, self.modes)
        else:
            super().format_usage(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, by section."""
        title_of = {name: title for title, names in self._sections.items() for name in names}
        found: dict[str, Records] = {title: [] for title in (*self._sections, "Options")}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                found[title_of.get(parameter.name or "", "Options")].append(record)
        write_sections(formatter, found)


class VerbGroup(click.Group):
    """A verb with its own verbs, such as ``remote add``."""

    command_class = Verb

    def __init__(self, *args: Any, words: Mapping[str, tuple[str, str]] | None = None, **kwargs: Any) -> None:
        """``words`` are words that people type but that are not verbs: the reason, and what to type instead."""
        super().__init__(*args, **kwargs)
        self.words = words or {}
        self.params.append(_json_option())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Like click's, with the closest verb in the error."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], proposable([*self.list_commands(ctx), *self.words]), n=1)
            word = args[0] if args[0] in self.words else near[0] if near else ""
            if word in self.words:
                why, instead = self.words[word]
                raise InvalidOption(f"{ctx.command_path} has no '{word}': {why}.", hint=instead)
            nearest = f" Did you mean '{near[0]}'?" if near else ""
            ctx.fail(f"'{args[0]}' is not a verb of {ctx.command_path}.{nearest}")
        return super().resolve_command(ctx, args)


def verb(name: str, **how: Any) -> Callable[[Callable[..., Any]], Verb]:
    """Declare a verb. The function's docstring is its help, and its return value the exit code (None for 0).

    ``how`` are arguments of :class:`Verb`.
    """
    return click.command(name, cls=Verb, **how)


def yes_option(function: AnyCallable) -> AnyCallable:
    """``--yes``."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")(function)


def options_of(kind: type, *names: str) -> Callable[[AnyCallable], AnyCallable]:
    """The options, or some, that a dataclass declares for the shell; what is not given is None, False or empty."""

    def add(function: AnyCallable) -> AnyCallable:
        for each in reversed(at(kind, "shell", *names)):
            made: dict[str, Any] = {"help": f"{each.flag_help[0].upper()}{each.flag_help[1:]}."}
            if each.kind == "flag":
                made["is_flag"] = True
            else:
                made |= {"metavar": each.metavar, "multiple": each.repeats}
            if each.kind in ("number", "numbers"):
                made["type"] = click.IntRange(min=1)
            if each.kind == "choice":
                made["type"] = click.Choice(tuple(each.spelling.choices or ()))
            short = [f"-{each.spelling.short}"] if each.spelling.short else []
            function = click.option(*short, each.flag, each.name, **made)(function)
        return function

    return add


def dry_run_option(function: AnyCallable) -> AnyCallable:
    """``--dry-run``."""
    return click.option("-n", "--dry-run", is_flag=True, help="Only show what would happen.")(function)


# --- The program of a command: verbs that are imported on first use
# No slow imports here: ``--help`` should answer at once.

_USAGE = 2
_HELP = "help"


Options: TypeAlias = Mapping[str, Mapping[str, tuple[str, str]]]


class Verbs(VerbGroup):
    """The verbs of a command, each imported when first needed."""

    def __init__(
        self,
        *args: Any,
        package: str,
        groups: Mapping[str, Mapping[str, str]],
        options: Options | None = None,
        prepare: Callable[[click.Command], click.Command] | None = None,
        **kwargs: Any,
    ) -> None:
        """``groups`` gives, by title and name, the module in ``package`` and the function in it.

        ``options`` are options that people type but that verbs lack: by verb and option, the reason, and what to type.
        ``prepare`` gets each verb when it is loaded.
        """
        super().__init__(*args, **kwargs)
        self.options = options or {}
        self._prepare = prepare
        self._package = package
        self._groups = groups
        self._verbs = {name: place for group in groups.values() for name, place in group.items()}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs in groups, as git's help has them, and then the options."""
        width = formatter.width - 6 - max(map(len, self._verbs))
        listed: dict[str, Records] = {}
        for title, group in self._groups.items():
            commands = [(name, self.get_command(ctx, name)) for name in group]
            listed[title] = [(name, command.get_short_help_str(width)) for name, command in commands if command]
        write_sections(formatter, listed)
        options = [record for each in self.get_params(ctx) if (record := each.get_help_record(ctx)) is not None]
        write_sections(formatter, {"Options": options})

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names of all verbs, in the order of the help."""
        return list(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """The verb of that name; None if there is none."""
        if cmd_name == _HELP:
            return help_verb(self)
        if cmd_name not in self._verbs:
            return None
        module, _, function = self._verbs[cmd_name].rpartition(".")
        command: click.Command = getattr(import_module(f"{self._package}.{module}"), function)
        return command if self._prepare is None else self._prepare(command)


def help_verb(program: VerbGroup) -> click.Command:
    """``help`` and ``help VERB`` print the same as ``--help``. It is not listed."""

    @click.pass_context
    def show(context: click.Context, verbs: tuple[str, ...]) -> None:
        above = context.parent or context
        command: click.Command = program
        for name in verbs:
            if not isinstance(command, VerbGroup):
                raise click.UsageError(f"'{above.command_path}' has no further verbs.", above)
            _, found, _ = command.resolve_command(above, [name])
            if found is None:  # an option, as in 'help --nope', that click refused
                raise click.UsageError(f"There is no verb '{name}'.", above)
            command, above = found, click.Context(found, above, name)
        put(command.get_help(above))

    argument = click.Argument(["verbs"], nargs=-1, metavar="[VERB]...")
    return click.Command(_HELP, callback=show, params=[argument], help="Show the help of a verb.", hidden=True)


def wanted_output(context: click.Context, no_color: bool) -> Output:
    """The output settings of a verb. ``--json`` may precede the verb."""
    wants_json = isinstance(context.obj, CommandCall) and context.obj.output.json
    return Output(json=wants_json, color=wants_color(no_color))


def run(program: click.Command, name: str, argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    prepare_streams()
    BAR.hushed = "--json" in arguments
    output = Output(json="--json" in arguments, color=wants_color("--no-color" in arguments))
    before = WIDTH.set(terminal_width())
    try:
        _check_text(arguments)
        code = program.main(arguments, name, standalone_mode=False, obj=CommandCall(Output()))
    except ReaderGone as gone:
        return gone.exit_code
    except LanceSparkError as error:
        conflicts = error.conflicts if isinstance(error, Conflict) else ()
        hint = said(error.hint, "shell") if error.hint else None
        if isinstance(error, NotFound | InvalidOption):
            hint = _place_first(program, name, arguments, error.message) or hint
        output.error(error.message, hint, error.exit_code, conflicts)
        return error.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context else name
        message, hint = _answered(program, error) or (error.format_message(), f"{path} --help shows the usage.")
        output.error(message, _place_first(program, name, arguments, message) or hint, _USAGE)
        return _USAGE
    except OSError as problem:  # of this process: its directory was removed, it may open no more files
        output.error(str(problem), None, NOT_DONE)
        return NOT_DONE
    except (click.Abort, KeyboardInterrupt):
        output.error("Interrupted.", None, INTERRUPTED)
        return INTERRUPTED
    finally:
        BAR.wipe()
        WIDTH.reset(before)
    return code if isinstance(code, int) else 0


def _check_text(arguments: Sequence[str]) -> None:
    """Raise InvalidOption for an argument that is not UTF-8: neither names nor messages nor paths can be."""
    for argument in arguments:
        if is_not_text(argument):
            raise InvalidOption(
                f"'{printable(argument)}' is not UTF-8. Nothing was done.",
                hint="Names, messages and paths are kept as UTF-8: check the encoding of the terminal or the script.",
            )


_TAKE_PLACES = frozenset(
    {"clone", "fetch", "gc", "init", "pull", "push", "register", "relocate", "remote", "schedule", "serve"}
)
"""Verbs that take places of their own."""
NO_PLACE = "There is no workspace here or in a directory above, and this is not a dataset's directory."
"""What a verb without a place says: the place may stand behind the verb."""


def _place_first(program: click.Command, name: str, arguments: Sequence[str], message: str) -> str | None:
    """A hint for the place of a dataset or a catalog that was typed behind the verb, as for a job."""
    verbs = program.list_commands(click.Context(program)) if isinstance(program, Verbs) else []
    at = next((at for at, word in enumerate(arguments) if word in verbs), len(arguments))
    if at == len(arguments) or arguments[at] in _TAKE_PLACES:
        return None
    for word in arguments[at + 1 :]:
        takes_none = "unexpected extra argument" in message or message == NO_PLACE
        whole = "://" in word or (takes_none and os.path.isdir(word))
        if whole and (word in message or message == NO_PLACE):
            return f"The place goes before the verb: {name} -C {shlex.quote(word)} {arguments[at]}"
    return None


def _answered(program: click.Command, error: click.ClickException) -> tuple[str, str] | None:
    """The message and the hint for an option that belongs before the verb, or that only another tool's verb has.

    None for other errors. Near names are proposed as click does, but none that deletes for good.
    """
    context = getattr(error, "ctx", None)
    if not isinstance(error, click.NoSuchOption) or context is None:
        return None
    typed = error.option_name
    name, _, verb = context.command_path.partition(" ")
    known = program.options.get(verb, {}) if isinstance(program, Verbs) else {}
    if typed in known:
        why, instead = known[typed]
        return f"{context.command_path} has no {typed}: {why}.", instead
    near = proposable(error.possibilities or ())
    message = click.NoSuchOption(typed, possibilities=near, ctx=context).format_message()
    spellings = {spelling for option in program.params for spelling in option.opts}
    if context.command is program or typed not in spellings:
        return message, f"{context.command_path} --help shows the usage."
    return message, f"{typed} goes before the verb: {name} {typed} ... {verb}"
