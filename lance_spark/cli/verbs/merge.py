"""``lance-git merge``: merges another branch into the current one, as one version."""

from __future__ import annotations

import click

from lance_spark.cli.program import dry_run_option, verb
from lance_spark.cli.session import Session


@verb("merge")
@click.argument("ref")
@click.option("-m", "message", help="Message of the new version.")
@click.option("--ff-only", is_flag=True, help="Refuse if the branch has moved since REF forked from it.")
@click.option("--reference", is_flag=True, help="Copy no data: read the other branch's files where they are.")
@dry_run_option
@click.pass_obj
def command(session: Session, ref: str, message: str | None, ff_only: bool, reference: bool, dry_run: bool) -> int:
    """Merge another branch into the current one.

    The changes of REF since the last common version become one version: readers see the branch before or after. Only
    files that REF's own branch wrote are copied, so that branch can be deleted afterwards; not so with --reference.
    """
    from lance_spark.cli.output import report
    from lance_spark.merge.merge import MergeOptions, merge

    options = MergeOptions(ff_only=ff_only, reference=reference, dry_run=dry_run, message=message)
    result = merge(session.location, session.resolve(ref), session.own_branch, options, session.engine)
    return report(session.output, result)
