"""The branches that follow a remote's branches: reads and writes what they follow, and mends interrupted fetches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

from lance_spark import hints
from lance_spark.actions.merge.ancestry import Graph
from lance_spark.errors import NotFound, Refused
from lance_spark.location import DatasetLocation
from lance_spark.merge.ancestry import Node
from lance_spark.merge.trace import BEGIN, FETCH, PUSH, RELOCATE, Trace, read_trace
from lance_spark.refs.model import PinnedVersion, RefTable
from lance_spark.store import refs, version_listing, version_reader
from lance_spark.sync.fetch_steps import RemoteChain
from lance_spark.sync.tracking import Follows, VersionPair, following_name, read_follows, with_follows

_QUIET = frozenset({"Clone", "CreateIndex", "ReserveFragments", "UpdateBases", "UpdateConfig"})


@dataclass(frozen=True)
class Remote:
    """Another place with the same dataset."""

    name: str
    location: DatasetLocation


def followed(table: RefTable, remote: str) -> dict[str | None, Follows]:
    """What is known of the branches that follow a remote, by the remote's branch."""
    known = (read_follows(branch) for branch in table.branches.values())
    return {follows.branch: follows for follows in known if follows is not None and follows.remote == remote}


def write_down(local: DatasetLocation, follows: Follows, more: Mapping[str, str] | None = None) -> None:
    """Replace what the ref of the following branch says. What another fetch wrote there meanwhile is kept."""
    name = following_name(follows.remote, follows.branch)
    branch = refs.read_branch(local, name)
    metadata = {} if branch is None else branch.metadata
    known = None if branch is None else read_follows(branch)
    if known is not None and known.pairs[:1] == follows.pairs[:1]:
        follows = replace(follows, edges=known.edges).with_edges(follows.edges)
    refs.replace_metadata(local, name, with_follows({**metadata, **(more or {})}, follows))


def node_of(graph: Graph, follows: Follows, pair: VersionPair) -> Node:
    """The version of a pair."""
    return graph.origin(PinnedVersion(following_name(follows.remote, follows.branch), pair.local))


def pusher(local: DatasetLocation, stamp: int | None) -> str:
    """What tells a dataset, and a version of it by its commit time, from all others."""
    return f"{sha256(local.uri.encode()).hexdigest()[:16]}-{stamp}"


def is_own_push(local: DatasetLocation, trace: Trace) -> bool:
    """Whether a version was pushed from this very dataset, which still has the version that was pushed."""
    if not trace.pusher.startswith(pusher(local, None).partition("-")[0]):
        return False
    try:
        head = version_reader.read_contents(local, trace.source).head
    except NotFound:
        return False
    branch = None if trace.source.branch is None else refs.read_branch(local, trace.source.branch)
    identity = "" if branch is None else branch.identity
    return trace.pusher == pusher(local, head.timestamp_ns) and identity == trace.source_id


def interrupted(local: DatasetLocation, follows: Follows, chain: RemoteChain) -> tuple[VersionPair | None, bool]:
    """What an interrupted fetch left: (a pair that was not written down, whether to begin the branch again).

    Raises Refused if something else wrote to the branch: the branch would no longer be what the remote has.
    """
    name = following_name(follows.remote, follows.branch)
    after = 0 if follows.newest is None else follows.newest.local
    versions = [version for version in version_listing.version_numbers(local, name) if version > after]
    last: tuple[int, Trace] | None = None
    for version, transaction in version_reader.read_transactions(local, name, versions).items():
        if transaction is not None and transaction.operation in _QUIET:
            continue
        trace = None if transaction is None else read_trace(transaction.properties)
        if trace is not None and trace.action == RELOCATE:
            continue  # the same rows, read from another place
        if trace is None or trace.action not in (BEGIN, FETCH, PUSH):
            raise Refused(
                f"No fetch wrote version {version} of '{name}', which follows {follows.uri}.",
                hint=hints.of(
                    "Keep it in a branch of your own (",
                    hints.create_branch("mine", name),
                    f"), delete '{name}', and fetch.",
                ),
            )
        last = (version, trace)
    if last is None:
        return None, follows.newest is None
    version, trace = last
    there = _fetched_version(trace, chain)
    return (None, True) if there is None else (VersionPair(version, there), False)


def _fetched_version(trace: Trace, chain: RemoteChain) -> int | None:
    """The remote's version that was fetched; None if the fetch did not finish, or the version is not known any more."""
    if trace.action == FETCH:
        return trace.source.version
    if trace.action == PUSH:  # its source is what was pushed
        return next((received.at for received in chain.received if received.source == trace.source), None)
    return None
