"""The entry point of ``lance-git``, with its global options."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from lance_spark.cli.call import parse_storage
from lance_spark.cli.exit_codes import exit_codes_text
from lance_spark.cli.program import Verbs, run, wanted_output
from lance_spark.cli.session import Session
from lance_spark.cli.verbs import VERBS

NAME = "lance-git"
_PARTLY = "gc: some files could not be deleted; a next run finishes"


@click.group(
    NAME,
    cls=Verbs,
    package="lance_spark.cli.verbs",
    verbs=VERBS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"\b\nA REF is a branch, a tag, branch@7, @7, main~2 or HEAD; heads/NAME and tags/NAME say which.\n\n"
    f"\b\nExit codes:\n{exit_codes_text(_PARTLY)}",
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
    context.obj = Session(wanted_output(context, given["no_color"]), dataset, parse_storage(storage))
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    return run(cli, NAME, argv)
