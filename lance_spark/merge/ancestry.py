"""The common ancestor of two versions: a graph of chains, forks and merges.

A chain is a line. So one number per chain says everything that a version descends from: the newest version of that
chain that it holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Node(NamedTuple):
    """One version. Chains have identities, because a branch may be deleted and its name used again."""

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
    """What connects a chain with others."""

    fork: Node | None = None
    """The version it began as; None for main."""
    merges: tuple[TakenIn, ...] = ()
    """What its versions took in, ascending."""


Chains = Mapping[str, ChainLinks]


def ancestors(node: Node, graph: Chains) -> dict[str, int]:
    """Everything a version holds."""
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
    """The newest versions that both descend from; none of them descends from another one.

    If merges take turns, there is one. If two chains took each other in at once, there are more. Versions that hold
    everything of each other, as after a push, count as one. The one that ``one`` itself descends from stands for both:
    otherwise a fast-forward would not be recognized.
    """
    first, second = ancestors(one, graph), ancestors(other, graph)
    common = [Node(chain, min(first[chain], second[chain])) for chain in first.keys() & second.keys()]
    lines = [*_line(one, graph), *_line(other, graph)]
    common.sort(key=lambda node: (lines.index(node.chain) if node.chain in lines else len(lines), node))
    return sorted(node for at, node in enumerate(common) if not _is_below_another(node, at, common, graph))


def holds(node: Node, other: Node, graph: Chains) -> bool:
    """Whether a version has everything that the other one has."""
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
    """Whether another version holds a version. Of two that hold everything of each other, the first wins."""
    return any(
        other != node and holds(other, node, graph) and (before < at or not holds(node, other, graph))
        for before, other in enumerate(nodes)
    )
