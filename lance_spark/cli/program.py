"""What the commands have in common: verbs that load when they are needed, and errors as a line, a hint and a code.

No slow import here: ``--help`` should answer at once.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from lance_spark.cli.call import CommandCall
from lance_spark.cli.command import VerbGroup
from lance_spark.cli.exit_codes import INTERRUPTED
from lance_spark.cli.imports import without_pandas
from lance_spark.cli.output import Output, wants_color
from lance_spark.cli.progress import BAR
from lance_spark.errors import LanceSparkError
from lance_spark.hints import said

_USAGE = 2
_HELP = "help"


class Verbs(VerbGroup):
    """The verbs of a command, each imported when it is first needed."""

    def __init__(self, *args: Any, package: str, verbs: Mapping[str, str], **kwargs: Any) -> None:
        """``verbs`` has, by name, the module of ``package`` with the verb's ``command``; in the order of the help."""
        super().__init__(*args, **kwargs)
        self._package = package
        self._verbs = verbs

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names of all verbs, in the order of the help."""
        return list(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """The verb of that name; None where there is none."""
        if cmd_name == _HELP:
            return help_verb(self)
        if cmd_name not in self._verbs:
            return None
        command: click.Command = import_module(f"{self._package}.{self._verbs[cmd_name]}").command
        return command


def help_verb(program: VerbGroup) -> click.Command:
    """``help``, and ``help VERB``: what ``--help`` says. It is not listed."""

    @click.pass_context
    def show(context: click.Context, verbs: tuple[str, ...]) -> None:
        above = context.parent or context
        command: click.Command = program
        for name in verbs:
            if not isinstance(command, VerbGroup):
                raise click.UsageError(f"'{above.command_path}' has no further verbs.", above)
            _, found, _ = command.resolve_command(above, [name])
            if found is None:  # an option, as in 'help --nope', which click has refused
                raise click.UsageError(f"There is no verb '{name}'.", above)
            command, above = found, click.Context(found, above, name)
        click.echo(command.get_help(above))

    argument = click.Argument(["verbs"], nargs=-1, metavar="[VERB]...")
    return click.Command(_HELP, callback=show, params=[argument], help="Say what a verb does.", hidden=True)


def wanted_output(context: click.Context, no_color: bool) -> Output:
    """How a verb is to speak. ``--json`` may have been given before the verb."""
    wants_json = isinstance(context.obj, CommandCall) and context.obj.output.json
    return Output(json=wants_json, color=wants_color(no_color))


def run(program: click.Command, name: str, argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    if argv is None:
        without_pandas()  # the process is ours
    arguments = list(sys.argv[1:] if argv is None else argv)
    BAR.hushed = "--json" in arguments
    output = Output(json="--json" in arguments, color=wants_color("--no-color" in arguments))
    try:
        code = program.main(arguments, name, standalone_mode=False, obj=CommandCall(Output()))
    except LanceSparkError as error:
        output.error(error.message, said(error.hint, "shell") if error.hint else None, error.exit_code)
        return error.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context else name
        hint = _misplaced(program, error) or f"{path} --help shows what can be typed."
        output.error(error.format_message(), hint, _USAGE)
        return _USAGE
    except (click.Abort, KeyboardInterrupt):
        output.error("Interrupted.", None, INTERRUPTED)
        return INTERRUPTED
    finally:
        BAR.wipe()
    return code if isinstance(code, int) else 0


def _misplaced(program: click.Command, error: click.ClickException) -> str | None:
    """A hint for an option that belongs before the verb."""
    context = getattr(error, "ctx", None)
    if not isinstance(error, click.NoSuchOption) or context is None or context.command is program:
        return None
    spellings = {spelling for option in program.params for spelling in option.opts}
    if error.option_name not in spellings:
        return None
    name, _, verb = context.command_path.partition(" ")
    return f"{error.option_name} goes before the verb: {name} {error.option_name} ... {verb}"
