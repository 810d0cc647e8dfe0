"""Notes down at a remote what only the pushing dataset knows: which branches contain everything of which others."""

from __future__ import annotations

from collections.abc import Iterator

from lance_spark.actions.merge.ancestry import Graph
from lance_spark.actions.sync.tracking_branches import Remote, followed, node_of
from lance_spark.location import DatasetLocation
from lance_spark.merge.ancestry import Node
from lance_spark.refs.model import PinnedVersion, RefTable
from lance_spark.store import refs
from lance_spark.sync.merge_notes import MergeNote, merged_notes, with_note
from lance_spark.sync.tracking import Follows, VersionPair, following_name


def tell(local: DatasetLocation, remote: Remote, branch: str | None) -> None:
    """Note down at the remote what a branch that was pushed has in common with its other branches.

    A push makes one version at the remote, without the merges that it came from. Merging the same branch there again
    would bring its rows twice.
    """
    table = refs.read_branches(local)
    known = followed(table, remote.name)
    pushed = known[branch]
    there: RefTable | None = None
    for other in known.values():
        if other.branch == branch:
            continue
        for into, source, pair in _meetings(Graph(local, table), pushed, other):
            there = refs.read_branches(remote.location) if there is None else there
            if _note(remote, there, into, PinnedVersion(source.branch, pair.remote)):
                there = None


def _meetings(graph: Graph, one: Follows, other: Follows) -> Iterator[tuple[Follows, Follows, VersionPair]]:
    """(branch whose newest version has it, branch, the newest version of that)."""
    for into, source in ((one, other), (other, one)):
        if into.newest is None or source.newest is None:
            continue
        tips = [
            PinnedVersion(following_name(side.remote, side.branch), side.newest.local)
            for side in (into, source)
            if side.newest
        ]
        held = graph.held(*tips)
        for pair in reversed(source.pairs):
            node = node_of(graph, source, pair)
            if held.get(node.chain, -1) >= node.version:
                yield into, source, pair
                break


def _note(remote: Remote, there: RefTable, into: Follows, source: PinnedVersion) -> bool:
    """Whether a note was written: only if the remote does not know the fact by itself."""
    names = {None, *there.branches}
    if into.newest is None or into.branch not in names or source.branch not in names:
        return False
    graph = Graph(remote.location, there)
    at, node = PinnedVersion(into.branch, into.newest.remote), graph.origin(source)
    if graph.origin(at).chain == node.chain or graph.inherits(at, node) or _is_noted(there, graph.node(at), node):
        return False
    if graph.held(at, source).get(node.chain, -1) >= node.version:
        return False
    holder = into.branch if into.branch is not None else source.branch
    if holder is None:
        return False
    note = MergeNote(graph.identity(into.branch), at.version, node)
    refs.replace_metadata(remote.location, holder, with_note(there.branches[holder].metadata, note))
    return True


def _is_noted(there: RefTable, at: Node, source: Node) -> bool:
    return any(
        note.into == at.chain
        and note.at <= at.version
        and note.source.chain == source.chain
        and note.source.version >= source.version
        for note in merged_notes(there.branches.values())
    )
