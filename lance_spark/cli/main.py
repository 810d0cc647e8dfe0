"""The entry point of ``lance-git``, with its global options."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from lance_spark.actions.target import located
from lance_spark.cli.call import parse_storage
from lance_spark.cli.exit_codes import exit_codes_text
from lance_spark.cli.program import Verbs, run, wanted_output
from lance_spark.cli.session import Session
from lance_spark.cli.verbs import VERBS
from lance_spark.cli.words import WORDS
from lance_spark.errors import InvalidOption
from lance_spark.location import is_uri
from lance_spark.workspace.model import check_uri

NAME = "lance-git"
_PARTLY = "gc, fsck: not all could be deleted, or repaired"


class _Place(click.Path):
    """A directory, which has to exist, or the URI of a dataset."""

    def __init__(self) -> None:
        super().__init__(exists=True, file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text as it is; the path of a file URI."""
        if not is_uri(value):
            return super().convert(value, param, ctx)
        check_uri(value)
        location = located(value)
        return super().convert(location.uri, param, ctx) if location.is_local else value


@click.group(
    NAME,
    cls=Verbs,
    package="lance_spark.cli.verbs",
    verbs=VERBS,
    words=WORDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"\b\nA REF is a branch, a tag, branch@7, @7, main~2 or HEAD; heads/NAME and tags/NAME say which.\n\n"
    f"\b\nExit codes:\n{exit_codes_text(_PARTLY)}",
)
@click.option("-C", "place", type=_Place(), metavar="DIR|URI", help="Run in this directory, or on this dataset.")
@click.option("--dataset", metavar="URI", help="Work on this dataset, without a workspace.")
@click.option("--storage", multiple=True, metavar="KEY=VALUE", help="A storage option; never stored (repeatable).")
@click.option("--no-color", is_flag=True, help="Plain text even on a terminal (as with NO_COLOR).")
@click.version_option(package_name="lance-spark", prog_name=NAME)
@click.pass_context
def cli(
    context: click.Context, /, place: str | None, dataset: str | None, storage: tuple[str, ...], **given: Any
) -> None:
    """Git's verbs for Lance datasets: branches, tags, versions.

    In or below a dataset's directory lance-git works on that dataset; elsewhere -C names one. Then the current branch
    is main, or in a branch's own directory, tree/BRANCH, that branch.

    A workspace is a directory with .lance-git/config.toml, which names the dataset, the current branch and the
    remotes; init and clone make it. The nearest workspace or dataset counts, in this directory or above; of two in one
    directory, the workspace. Credentials come from the environment or --storage.
    """
    if place is not None and is_uri(place):
        if dataset is not None:
            raise InvalidOption("-C and --dataset both name a dataset.", hint="Leave one of them out.")
        dataset = place
    elif place is not None:
        os.chdir(place)
    context.obj = Session(wanted_output(context, given["no_color"]), dataset, parse_storage(storage), place is not None)
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    return run(cli, NAME, argv)
