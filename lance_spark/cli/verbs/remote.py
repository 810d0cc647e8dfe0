"""``lance-git remote``: lists and changes the other places that a workspace knows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from lance_spark.cli.program import VerbGroup, dry_run_option, yes_option
from lance_spark.cli.session import Session
from lance_spark.core.workspace import (
    RemoteEntry,
    check_known_remote,
    check_uri,
    with_remote,
    with_remote_uri,
    without_remote,
)
from lance_spark.errors import InvalidOption, Refused
from lance_spark.storage.datasets import locate_typed
from lance_spark.storage.resolving import change_workspace

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_spark.remotes.report import Fetched

_STATES = {"new": "not fetched yet", "updated": "fetch brings it", "gone": "gone at the remote"}


@click.group("remote", cls=VerbGroup, invoke_without_command=True)
@click.option("-v", "--verbose", is_flag=True, help="With URIs.")
@click.pass_context
def command(context: click.Context, verbose: bool) -> None:
    """List, show, add, change or remove remotes.

    A remote is another place with the same dataset. Only `show` sends requests to it. Without a workspace, it lists the
    remotes that branches of the dataset follow.
    """
    if context.invoked_subcommand is not None:
        return
    session: Session = context.obj
    rows = _listed(session)
    text = session.output.table(("remote", "uri"), rows) if verbose and rows else "\n".join(name for name, _ in rows)
    session.output.show({"remotes": [{"name": name, "uri": uri} for name, uri in rows]}, text)


def _listed(session: Session) -> list[tuple[str, str]]:
    """Names and URIs, as in the workspace's file."""
    if session.has_workspace:
        return sorted((remote.name, remote.uri) for remote in session.workspace.workspace.remotes.values())
    from lance_spark.cli.session import known_here

    return sorted(known_here(session).items())


@command.command("show")
@click.argument("name")
@click.pass_obj
def show(session: Session, name: str) -> None:
    """Show a remote's branches, and what was fetched of them."""
    from lance_spark.cli.session import find_remote, known_here
    from lance_spark.remotes.fetch import FetchOptions, fetch

    check_known_remote(known_here(session), name)
    fetched = fetch(session.location, find_remote(session, name), session.engine, FetchOptions(dry_run=True))
    header = ("branch", "newest", "fetched", "as", "")
    table = session.output.table(header, [_row(branch) for branch in fetched.branches], right=(1, 2))
    session.output.show(
        {"remote": name, "uri": fetched.uri, "branches": [_entry(branch) for branch in fetched.branches]},
        f"{name} ({fetched.uri}):\n{table}",
    )


@command.command("add")
@click.argument("name")
@click.argument("uri")
@dry_run_option
@click.pass_obj
def add(session: Session, name: str, uri: str, dry_run: bool) -> None:
    """Add a remote. The first one is usually called origin."""
    remote = _remote(session, name, uri)
    _change(session, partial(with_remote, remote=remote), dry_run)
    session.output.show(_data("add", remote, dry_run), f"Remote '{name}' {_is(dry_run)} {remote.uri}.")


@command.command("set-url")
@click.argument("name")
@click.argument("uri")
@dry_run_option
@click.pass_obj
def set_url(session: Session, name: str, uri: str, dry_run: bool) -> None:
    """Change the place of a remote.

    What was fetched is still read from the old place. If that has moved, lance-git relocate repairs it.
    """
    remote = _remote(session, name, uri)
    check_known_remote(session.workspace.workspace.remotes, name)
    old = locate_typed(session.workspace.remote_uri(name)).uri
    followers = _followers(session, name)
    _change(session, partial(with_remote_uri, remote=remote), dry_run)
    data = {**_data("set-url", remote, dry_run), "was": old}
    session.output.show(data, f"Remote '{name}' {_is(dry_run)} {remote.uri}.")
    if followers and old != remote.uri:
        session.output.note(
            f"What was fetched is still read from {old}. If that no longer exists:\n"
            f"  lance-git relocate --from {old} --to {remote.uri}"
        )


