"""Which remote is meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lance_spark.actions.resolve import all_refs
from lance_spark.actions.sync.write_guards import ORIGIN, known_remotes
from lance_spark.cli.session import Session
from lance_spark.errors import InvalidOption, NotFound
from lance_spark.refs.names import MAIN

if TYPE_CHECKING:
    from lance_spark.actions.sync.tracking_branches import Remote


def find_remote(session: Session, typed: str | None) -> Remote:
    """The remote with a name or a URI; by default origin, or the only remote.

    Without a workspace, the remotes are those that branches of the dataset follow. Raises NotFound, InvalidOption.
    """
    from lance_spark.actions.sync.tracking_branches import Remote  # slow imports, which a short answer does not need

    known = known_here(session)
    name = _default(session, known) if typed is None else typed
    if name in known:
        return Remote(name, session.at(known[name]))
    if not _is_place(name):
        raise _absent(session, name, known)
    location = session.at(name)
    for other, uri in known.items():
        if session.at(uri).uri == location.uri:
            return Remote(other, location)
    raise _unknown_place(session, name, known)


def known_here(session: Session) -> Mapping[str, str]:
    """URIs of the remotes by name: the workspace's, or without one those that branches of the dataset follow."""
    if not session.has_workspace:
        return known_remotes(all_refs(session.location))
    return {name: session.workspace.remote_uri(name) for name in session.workspace.workspace.remotes}


def _default(session: Session, known: Mapping[str, str]) -> str:
    if ORIGIN in known:
        return ORIGIN
    if len(known) > 1:
        raise InvalidOption("There is more than one remote.", hint=f"Name one of {', '.join(sorted(known))}.")
    if not known:
        raise NotFound("There is no remote.", hint=_how_to_add(session))
    return next(iter(known))


def _absent(session: Session, name: str, known: Mapping[str, str]) -> NotFound:
    if not known:
        return NotFound(f"There is no remote '{name}'.", hint=_how_to_add(session))
    branches = all_refs(session.location).branches
    if name == MAIN or any(branch in branches for branch in (name, *(f"{remote}/{name}" for remote in known))):
        first = ORIGIN if ORIGIN in known else min(known)
        return NotFound(f"There is no remote '{name}', only a branch.", hint=f"Name the remote first: {first} {name}.")
    return NotFound(f"There is no remote '{name}'.", hint=f"Remotes here: {', '.join(sorted(known))}.")


def _unknown_place(session: Session, name: str, known: Mapping[str, str]) -> NotFound:
    remote, _, branch = name.partition("/")
    if remote in known:
        return NotFound(f"There is no remote '{name}'.", hint=f"Write a blank between the two: {remote} {branch}.")
    return NotFound(f"No remote of this dataset is at '{name}'.", hint=_how_to_add(session))


def _how_to_add(session: Session) -> str:
    if session.has_workspace:
        return "Add one with: lance-git remote add NAME URI."
    how = session.how_to_init if session.dataset is None else "leave --dataset out where there is one"
    return f"Without a workspace, only places that were fetched from before are known; {how}."


def _is_place(text: str) -> bool:
    return "/" in text or text.startswith(".")
