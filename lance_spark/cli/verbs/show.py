"""``lance-git show``: shows one version in full."""

from __future__ import annotations

import click

from lance_spark.cli.program import verb
from lance_spark.cli.session import Session


@verb("show")
@click.argument("ref", required=False)
@click.pass_obj
def command(session: Session, ref: str | None) -> None:
    """Show one version in full.

    Shows what made it and what it changed, its columns, indexes, files and base paths.
    """
    from lance_spark.cli.output import painted
    from lance_spark.log.log import show
    from lance_spark.log.rules import show_lines

    detail = show(session.location, session.resolve(ref))
    session.output.show(detail.as_record(), painted(session.output, show_lines(detail)))
