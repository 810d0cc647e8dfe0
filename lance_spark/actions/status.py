"""Where a branch stands: its newest version, and how far it and its parent have moved since they were one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lance_spark.actions.replay.ancestry import Graph
from lance_spark.actions.resolve import check_branch
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import MAIN
from lance_spark.store import chains, refs
from lance_spark.store.datasets import pin_latest


@dataclass(frozen=True)
class Status:
    """A branch and its parent."""

    branch: str
    version: int
    """Its newest version."""
    parent: str | None = None
    """None for main."""
    common: str | None = None
    """``branch@version`` that both have; None where there is none or more than one."""
    ahead: int = 0
    """Versions of the branch that the parent does not have."""
    behind: int = 0
    """Versions of the parent that the branch does not have."""

    def as_record(self) -> dict[str, Any]:
        """As JSON values."""
        return dict(vars(self))


def status(location: DatasetLocation, branch: str | None) -> Status:
    """Where a branch (None for main) stands. Raises NotFound."""
    check_branch(location, branch)
    newest = pin_latest(location, branch)
    if branch is None:
        return Status(MAIN, newest.version)
    table = refs.read_refs(location)
    graph = Graph(location, table)
    parent = pin_latest(location, table.branches[branch].parent_branch)
    bases = graph.bases(newest, parent)
    return Status(
        branch=branch,
        version=newest.version,
        parent=parent.branch or MAIN,
        common=str(graph.pin(bases[0])) if len(bases) == 1 else None,
        ahead=_since(location, graph, newest, parent),
        behind=_since(location, graph, parent, newest),
    )


def _since(location: DatasetLocation, graph: Graph, side: PinnedVersion, other: PinnedVersion) -> int:
    """Versions of a side's own chain that the other one does not have."""
    known = graph.held(other, side).get(graph.node(side).chain, -1)
    fork = None if side.branch is None else graph.fork(side.branch)
    if fork is not None:
        known = max(known, fork.version)
    return sum(1 for version in chains.version_names(location, side.branch) if known < version <= side.version)
