"""``lance-git push``: sends a branch to a remote."""

from __future__ import annotations

import click

from lance_spark.cli.program import dry_run_option, verb
from lance_spark.cli.session import Session
from lance_spark.core.refs import branch_or_none


@verb("push")
@click.argument("remote", required=False)
@click.argument("branch", required=False)
@click.option("-m", "message", help="Message of the new version; by default that of the branch's newest.")
@dry_run_option
@click.pass_obj
def command(session: Session, remote: str | None, branch: str | None, message: str | None, dry_run: bool) -> int:
    """Send a branch to a remote.

    REMOTE is by default origin, or the only one; BRANCH is by default the current one. The branch's versions become one
    version there, and files that the remote lacks are copied. Refused if the remote has versions that the branch lacks:
    pull first. A missing branch or dataset is created at the remote. With --dry-run it fetches, and only shows what
    would be pushed.
    """
    from lance_spark.cli.output import exit_code, painted
    from lance_spark.cli.session import find_remote
    from lance_spark.remotes.push import PushOptions, push
    from lance_spark.storage.commits import check_own

    pushed = session.branch if branch is None else branch_or_none(branch)
    check_own(session.location, pushed)
    result = push(session.location, find_remote(session, remote), pushed, session.engine, PushOptions(message, dry_run))
    session.output.show(result.as_record(), painted(session.output, result.lines()))
    return 0 if result.replayed is None else exit_code(result.replayed)
