"""Common ancestors of two versions, and the notes in branch metadata about fetches and branch merges.

A chain is a line of versions. So one number per chain describes all ancestors of a version: the newest version of that
chain that it holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from lance_spark.core.records.stored_json import decode_json
from lance_spark.core.refs import MAIN, Branch


class Node(NamedTuple):
    """One version. Chains have identities, because a branch can be deleted and its name reused."""

    chain: str
    """"" for main, else the identity of the branch."""
    version: int


class TakenIn(NamedTuple):
    """A version that took in another chain."""

    at: int
    source: Node
    """The version of the other chain that it took in."""


@dataclass(frozen=True)
class ChainLinks:
    """A chain's connections to other chains."""

    fork: Node | None = None
    """The version that it forked from; None for main."""
    merges: tuple[TakenIn, ...] = ()
    """What its versions took in, ascending."""


Chains = Mapping[str, ChainLinks]


def ancestors(node: Node, graph: Chains) -> dict[str, int]:
    """The newest version of each chain that a version holds."""
    newest: dict[str, int] = {}
    pending = [node]
    while pending:
        chain, version = pending.pop()
        before = newest.get(chain, -1)
        if version <= before:
            continue
        newest[chain] = version
        known = graph.get(chain)
        if known is None:
            continue
        if known.fork is not None and before < 0:
            pending.append(known.fork)
        pending += [source for at, source in known.merges if before < at <= version]
    return newest


def merge_bases(one: Node, other: Node, graph: Chains) -> list[Node]:
    """The newest common ancestors of two versions; none of them descends from another.

    If branch merges alternate, there is one. If two chains took each other in at once, there are more. Versions that
    hold everything of each other, as after a push, count as one: the one that ``one`` itself descends from represents
    both, or a fast-forward would not be recognized.
    """
    first, second = ancestors(one, graph), ancestors(other, graph)
    common = [Node(chain, min(first[chain], second[chain])) for chain in first.keys() & second.keys()]
    lines = [*_line(one, graph), *_line(other, graph)]
    common.sort(key=lambda node: (lines.index(node.chain) if node.chain in lines else len(lines), node))
    return sorted(node for at, node in enumerate(common) if not _is_below_another(node, at, common, graph))


def holds(node: Node, other: Node, graph: Chains) -> bool:
    """Whether a version holds everything of the other one."""
    return ancestors(node, graph).get(other.chain, -1) >= other.version


def _line(node: Node, graph: Chains) -> list[str]:
    """The chain of a version, then the chains that it was forked from."""
    chains: list[str] = []
    at: Node | None = node
    while at is not None and at.chain not in chains:
        chains.append(at.chain)
        at = graph[at.chain].fork if at.chain in graph else None
    return chains


def _is_below_another(node: Node, at: int, nodes: Sequence[Node], graph: Chains) -> bool:
    """Whether another version holds this one. Of two that hold everything of each other, the first wins."""
    return any(
        other != node and holds(other, node, graph) and (before < at or not holds(node, other, graph))
        for before, other in enumerate(nodes)
    )


# --- Branches that follow a remote's branch: pairs of versions with the same rows
# A following branch, ``origin/main``, is a branch of the local dataset. A fetch updates it to the state of the remote;
# nothing else ever writes to it. Its ref's metadata names the branch that it follows.

KEY = "lance_spark.follows"
_KEPT = 500
"""Maximum number of pairs and edges kept; the oldest go first, like the versions that they describe."""


class VersionPair(NamedTuple):
    """A version of the following branch and a version of the remote with the same rows."""

    local: int
    remote: int


class Edge(NamedTuple):
    """A version that holds everything of another one through a branch merge at the remote, not in this dataset."""

    into: str
    at: int
    source: Node


@dataclass(frozen=True)
class Follows:
    remote: str
    uri: str
    branch: str | None
    """The remote's branch, None for main."""
    identity: str = ""
    """Distinguishes the remote's branch from a later one of the same name."""
    pairs: tuple[VersionPair, ...] = ()
    """Ascending."""
    edges: tuple[Edge, ...] = ()
    stamp: int = 0
    """Commit time of the last fetched version, nanoseconds since the epoch: it reveals whether the remote was
    replaced."""

    @property
    def newest(self) -> VersionPair | None:
        """The last fetched version; None if the first fetch was interrupted."""
        return self.pairs[-1] if self.pairs else None

    def with_pair(self, pair: VersionPair, stamp: int) -> Follows:
        kept = tuple(known for known in self.pairs if known.remote < pair.remote and known.local <= pair.local)
        return replace(self, pairs=(*kept, pair)[-_KEPT:], stamp=stamp)

    def with_edges(self, edges: Iterable[Edge]) -> Follows:
        return replace(self, edges=tuple(dict.fromkeys((*self.edges, *edges)))[-_KEPT:])

    def until(self, remote: int) -> VersionPair | None:
        """The newest pair that holds nothing newer than a version of the remote."""
        return max((pair for pair in self.pairs if pair.remote <= remote), default=None)

    def since(self, remote: int) -> VersionPair | None:
        """The oldest pair that holds everything of a version of the remote."""
        return min((pair for pair in self.pairs if pair.remote >= remote), default=None)


