"""Asks before something is removed."""

from __future__ import annotations

import sys

import click

from lance_spark.cli.exit_codes import NOT_DONE
from lance_spark.cli.progress import BAR
from lance_spark.errors import Refused

_YES, _NO = frozenset({"y", "yes"}), frozenset({"n", "no", ""})


def confirm(what: str, yes: bool) -> None:
    """Go on only if the user agrees to ``what``, a sentence.

    Asks on a terminal. Raises Refused without a terminal: a script must not hang.
    """
    BAR.wipe()
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise Refused(f"Not done without a yes: {what}", hint="Add --yes to do it, or --dry-run to see more.")
    click.echo(what, err=True)
    if not _said_yes():
        click.echo("Nothing was changed.", err=True)
        raise click.exceptions.Exit(NOT_DONE)


def _said_yes() -> bool:
    """The answer. Raises Abort if the terminal was closed.

    Not input(), which click.confirm uses: it loses a Ctrl-C that arrives while it flushes, and goes on waiting.
    """
    while True:
        click.echo("Go on? [y/N]: ", nl=False, err=True)
        line = sys.stdin.readline()
        if not line:
            raise click.Abort
        answer = line.strip().lower()
        if answer in _YES | _NO:
            return answer in _YES
