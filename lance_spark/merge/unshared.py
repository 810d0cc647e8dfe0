"""Whether what a branch got since the common version has certainly never left this dataset.

Rows that were picked and rewritten since may be on both sides of a merge under other names, and no version tells. But
where everything in ours was made by branches of this dataset, none of which a remote ever got, the remote cannot have
rows of ours, nor ours any of its own. Where rows of both sides have equal values nevertheless, that is not relied on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from lance_spark.core.location import DatasetLocation
from lance_spark.core.records.tracking import Node, read_follows
from lance_spark.core.ref_files import TAGS
from lance_spark.core.ref_names import is_merge_tag, is_own_tag
from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import Engine
from lance_spark.errors import NotFound, Refused
from lance_spark.format.versions import BRINGS, CHERRY_PICK, read_trace
from lance_spark.merge.ancestry import Graph
from lance_spark.merge.change_rules import Sides
from lance_spark.merge.row_conflicts import Locations, have_equal_rows
from lance_spark.storage import refs
from lance_spark.storage.brought import Records
from lance_spark.storage.datasets import pin_latest


@dataclass(frozen=True)
class Unshared:
    """One merge of what a remote has, before it would be a conflict."""

    location: DatasetLocation
    graph: Graph
    ours: PinnedVersion
    theirs: PinnedVersion
    base: Node

    def certainly(self, sides: Sides, locations: Locations, engine: Engine) -> bool:
        """Whether neither side has rows of the other that are not in the common version."""
        if not self.graph.is_follower(self.theirs.branch) or self._has_clones():
            return False
        base = self.graph.pin(self.base)
        own = self._own(base)
        return own is not None and not self._is_known(own, base) and not have_equal_rows(locations, sides, engine)

    def _is_known(self, own: Collection[str], base: PinnedVersion) -> bool:
        """Whether a remote got more of some chains than the common version has, or a killed push may have sent it."""
        followers = {
            branch.name: follows.branch
            for branch in self.graph.table.branches.values()
            if (follows := read_follows(branch)) is not None and branch.name != self.theirs.branch
        }
        if not {self.graph.pin(Node(chain, 0)).branch for chain in own}.isdisjoint(followers.values()):
            return True
        held = self.graph.held_by([base, self.theirs, *(pin_latest(self.location, name) for name in followers)])
        return any(there.get(chain, -1) > held[base].get(chain, -1) for there in held.values() for chain in own)

    def _has_clones(self) -> bool:
        """Whether another dataset reads from this one: what it took it may have pushed anywhere."""
        return any(is_own_tag(tag) and not is_merge_tag(tag) for tag in refs.list_ref_names(self.location, TAGS))

    def _own(self, base: PinnedVersion) -> set[str] | None:
        """The chains in which what ours has and the base lacks was made; None if some of it may be of others."""
        pending, seen, own = [self.ours], set[PinnedVersion](), set[str]()
        while pending:
            pin = pending.pop()
            if pin in seen:
                continue
            seen.add(pin)
            held = self.graph.held_by([pin, base])
            for chain, version in held[pin].items():
                after = held[base].get(chain, -1)
                if version > after:
                    sources = self._sources(chain, after, version)
                    if sources is None:
                        return None
                    own.add(chain)
                    pending += sources
        return own

    def _sources(self, chain: str, after: int, until: int) -> list[PinnedVersion] | None:
        """What versions of a chain picked; None if they may have rows of other datasets, or of versions long gone."""
        graph = self.graph
        try:
            branch = graph.pin(Node(chain, until)).branch
        except Refused:  # the branch was deleted
            return None
        if graph.is_follower(branch):
            return None
        fork = None if branch is None else graph.branch(branch).parent_version
        numbers = range(max(after, fork or 0) + 1, until + 1)
        found = graph.reader.transactions(self.location, branch, numbers)
        gone = set(numbers) - found.keys()
        lost = Records.of(self.location, branch).traces(gone) if gone else []
        told = [None if each is None else (each.operation, each.properties) for each in found.values()]
        told += [("", {**trace, BRINGS: "true"}) for trace in lost]
        sources: list[PinnedVersion] = []
        for version in told:
            picked = None if version is None else self._picked(*version)
            if picked is None:
                return None
            sources += picked
        return sources

    def _picked(self, operation: str, properties: Mapping[str, str]) -> list[PinnedVersion] | None:
        """The version that a cherry-pick took rows of, if it is one; None if a version may have anybody's rows."""
        trace = read_trace(properties)
        if trace is not None and trace.action == CHERRY_PICK:
            with suppress(NotFound):
                return [trace.source] if self.graph.identity(trace.source.branch) == trace.source_id else None
            return None
        brings = operation == "Restore" or properties.get(BRINGS) == "true"
        return None if brings or not (trace is None or trace.takes_in) else []
