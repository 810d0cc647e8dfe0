"""``lance-git pull``: fetches a branch and merges it into the current one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lance_spark.cli.program import options_of, verb
from lance_spark.cli.session import Session
from lance_spark.core.declared import typed_at
from lance_spark.core.refs import branch_or_none
from lance_spark.errors import NotFound
from lance_spark.merge.option_rules import MergeOptions

if TYPE_CHECKING:
    from lance_spark.remotes.fetch import Remote


@verb("pull")
@click.argument("remote", required=False)
@click.argument("branch", required=False)
@options_of(MergeOptions, "ff_only", "message", "dry_run")
@click.pass_obj
def command(session: Session, /, remote: str | None, branch: str | None, **given: Any) -> int:
    """Fetch a remote's branch and merge it into the current one.

    REMOTE is by default origin, or the only one; BRANCH is by default the one with the current branch's name. Files
    stay where they are. With --dry-run it fetches, and only shows what the merge would do.
    """
    from lance_spark.cli.output import exit_code, painted
    from lance_spark.cli.session import find_remote
    from lance_spark.remotes.pull import pull

    into, source = session.own_branch, find_remote(session, remote)
    theirs = into if branch is None else branch_or_none(branch)
    options = typed_at("shell", MergeOptions, given)
    try:
        result = pull(session.location, source, theirs, into, session.engine, options)
    except NotFound:
        if branch is None and into is not None:
            _check_counterpart(source, into)
        raise
    session.output.show(result.as_record(), painted(session.output, result.lines()))
    return exit_code(result.merged)


def _check_counterpart(remote: Remote, branch: str) -> None:
    """Raise NotFound with a hint if the remote has other branches but none of this name."""
    from lance_spark.storage.refs import read_refs

    if branch not in read_refs(remote.location).branches:
        raise NotFound(
            f"{remote.name} has no branch '{branch}'.",
            hint=f"Name one, as in lance-git pull {remote.name} main; lance-git push creates '{branch}' there.",
        )
