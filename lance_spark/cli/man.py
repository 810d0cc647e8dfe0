"""``python -m lance_spark.cli.man DIR``: manual pages of both commands and all verbs, from their help, by click-man."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

import click

from lance_spark.cli.catalog.main import cli as catalog
from lance_spark.cli.main import cli as git

_USAGE = 2
_NOT_INSTALLED = 4


def main(argv: Sequence[str] | None = None) -> int:
    """Write the pages; returns the exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    if len(given) != 1:
        click.echo("Usage: python -m lance_spark.cli.man DIR   (such as ~/.local/share/man/man1)", err=True)
        return _USAGE
    try:
        from click_man.core import write_man_pages
    except ModuleNotFoundError:
        click.echo("error: click-man is not installed.\nhint: pip install click-man", err=True)
        return _NOT_INSTALLED
    os.makedirs(given[0], exist_ok=True)
    release = version("lance-spark")
    for program in (git, catalog):
        name = str(program.name)
        context = click.Context(program, info_name=name)
        write_man_pages(name, program, version=release, target_dir=given[0])
        for verb in program.list_commands(context):
            command = program.get_command(context, verb)
            if command is not None:
                write_man_pages(verb, command, parent_ctx=context, version=release, target_dir=given[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
