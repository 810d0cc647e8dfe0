"""The entry point: global options, and errors as one line, a hint and an exit code.

Nothing heavy is imported here: ``lance-git --help`` should answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from lance_spark.cli.command import VerbGroup
from lance_spark.cli.exit_codes import INTERRUPTED, exit_codes_text
from lance_spark.cli.output import Output, wants_color
from lance_spark.cli.session import Session, parse_storage
from lance_spark.cli.verbs import VERBS
from lance_spark.errors import LanceSparkError

NAME = "lance-git"
_USAGE = 2


class Verbs(VerbGroup):
    """The verbs, each imported when it is first needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names of all verbs, in the order of the help."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """The verb of that name; None where there is none."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(f"lance_spark.cli.verbs.{VERBS[cmd_name]}").command
        return command


@click.group(
    NAME,
    cls=Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"\b\nA REF is a branch, a tag, branch@7, @7, main~2 or HEAD; heads/NAME and tags/NAME say which.\n\n"
    f"\b\nExit codes:\n{exit_codes_text()}",
)
@click.option("-C", "directory", type=click.Path(exists=True, file_okay=False), metavar="DIR", help="Run there.")
@click.option("--dataset", metavar="URI", help="Work on this dataset, without a workspace.")
@click.option("--storage", multiple=True, metavar="KEY=VALUE", help="A storage option; never stored (repeatable).")
@click.option("--no-color", is_flag=True, help="Plain text, also on a terminal (as NO_COLOR).")
@click.version_option(package_name="lance-spark", prog_name=NAME)
@click.pass_context
def cli(
    context: click.Context, /, directory: str | None, dataset: str | None, storage: tuple[str, ...], **given: Any
) -> None:
    """Git's verbs for Lance datasets: branches, tags, versions.

    A workspace is a directory with .lance-git/config.toml, which names the dataset, the current branch and the
    remotes. lance-git finds it in this directory or above. Credentials come from the environment or --storage.
    """
    if directory is not None:
        os.chdir(directory)
    wants_json = isinstance(context.obj, Session) and context.obj.output.json
    output = Output(json=wants_json, color=wants_color(given["no_color"]))
    context.obj = Session(output, dataset, parse_storage(storage))
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    output = Output(json="--json" in arguments, color=wants_color("--no-color" in arguments))
    try:
        code = cli.main(arguments, NAME, standalone_mode=False, obj=Session(Output()))
    except LanceSparkError as error:
        output.error(error.message, error.hint, error.exit_code)
        return error.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context else NAME
        output.error(error.format_message(), f"{path} --help shows what can be typed.", _USAGE)
        return _USAGE
    except (click.Abort, KeyboardInterrupt):
        output.error("Interrupted.", None, INTERRUPTED)
        return INTERRUPTED
    return code if isinstance(code, int) else 0