@command.command("remove")
@click.argument("name")
@dry_run_option
@yes_option
@click.pass_obj
def remove(session: Session, name: str, dry_run: bool, yes: bool) -> None:
    """Forget a remote, and the branches that follow it.

    The remote itself does not change, and your own branches still read its files. A following branch stays if one of
    your own branches was created from it.
    """
    from lance_spark.cli.output import confirm
    from lance_spark.cli.verbs.branch import FORGOTTEN

    check_known_remote(session.workspace.workspace.remotes, name)
    was = RemoteEntry(name, locate_typed(session.workspace.remote_uri(name)).uri)
    delete, keep = _plan_removal(session, name)
    if delete and not dry_run:
        what = f"Remote '{name}' ({was.uri}) will be removed, and {_branches(delete)} deleted."
        confirm(f"{what} {FORGOTTEN}", yes)
    if not dry_run:
        delete, keep = _delete_followers(session, name)
        _change(session, partial(without_remote, name=name), dry_run)
    did = "would be" if dry_run else "was"
    lines = [f"Remote '{name}' {did} removed{f', with {_branches(delete)}' if delete else ''}."]
    lines += [f"  {branch} stays: {why}" for branch, why in keep.items()]
    data = {**_data("remove", was, dry_run), "deleted": delete, "kept": keep}
    session.output.show(data, "\n".join(lines))


def _remote(session: Session, name: str, uri: str) -> RemoteEntry:
    """The remote, with a path relative to the current directory rather than the workspace."""
    check_uri(uri)
    whole = locate_typed(uri).uri
    if whole == session.location.uri:
        raise InvalidOption(f"{whole} is this dataset itself.", hint="A remote is another place.")
    return RemoteEntry(name, whole)


def _change(session: Session, change: Callable[[str], str], dry_run: bool) -> None:
    """Change the workspace's file; a dry run only checks that it could be changed."""
    change_workspace(session.workspace.directory, change, dry_run)


def _followers(session: Session, remote: str) -> list[str]:
    """The branches that follow a remote's, children before parents, so that they can be deleted in order."""
    from lance_spark.storage.commits import following
    from lance_spark.storage.refs import read_refs

    table = read_refs(session.location)
    names = [name for name, follows in following(table).items() if follows.remote == remote]
    depth = {}
    for name in names:
        parent, depth[name] = table.branches[name].parent_branch, 0
        while parent in table.branches:
            parent, depth[name] = table.branches[str(parent)].parent_branch, depth[name] + 1
    return sorted(names, key=lambda name: (-depth[name], -name.count("/"), name))


def _plan_removal(session: Session, remote: str) -> tuple[list[str], dict[str, str]]:
    """The branches to delete, and those that stay, with reasons."""
    from dataclasses import replace

    from lance_spark.refs.rules import check_delete_branch
    from lance_spark.storage.refs import read_refs

    table = read_refs(session.location)
    delete, keep = [], {}
    for name in _followers(session, remote):
        try:
            check_delete_branch(table, name)
        except Refused as problem:
            keep[name] = problem.message.partition(": ")[2] or problem.message
            continue
        delete.append(name)
        left = {other: branch for other, branch in table.branches.items() if other != name}
        table = replace(table, branches=left)
    return delete, keep


def _delete_followers(session: Session, remote: str) -> tuple[list[str], dict[str, str]]:
    from lance_spark.refs.refs import delete_branch

    delete, keep = _plan_removal(session, remote)
    for name in delete:
        delete_branch(session.location, name)
    return delete, keep


def _entry(branch: Fetched) -> dict[str, Any]:
    return {
        "branch": branch.branch,
        "newest": branch.after,
        "fetched": branch.before,
        "into": branch.into,
        "state": branch.state,
    }


def _row(branch: Fetched) -> tuple[str, ...]:
    newest, fetched = ("" if version is None else str(version) for version in (branch.after, branch.before))
    return (
        branch.branch,
        newest,
        fetched,
        "" if branch.state == "new" else branch.into,
        _STATES.get(branch.state, branch.state),
    )


def _branches(names: list[str]) -> str:
    return f"branch {names[0]}" if len(names) == 1 else f"the branches {', '.join(sorted(names))}"


def _is(dry_run: bool) -> str:
    return "would be" if dry_run else "is"


def _data(action: str, remote: RemoteEntry, dry_run: bool) -> dict[str, Any]:
    return {"action": action, "remote": remote.name, "uri": remote.uri, "dry_run": dry_run}
