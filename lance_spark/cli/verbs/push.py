"""``lance-git push``: give a remote what a branch has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from lance_spark.cli.command import dry_run_option, verb
from lance_spark.cli.output import Output, counted
from lance_spark.cli.session import Session
from lance_spark.refs.names import branch_or_none

if TYPE_CHECKING:
    from lance_spark.actions.remotes.push import PushResult


@verb("push")
@click.argument("remote", required=False)
@click.argument("branch", required=False)
@click.option("-m", "message", help="Message of the new version; by default that of the newest one.")
@dry_run_option
@click.pass_obj
def command(session: Session, remote: str | None, branch: str | None, message: str | None, dry_run: bool) -> int:
    """Give a remote what a branch has.

    REMOTE is by default origin, or the only one, BRANCH the current branch. Its versions become one there, and files
    that the remote does not have are copied. Refused where the remote has versions that the branch has not: pull first.
    What is not there yet, the branch or the whole dataset, is created. With --dry-run it fetches, and only says what
    would be pushed.
    """
    from lance_spark.actions.remotes.naming import check_own
    from lance_spark.actions.remotes.push import PushOptions, push
    from lance_spark.cli.remotes import find_remote
    from lance_spark.cli.replays import exit_code

    wanted = session.branch if branch is None else branch_or_none(branch)
    check_own(session.location, wanted)
    result = push(session.location, find_remote(session, remote), wanted, session.engine, PushOptions(message, dry_run))
    session.output.show(result.as_record(), "\n".join(_lines(session.output, result)))
    return 0 if result.replayed is None else exit_code(result.replayed)


def _lines(output: Output, result: PushResult) -> Iterator[str]:
    from lance_spark.cli.remotes import note_lines
    from lance_spark.cli.replays import further_lines, rows_text

    done = result.replayed
    if result.created:
        made = "would be created" if result.dry_run else "was created"
        yield f"Branch '{result.branch}' {made} at {result.remote} ({result.uri})."
    if done is None:
        yield "Its rows and files are counted when it is pushed."
    elif done.up_to_date:
        yield "Everything up to date."
    else:
        if result.dry_run:
            yield f"Would push {done.source} to {result.remote}, as one version of '{result.branch}':"
        else:
            yield f"Pushed {done.source} to {result.remote}, where it is {result.branch}@{done.version}."
        yield f"  {counted(done.summary.versions, 'version')}; {rows_text(output, done.summary)}"
    if done is not None:
        yield from further_lines(done)
    yield from note_lines(result.notes)
