"""``lance-git revert``: undoes the change of one version."""

from __future__ import annotations

import click

from lance_spark.cli.program import options_of, verb
from lance_spark.cli.session import Session
from lance_spark.merge.option_rules import MergeOptions


@verb("revert")
@click.argument("ref")
@options_of(MergeOptions, "message", "dry_run")
@click.pass_obj
def command(session: Session, ref: str, message: str | None, dry_run: bool) -> int:
    """Undo the change of one version.

    REF is a version, such as exp@7. The result is a new version of the current branch; nothing is removed from any
    history.
    """
    from lance_spark.cli.output import report
    from lance_spark.merge.merge import revert

    result = revert(session.location, session.resolve(ref), session.own_branch, session.engine, message, dry_run)
    return report(session.output, result)
