"""``lance-git fetch``: updates the branches that follow a remote, and none of the user's own."""

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
    """Update the branches that follow a remote.

    REMOTE/BRANCH follows the branch BRANCH of REMOTE. Only metadata is copied; files stay where they are. None of your
    own branches change. REMOTE is by default origin, or the only one. Without BRANCH, fetches all its branches.
    """
    from lance_spark.cli.output import painted
    from lance_spark.cli.session import find_remote
    from lance_spark.remotes.fetch import FetchOptions, fetch

    chosen = [branch_or_none(branch) for branch in branches] or None
    options = FetchOptions(chosen, dry_run=dry_run)
    result = fetch(session.location, find_remote(session, remote), session.engine, options)
    session.output.show(result.as_record(), painted(session.output, result.lines()))
