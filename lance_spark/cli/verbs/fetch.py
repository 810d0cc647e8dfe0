"""``lance-git fetch``: bring what a remote has, without a change to the user's branches."""

from __future__ import annotations

import click

from lance_spark.cli.program import dry_run_option, verb
from lance_spark.cli.session import Session
from lance_spark.core.refs import branch_or_none


@verb("fetch")
@click.argument("remote", required=False)
@click.argument("branches", metavar="[BRANCH]...", nargs=-1)
@dry_run_option
@click.pass_obj
def command(session: Session, remote: str | None, branches: tuple[str, ...], dry_run: bool) -> None:
    """Bring what a remote has into the branches that follow it.

    Branch BRANCH of REMOTE is followed by REMOTE/BRANCH here. Only metadata comes; files stay where they are. No branch
    of your own changes. REMOTE is by default origin, or the only one; without BRANCH all its branches are fetched.
    """
    from lance_spark.cli.output import painted
    from lance_spark.cli.session import find_remote
    from lance_spark.remotes.fetch import FetchOptions, fetch

    chosen = [branch_or_none(branch) for branch in branches] or None
    options = FetchOptions(chosen, dry_run=dry_run)
    result = fetch(session.location, find_remote(session, remote), session.engine, options)
    session.output.show(result.as_record(), painted(session.output, result.lines()))
