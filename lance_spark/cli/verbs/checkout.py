"""``lance-git checkout`` and ``lance-git switch``: make a branch the current one."""

from __future__ import annotations

from functools import partial

import click

from lance_spark.actions.expressions import find_ref
from lance_spark.cli.command import dry_run_option, verb
from lance_spark.cli.session import Session
from lance_spark.cli.verbs.branch import create
from lance_spark.errors import InvalidOption, Refused
from lance_spark.refs.expressions import parse_expression
from lance_spark.refs.names import MAIN
from lance_spark.store.workspace import change_workspace
from lance_spark.workspace.model import with_branch


@verb("checkout")
@click.argument("ref", required=False)
@click.option("-b", "-c", "--create", "new", metavar="NAME", help="Create the branch first, at REF or here.")
@dry_run_option
@click.pass_obj
def command(session: Session, ref: str | None, new: str | None, dry_run: bool) -> None:
    """Make a branch the current one.

    With -b NAME a new branch, which starts at REF, by default the newest version of the current branch. The workspace
    remembers the current branch. There is no detached state: a tag or an older version cannot be the current one, but
    a branch can start there.
    """
    directory = session.workspace.directory
    if new is not None:
        create(session, new, ref, dry_run)
        name = new
    elif ref is None:
        raise InvalidOption("No branch was named.", hint="lance-git branch lists them.")
    else:
        name = _branch(session, ref)
    was = session.branch or MAIN
    if not dry_run:
        change_workspace(directory, partial(with_branch, branch=name))
    if new is not None:
        if not dry_run:
            session.output.note(f"Switched to branch '{name}'.")
        return
    said = f"{'Would switch' if dry_run else 'Switched'} to branch '{name}'."
    data = {"action": "switch", "branch": name, "from": was, "dry_run": dry_run}
    session.output.show(data, f"Already on '{name}'." if was == name else said)


def _branch(session: Session, ref: str) -> str:
    """The branch that was named. Raises Refused for a tag or a version."""
    typed = parse_expression(ref)
    found = find_ref(session.location, typed, session.branch)
    if found.kind == "tag" or typed.version is not None or typed.back:
        what = f"tag '{found.name}'" if found.kind == "tag" else f"the version '{typed}'"
        raise Refused(
            f"Only a branch can be the current one, and {what} does not move.",
            hint=f"Start a branch there: lance-git checkout -b NAME {typed}.",
        )
    return found.name
