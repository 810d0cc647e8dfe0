"""``lance-git checkout`` and ``lance-git switch``: make a branch the current one."""

from __future__ import annotations

from typing import NamedTuple

import click

from lance_spark.cli.output import version_json
from lance_spark.cli.program import dry_run_option, verb
from lance_spark.cli.session import Session
from lance_spark.cli.verbs.branch import create
from lance_spark.core.ref_expressions import RefExpression, parse_expression
from lance_spark.core.ref_names import branch_or_none
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.errors import InvalidOption, NotFound, Refused
from lance_spark.refs.refs import create_branch_at
from lance_spark.storage.datasets import pin_latest
from lance_spark.storage.followers import check_own, following
from lance_spark.storage.refs import read_refs
from lance_spark.storage.resolving import find_ref
from lance_spark.workspace.workspace_files import set_branch


class Chosen(NamedTuple):
    """The branch to switch to."""

    name: str
    begin: PinnedVersion | None = None
    """Where to create the branch if it does not exist yet: the newest fetched version of a remote's branch."""


@verb("checkout")
@click.argument("ref", required=False)
@click.option("-b", "-c", "--create", "new", metavar="NAME", help="Create the branch first, at REF or here.")
@dry_run_option
@click.pass_obj
def command(session: Session, ref: str | None, new: str | None, dry_run: bool) -> None:
    """Make a branch the current one.

    With -b NAME, a new branch that starts at REF, by default the newest version of the current branch. A branch that
    only a remote has is created from its newest fetched version. The workspace remembers the current branch. There is
    no detached state: a tag or older version cannot be current, but a branch can start there.
    """
    directory = session.workspace.directory
    if new is not None:
        create(session, new, ref, dry_run)
        if not dry_run:
            set_branch(directory, new)
            session.output.note(f"Switched to branch '{new}'.")
        return
    if ref is None:
        raise InvalidOption("No branch was named.", hint="lance-git branch lists the branches.")
    chosen = _choose(session, ref)
    was = session.branch or MAIN
    if not dry_run:
        if chosen.begin is not None:
            create_branch_at(session.location, chosen.name, chosen.begin)
        set_branch(directory, chosen.name)
    data = {
        "action": "switch",
        "branch": chosen.name,
        "from": was,
        "created_at": None if chosen.begin is None else version_json(chosen.begin),
        "dry_run": dry_run,
    }
    session.output.show(data, _said(chosen, was, dry_run))


def _said(chosen: Chosen, was: str, dry_run: bool) -> str:
    if was == chosen.name:
        return f"Already on '{chosen.name}'."
    said = f"{'Would switch' if dry_run else 'Switched'} to branch '{chosen.name}'"
    return f"{said}, created from {chosen.begin}." if chosen.begin is not None else f"{said}."


def _choose(session: Session, ref: str) -> Chosen:
    """The branch of that name. Raises Refused for a tag, a version, or a branch that follows a remote's branch."""
    typed = parse_expression(ref)
    try:
        named = find_ref(session.location, typed, session.branch)
    except NotFound:
        begin = _fetched(session, typed)
        if begin is None:
            raise
        return Chosen(_short(typed), begin)
    if named.kind == "tag" or typed.version is not None or typed.back:
        what = f"tag '{named.name}'" if named.kind == "tag" else f"the version '{typed}'"
        raise Refused(
            f"Only a branch can be the current one, and {what} does not move.",
            hint=f"Start a branch there: lance-git checkout -b NAME {typed}.",
        )
    check_own(session.location, branch_or_none(named.name))
    return Chosen(named.name)


def _short(typed: RefExpression) -> str:
    return (typed.name or "") if typed.explicit is None else typed.explicit[1]


def _fetched(session: Session, typed: RefExpression) -> PinnedVersion | None:
    """The newest fetched version of the branch of that name, if one remote has it. Raises Refused if several do."""
    if typed.version is not None or typed.back or (typed.explicit is not None and typed.explicit[0] == "tag"):
        return None
    table = read_refs(session.location)
    names = [name for name, follows in following(table).items() if follows.branch == _short(typed)]
    if len(names) > 1:
        raise Refused(
            f"More than one remote has a branch '{typed}'.",
            hint=f"Choose one: lance-git checkout -b {typed} {sorted(names)[0]}.",
        )
    return pin_latest(session.location, names[0]) if names else None
