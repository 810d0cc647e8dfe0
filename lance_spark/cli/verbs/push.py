"""``lance-git push``: give a remote what a branch has."""

from __future__ import annotations

import click

from lance_spark.cli.program import dry_run_option, verb
from lance_spark.cli.session import Session
from lance_spark.core.refs import branch_or_none


@verb("push")
@click.argument("remote", required=False)
@click.argument("branch", required=False)
@click.option("-m", "message", help="Message of the new version; by default that of the newest one.")
@dry_run_option
@click.pass_obj
def command(session: Session, remote: str | None, branch: str | None, message: str | None, dry_run: bool) -> int:
    """Give a remote what a branch has.

    REMOTE is by default origin, or the only one, BRANCH the current branch. Its versions become one there, and files
    that the remote does not have are copied. Refused if the remote has versions that the branch does not have: pull
    first. A branch or a dataset that the remote lacks is created. With --dry-run it fetches, and only says what would
    be pushed.
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
