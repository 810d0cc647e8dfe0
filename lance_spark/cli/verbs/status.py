"""``lance-git status``: shows the state of the current branch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from lance_spark.cli.program import verb
from lance_spark.cli.session import Session
from lance_spark.core.show import counted
from lance_spark.storage.commits import ORIGIN

if TYPE_CHECKING:
    from lance_spark.workspace.status import Status, Tracking


@verb("status")
@click.pass_obj
def command(session: Session) -> None:
    """Show the state of the current branch.

    Shows its newest version, and how far it is ahead of and behind its parent branch and the branches of the same name
    at its remotes. Sends no request to remotes: their state is that of the last fetch.
    """
    from lance_spark.workspace.status import status

    now = status(session.location, session.branch)
    session.output.show(now.as_record(), "\n".join(_lines(session, now)))


def _lines(session: Session, now: Status) -> Iterator[str]:
    yield f"On branch {now.branch}, version {now.version}."
    if now.follows is not None:
        yield f"It follows {now.follows}: only a fetch writes to it."
        yield f"  lance-git switch {now.branch.partition('/')[2]}   goes to a branch of your own"
        return
    counterparts = [remote for remote in now.remotes if remote.is_counterpart(now.branch)]
    others = [remote for remote in now.remotes if remote not in counterparts]
    for remote in counterparts:
        yield from _remote_lines(remote, _arguments(remote))
    for remote in others:
        yield from _remote_lines(remote, None if counterparts else f" {remote.remote} {remote.branch}")
    if now.parent is None or now.parent in {remote.name for remote in now.remotes}:
        return
    yield (
        f"Ahead of {now.parent} by {counted(now.ahead, 'version')}, "
        f"behind by {counted(now.behind, 'version')} (last common version {now.common})."
    )
    if now.ahead:
        yield f"  {session.how_to_switch(now.parent)} && lance-git merge {now.branch}   publishes them"


def _arguments(remote: Tracking) -> str:
    return "" if remote.remote == ORIGIN else f" {remote.remote}"


def _remote_lines(remote: Tracking, arguments: str | None) -> Iterator[str]:
    """The state of the branch and what to do; ``arguments`` are those of a pull, None for no advice."""
    fetched = f"as last fetched (version {remote.version} there)"
    if not remote.ahead and not remote.behind:
        yield f"Up to date with {remote.name}, {fetched}."
        return
    if not remote.related:
        yield f"No common version with {remote.name} is known, {fetched}."
        return
    yield (
        f"Ahead of {remote.name} by {counted(remote.ahead, 'version')}, "
        f"behind by {counted(remote.behind, 'version')}, {fetched}."
    )
    if arguments is not None:
        verb, does = ("pull", "brings what is there") if remote.behind else ("push", "publishes them")
        yield f"  lance-git {verb}{arguments if remote.behind else _arguments(remote)}   {does}"