def may_follow(name: str) -> bool:
    """Whether a branch of that name may follow a remote's branch: :func:`following_name` puts a slash between both."""
    return "/" in name


def following_name(remote: str, branch: str | None) -> str:
    """Name of the branch that follows a remote's branch: ``origin/main``."""
    return f"{remote}/{branch or MAIN}"


def read_follows(branch: Branch) -> Follows | None:
    """The branch that a branch follows; None for a branch of the user's own."""
    text = branch.metadata.get(KEY)
    if text is None:
        return None
    try:
        record = decode_json(text)
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


# --- Notes on branches about branch merges: the version that was taken in, where the next one starts
# A version's trace holds the same, but is gone once the version is cleaned up. The notes are in the metadata of the
# branch's ref: they go with the branch, and a cleanup finds there the versions that the next branch merge needs.

PREFIX = "lance_spark.merged."
"""Prefix of notes' keys; the identities of the receiving chain and of the chain taken in follow."""


@dataclass(frozen=True)
class MergeNote:
    """One chain took in a version of another chain."""

    into: str
    """Identity of the chain; "" for main."""
    at: int
    """The version that took it in."""
    source: Node


def merged_notes(branches: Iterable[Branch]) -> Iterator[MergeNote]:
    """All notes that can be read."""
    for branch in branches:
        for key, value in branch.metadata.items():
            note = _read(key, value)
            if note is not None:
                yield note
        follows = read_follows(branch)
        for edge in () if follows is None else follows.edges:
            yield MergeNote(edge.into, edge.at, edge.source)


def merged_versions(branches: Iterable[Branch]) -> dict[str, list[tuple[int, Branch]]]:
    """Versions that were last merged into another chain, or that such a merge made, by the identity of their chain.

    Each with the branch whose note says so. The next merge compares with these versions.
    """
    found: dict[str, list[tuple[int, Branch]]] = {}
    for branch in branches:
        for note in merged_notes([branch]):
            found.setdefault(note.source.chain, []).append((note.source.version, branch))
            found.setdefault(note.into, []).append((note.at, branch))
    return found


def with_note(metadata: Mapping[str, str], note: MergeNote) -> dict[str, str]:
    """A branch's metadata with a note added; it replaces an older one about the same two chains."""
    key = f"{PREFIX}{note.into or 'main'}.{note.source.chain or 'main'}"
    return {**metadata, key: json.dumps({"at": note.at, "source": note.source.version})}


def handed_on(branches: Mapping[str, Branch], name: str) -> dict[str, dict[str, str]]:
    """New metadata of other branches, by name, that keeps what the ref of a branch says about main when it is deleted.

    Main has no ref: what it took in is noted on the branch that it took in. A third branch that took the same versions
    in needs the note as long as it exists. Without it, a merge would bring rows that main rewrote or deleted since.
    """
    gone = branches[name]
    notes = [note for note in merged_notes([gone]) if not note.into and note.source.chain == gone.identity]
    changed: dict[str, dict[str, str]] = {}
    for other in branches.values() if notes else ():
        if other.name != name and any(note.source.chain == gone.identity for note in merged_notes([other])):
            changed[other.name] = dict(other.metadata)
            for note in notes:
                changed[other.name] = with_note(changed[other.name], note)
    return changed


def _read(key: str, value: str) -> MergeNote | None:
    into, dot, source = key.removeprefix(PREFIX).partition(".")
    if not key.startswith(PREFIX) or not dot:
        return None
    try:
        note = decode_json(value)
        return MergeNote(_identity(into), int(note["at"]), Node(_identity(source), int(note["source"])))
    except (ValueError, KeyError, TypeError):
        return None  # the key of another tool


def _identity(name: str) -> str:
    return "" if name == "main" else name
