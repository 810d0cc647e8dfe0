"""Branches that follow a branch of a remote: which versions of the two have the same rows.

A following branch, ``origin/main``, is a branch of the local dataset. A fetch brings it to what the remote has, and
nothing else is ever written to it. What it follows is in the metadata of its ref.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from lance_spark.merge.ancestry import Node
from lance_spark.refs.model import Branch
from lance_spark.refs.names import MAIN

KEY = "lance_spark.follows"
_KEPT = 500
"""Pairs and edges that are kept; the oldest go first, as the versions that they are about do."""


class VersionPair(NamedTuple):
    """A version of the following branch and the remote's with the same rows."""

    local: int
    remote: int


class Edge(NamedTuple):
    """A version that has everything of another version by a merge at the remote, not by one in this dataset."""

    into: str
    """Identity of the chain."""
    at: int
    source: Node


@dataclass(frozen=True)
class Follows:
    """What a branch follows."""

    remote: str
    """Name of the remote."""
    uri: str
    branch: str | None
    """The remote's branch, None for main."""
    identity: str = ""
    """Tells the remote's branch from a later one of the same name."""
    pairs: tuple[VersionPair, ...] = ()
    """Ascending."""
    edges: tuple[Edge, ...] = ()
    stamp: int = 0
    """Commit time of the last version that was fetched, nanoseconds since the epoch: it shows whether the remote was
    replaced."""

    @property
    def newest(self) -> VersionPair | None:
        """The last version that was fetched; None where the first fetch was interrupted."""
        return self.pairs[-1] if self.pairs else None

    def with_pair(self, pair: VersionPair, stamp: int) -> Follows:
        """After a fetch."""
        kept = tuple(known for known in self.pairs if known.remote < pair.remote and known.local <= pair.local)
        return replace(self, pairs=(*kept, pair)[-_KEPT:], stamp=stamp)

    def with_edges(self, edges: Iterable[Edge]) -> Follows:
        """With more edges, each once."""
        return replace(self, edges=tuple(dict.fromkeys((*self.edges, *edges)))[-_KEPT:])

    def until(self, remote: int) -> VersionPair | None:
        """The newest pair that has nothing newer than a version of the remote."""
        return max((pair for pair in self.pairs if pair.remote <= remote), default=None)

    def since(self, remote: int) -> VersionPair | None:
        """The oldest pair that has everything of a version of the remote."""
        return min((pair for pair in self.pairs if pair.remote >= remote), default=None)


def following_name(remote: str, branch: str | None) -> str:
    """Name of the branch that follows a remote's branch: ``origin/main``."""
    return f"{remote}/{branch or MAIN}"


def read_follows(branch: Branch) -> Follows | None:
    """What a branch follows; None for a branch of the user's own."""
    text = branch.metadata.get(KEY)
    if text is None:
        return None
    try:
        record = json.loads(text)
        return Follows(
            remote=str(record["remote"]),
            uri=str(record["uri"]),
            branch=None if record["branch"] == MAIN else str(record["branch"]),
            identity=str(record["identity"]),
            stamp=int(record["stamp"]),
            pairs=tuple(VersionPair(int(local), int(remote)) for local, remote in record["pairs"]),
            edges=tuple(
                Edge(str(into), int(at), Node(str(chain), int(version))) for into, at, chain, version in record["edges"]
            ),
        )
    except (ValueError, KeyError, TypeError):
        return None  # the key of another tool


def with_follows(metadata: Mapping[str, str], follows: Follows) -> dict[str, str]:
    """A branch's metadata with what it follows."""
    value = {
        "remote": follows.remote,
        "uri": follows.uri,
        "branch": follows.branch or MAIN,
        "identity": follows.identity,
        "stamp": follows.stamp,
        "pairs": [list(pair) for pair in follows.pairs],
        "edges": [[edge.into, edge.at, *edge.source] for edge in follows.edges],
    }
    return {**metadata, KEY: json.dumps(value)}
