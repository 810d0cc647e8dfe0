"""Asking before something is taken away."""

from __future__ import annotations

import sys

import click

from lance_spark.cli.exit_codes import NOT_DONE
from lance_spark.errors import Refused


def confirm(what: str, yes: bool) -> None:
    """Go on only if the user wants ``what`` to happen, which is a sentence.

    Asks on a terminal. Raises Refused where nobody can answer: a script must not hang.
    """
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise Refused(f"Not done without a yes: {what}", hint="Add --yes to do it, or --dry-run to see more.")
    click.echo(what, err=True)
    if not click.confirm("Go on?", default=False, err=True):
        click.echo("Nothing was changed.", err=True)
        raise click.exceptions.Exit(NOT_DONE)
