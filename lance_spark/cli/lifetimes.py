"""The options of ``branch`` and ``tag`` for how long a ref lives, and how that is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from lance_spark.cli.command import AnyCallable
from lance_spark.errors import InvalidOption
from lance_spark.refs.lifetime import SETTINGS, TAG_SETTINGS, Lifetime


def tag_options(function: AnyCallable) -> AnyCallable:
    """``--alter``, ``--expire-after``, ``--owner``, ``--unset``."""
    function = click.option(
        "--unset", multiple=True, metavar="SETTING", help="With --alter: expire_after or owner (repeatable)."
    )(function)
    function = click.option("--owner", metavar="TEXT", help="Whom to ask.")(function)
    function = click.option(
        "--expire-after", metavar="SPAN", help="How long after it was made or moved expire-refs takes it, such as 30d."
    )(function)
    return click.option("--alter", metavar="NAME", help="Change the settings of a tag: the next three.")(function)


def branch_options(function: AnyCallable) -> AnyCallable:
    """Those of tags, ``--retain-versions`` and ``--protected``."""
    function = click.option(
        "--unset", multiple=True, metavar="SETTING", help="With --alter: expire_after, retain_versions or owner."
    )(function)
    function = click.option("--owner", metavar="TEXT", help="Whom to ask.")(function)
    function = click.option("--protected/--no-protected", default=None, help="Take merges only, and no deletion.")(
        function
    )
    function = click.option(
        "--retain-versions", type=click.IntRange(min=1), metavar="N", help="How many versions every cleanup keeps."
    )(function)
    function = click.option(
        "--expire-after", metavar="SPAN", help="How long after its last commit expire-refs takes it, such as 30d."
    )(function)
    return click.option("--alter", metavar="NAME", help="Change the settings of a branch: those below, or --unset.")(
        function
    )


def settings_of(given: Mapping[str, Any], tag: bool = False) -> dict[str, Any]:
    """The settings among what was typed."""
    return {name: given[name] for name in (TAG_SETTINGS if tag else SETTINGS) if given.get(name) is not None}


def check_settings_fit(alter: str | None, settings: Mapping[str, Any], unset: tuple[str, ...], creates: bool) -> None:
    """Raise InvalidOption for settings without a ref that they are for."""
    if alter is not None and not settings and not unset:
        raise InvalidOption(
            "There is nothing to alter.", hint="Say --expire-after 30d, --owner TEXT or --unset SETTING."
        )
    if unset and alter is None:
        raise InvalidOption("--unset goes with --alter NAME only.")
    if settings and alter is None and not creates:
        raise InvalidOption("Settings need a name.", hint="NAME for a new one, --alter NAME for one that is there.")


def told(lifetime: Lifetime) -> str:
    """In words, for the end of a sentence; "" if nothing is set."""
    return f": {lifetime}" if str(lifetime) else ""
