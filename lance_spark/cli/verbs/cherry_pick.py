"""``lance-git cherry-pick``: applies the change of one version to the current branch."""

from __future__ import annotations

import click

from lance_spark.cli.program import options_of, verb
from lance_spark.cli.session import Session
from lance_spark.merge.option_rules import MergeOptions


@verb("cherry-pick")
@click.argument("ref")
@options_of(MergeOptions, "message", "dry_run")
@click.pass_obj
def command(session: Session, ref: str, message: str | None, dry_run: bool) -> int:
    """Apply the change of one version to the current branch.

    REF is a version, such as exp@7. The result is a new version of the current branch; nothing is removed from any
    history.
    """
    from lance_spark.cli.output import report
    from lance_spark.merge.merge import cherry_pick

    result = cherry_pick(session.location, session.resolve(ref), session.own_branch, session.engine, message, dry_run)
    return report(session.output, result)
