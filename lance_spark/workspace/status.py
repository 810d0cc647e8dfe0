"""The status of a branch: how far it, its parent and its remote's branch have diverged."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lance_spark.core.location import DatasetLocation
from lance_spark.core.records.tracking import Follows, Node, read_follows
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.core.show import Recorded
from lance_spark.format.transactions import Transaction
from lance_spark.format.versions import read_trace
from lance_spark.merge.ancestry import Graph
from lance_spark.remotes.fetch import node_of
from lance_spark.storage.datasets import pin_latest
from lance_spark.storage.followers import following
from lance_spark.storage.mem_wal import note_of_waiting
from lance_spark.storage.versions import newest_first

_NO_ROWS = frozenset({"Clone", "CreateIndex", "ReserveFragments", "UpdateBases", "UpdateConfig"})
"""Operations that change neither rows nor columns, and so leave nothing to merge or push."""

_MANY = 1000
"""Beyond this number of versions, merges among them also count: only reading each version could tell them apart."""


@dataclass(frozen=True)
class Tracking(Recorded):
    """How a branch relates to one that follows a remote's, at the last fetch: the remote is not contacted."""

    name: str
    """``origin/main``."""
    remote: str
    branch: str
    version: int
    """The version of the remote that was fetched last."""
    ahead: int
    """Versions of the branch that the remote lacks; merges of what the remote has do not count."""
    behind: int
    """Versions of the remote that the branch lacks."""
    related: bool = True
    """Whether the two have a known common version: without one, no pull or push can combine them."""

    def is_counterpart(self, branch: str) -> bool:
        """Whether it is the remote's branch of the same name."""
        return self.branch == branch


@dataclass(frozen=True)
class Status(Recorded):
    branch: str
    version: int
    """Its newest version."""
    parent: str | None = None
    """None for main."""
    common: str | None = None
    """``branch@version`` that both have; None if there is none or more than one."""
    ahead: int = 0
    """Versions of the branch that the parent lacks; merges of what the parent has do not count."""
    behind: int = 0
    """Versions of the parent that the branch lacks."""
    remotes: tuple[Tracking, ...] = ()
    """Remote branches of the same name, or those that the branch was created from."""
    follows: str | None = None
    """What the branch itself follows, as ``main of origin``; then the other fields stay empty."""
    note: str | None = None
    """What it says of rows that wait in no version."""


def status(location: DatasetLocation, branch: str | None) -> Status:
    """The status of a branch (None for main). Raises NotFound."""
    graph = Graph(location)
    ref = None if branch is None else graph.branch(branch)
    newest = _newest(location, branch)
    own = None if ref is None else read_follows(ref)
    if own is not None:
        return Status(str(branch), newest.version, follows=f"{own.branch or MAIN} of {own.remote}")
    parent = None if ref is None else ref.parent_branch
    followers = following(graph.followers_of(branch, parent))
    tracked = {name: follows for name, follows in followers.items() if follows.branch == branch or name == parent}
    remotes = (_tracking(location, graph, newest, name, follows) for name, follows in sorted(tracked.items()))
    known = tuple(remote for remote in remotes if remote is not None)
    alone = Status(branch or MAIN, newest.version, remotes=known)
    found = alone if branch is None else _beside_parent(location, graph, newest, parent, alone)
    return replace(found, note=note_of_waiting(location, newest, graph.reader))  # last: it may have the manifest by now


def _newest(location: DatasetLocation, branch: str | None) -> PinnedVersion:
    """The newest version of a branch by its name alone: a status reads no rows, so it need not open the version."""
    found = next(newest_first(location, branch), None)
    return pin_latest(location, branch) if found is None else PinnedVersion(branch, found[0])


def _beside_parent(
    location: DatasetLocation, graph: Graph, newest: PinnedVersion, parent: str | None, alone: Status
) -> Status:
    other = _newest(location, parent)
    bases = graph.bases(newest, other)
    return replace(
        alone,
        parent=parent or MAIN,
        common=str(graph.pin(bases[0])) if len(bases) == 1 else None,
        ahead=changes_since(location, graph, newest, other),
        behind=changes_since(location, graph, other, newest),
    )


def _tracking(
    location: DatasetLocation, graph: Graph, newest: PinnedVersion, name: str, follows: Follows
) -> Tracking | None:
    """How a branch relates to a following branch; None if the first fetch was interrupted.

    ``behind`` counts the remote's versions after the newest one that the branch has. A fetch turns several into one.
    """
    last = follows.newest
    if last is None:
        return None
    there = _newest(location, name)
    held = graph.held(newest, there)
    nodes = ((pair, node_of(graph, follows, pair)) for pair in follows.pairs)
    known = max((pair.remote for pair, node in nodes if held.get(node.chain, -1) >= node.version), default=0)
    ahead = changes_since(location, graph, newest, there)
    related = bool(graph.bases(newest, there))
    return Tracking(name, follows.remote, follows.branch or MAIN, last.remote, ahead, last.remote - known, related)


def changes_since(location: DatasetLocation, graph: Graph, side: PinnedVersion, other: PinnedVersion) -> int:
    """Versions of a side's own chain, with changes of their own, that the other side lacks."""
    held = graph.held(other, side)
    known = held.get(graph.node(side).chain, -1)
    fork = None if side.branch is None else graph.fork(side.branch)
    if fork is not None:
        known = max(known, fork.version)
    since = graph.reader.versions(location, side.branch, known, side.version)
    if len(since) > _MANY:
        return len(since)
    transactions = graph.reader.transactions(location, side.branch, since)
    return sum(1 for transaction in transactions.values() if _changes_something(transaction, held))


def _changes_something(transaction: Transaction | None, held: dict[str, int]) -> bool:
    """Whether a version is more than a merge of what the other side has (``held``), or a change of file metadata."""
    if transaction is None:
        return True
    trace = read_trace(transaction.properties)
    if trace is None or not trace.takes_in:
        return transaction.operation not in _NO_ROWS
    source = Node(trace.source_id, trace.source.version)
    return held.get(source.chain, -1) < source.version
