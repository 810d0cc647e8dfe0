"""Remotes, by the branches that follow them, and the branches that only a fetch writes to."""

from __future__ import annotations

from lance_spark import hints
from lance_spark.core.location import DatasetLocation
from lance_spark.core.records.tracking import Follows, following_name, read_follows
from lance_spark.core.refs import MAIN, Branch, RefTable
from lance_spark.errors import (
    Refused,
)
from lance_spark.storage import refs
from lance_spark.storage.commits import check_unprotected
from lance_spark.storage.others import check_commits
from lance_spark.storage.resolving import check_branch

ORIGIN = "origin"
"""The conventional name of the remote that a dataset was cloned from."""


def following(table: RefTable) -> dict[str, Follows]:
    """The branches' remote counterparts, by the branches' names."""
    known = ((branch.name, read_follows(branch)) for branch in table.branches.values())
    return {name: follows for name, follows in known if follows is not None}


def known_remotes(table: RefTable) -> dict[str, str]:
    """URIs of the remotes that branches follow, by name: from the branch with the newest version fetched."""
    newest = sorted(following(table).values(), key=lambda follows: follows.stamp)
    return {follows.remote: follows.uri for follows in newest}


def check_own(location: DatasetLocation, branch: str | None) -> None:
    """Raise Refused for a branch that follows a remote's branch. A branch that does not exist passes."""
    ref = None if branch is None else refs.read_branch(location, branch)
    if ref is not None:
        _check_no_follower(ref)


def check_writable(location: DatasetLocation, branch: str | None) -> None:
    """Raise NotFound for a branch that does not exist, Refused for one that follows a remote's, or is protected."""
    check_mergeable(location, branch)
    check_unprotected(location, branch)


def check_mergeable(location: DatasetLocation, branch: str | None) -> None:
    """Like check_writable, for branch merges and upkeep that keeps all rows: a protected branch accepts those."""
    check_commits(location)
    ref = None if branch is None else refs.read_branch(location, branch)
    if ref is None:
        check_branch(location, branch)
    else:
        _check_no_follower(ref)


def _check_no_follower(branch: Branch) -> None:
    follows = read_follows(branch)
    if follows is not None:
        raise follower_refused(follows, "only a fetch writes to it")


def follower_refused(follows: Follows, why: str) -> Refused:
    """The error for work on a branch that follows a remote's branch."""
    name, short = following_name(follows.remote, follows.branch), follows.branch or MAIN
    return Refused(
        f"'{name}' follows '{short}' of {follows.remote}: {why}.",
        hint=hints.of(hints.own_branch(short, name), " gives you a branch of your own."),
    )
