"""``lance-git remote``: the other places that a workspace knows."""

from __future__ import annotations

from functools import partial

import click

from lance_spark.cli.command import VerbGroup
from lance_spark.cli.session import Session
from lance_spark.errors import InvalidOption
from lance_spark.store.uri import locate
from lance_spark.store.workspace import change_workspace
from lance_spark.workspace.model import Remote, check_uri, with_remote, with_remote_uri, without_remote


@click.group("remote", cls=VerbGroup, invoke_without_command=True)
@click.option("-v", "--verbose", is_flag=True, help="With URIs.")
@click.pass_context
def command(context: click.Context, verbose: bool) -> None:
    """List, add, change or remove remotes.

    A remote is another place with the same dataset. Only the workspace's file changes; nobody is asked whether there
    is anything.
    """
    if context.invoked_subcommand is not None:
        return
    session: Session = context.obj
    found = sorted(session.workspace.workspace.remotes.values(), key=lambda remote: remote.name)
    rows = [(remote.name, remote.uri) for remote in found]
    text = session.output.table(("remote", "uri"), rows) if verbose and rows else "\n".join(name for name, _ in rows)
    session.output.show({"remotes": [{"name": remote.name, "uri": remote.uri} for remote in found]}, text)


@command.command("add")
@click.argument("name")
@click.argument("uri")
@click.pass_obj
def add(session: Session, name: str, uri: str) -> None:
    """Add a remote. Most people call the first one origin."""
    remote = _remote(session, name, uri)
    change_workspace(session.workspace.directory, partial(with_remote, remote=remote))
    session.output.show(_data("add", remote), f"Remote '{name}' is {remote.uri}.")


@command.command("set-url")
@click.argument("name")
@click.argument("uri")
@click.pass_obj
def set_url(session: Session, name: str, uri: str) -> None:
    """Change where a remote is."""
    remote = _remote(session, name, uri)
    change_workspace(session.workspace.directory, partial(with_remote_uri, remote=remote))
    session.output.show(_data("set-url", remote), f"Remote '{name}' is {remote.uri}.")


@command.command("remove")
@click.argument("name")
@click.pass_obj
def remove(session: Session, name: str) -> None:
    """Forget a remote. What is there stays."""
    was = session.workspace.workspace.remotes.get(name)
    change_workspace(session.workspace.directory, partial(without_remote, name=name))
    session.output.show(_data("remove", was or Remote(name, "")), f"Remote '{name}' was removed.")


def _remote(session: Session, name: str, uri: str) -> Remote:
    """The remote, with a path counted from where the user is, not from the workspace."""
    check_uri(uri)
    whole = locate(uri).uri
    if whole == session.location.uri:
        raise InvalidOption(f"{whole} is this dataset itself.", hint="A remote is another place.")
    return Remote(name, whole)


def _data(action: str, remote: Remote) -> dict[str, str]:
    return {"action": action, "remote": remote.name, "uri": remote.uri}
