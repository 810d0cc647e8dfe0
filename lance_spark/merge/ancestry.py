"""What led to two versions: their common ancestor, by refs and the traces of merges, and what versions did since.

In: refs, transactions, and records of versions that are gone. Out: the base of a merge, and the steps of each side.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lance_spark import hints
from lance_spark.core.location import DatasetLocation
from lance_spark.core.records import tracking
from lance_spark.core.ref_names import missing
from lance_spark.core.refs import MAIN, Branch, PinnedVersion, RefTable
from lance_spark.errors import Refused
from lance_spark.format import row_ids
from lance_spark.format import versions as format_versions
from lance_spark.format.operations import KEEPS_COLUMNS, Step, Steps, VersionSpan
from lance_spark.format.transactions import UNKNOWN, Transaction
from lance_spark.format.versions import Trace, read_trace
from lance_spark.storage import refs, versions
from lance_spark.storage.brought import Records, renames
from lance_spark.storage.versions import VersionCache


class Graph:
    """The chains of a dataset. Each is read only as far as needed."""

    def __init__(
        self, location: DatasetLocation, table: RefTable | None = None, reader: VersionCache | None = None
    ) -> None:
        self._location = location
        self.reader = reader or VersionCache()
        """What was read so far, for later steps that need the same versions."""
        self._branches = refs.BranchReader(location, table)
        self._found: dict[frozenset[PinnedVersion], Mapping[str, tracking.ChainLinks]] = {}
        self._notes: dict[str, Mapping[str, list[tracking.MergeNote]]] = {}
        """By the branch that holds them, and by the chain that they are about; decoded once."""

    @property
    def table(self) -> RefTable:
        return self._branches.table()

    def branch(self, name: str) -> Branch:
        """One branch. Raises NotFound."""
        found = self._branches.find(name)
        if found is None:
            raise missing("branch", name, [MAIN, *self._branches.names])
        return found

    def followers_of(self, branch: str | None, parent: str | None) -> RefTable:
        """The branches that may follow a remote's branch of that name (None for main), and the parent, if it may."""
        ending = tracking.following_name("", branch)
        found = self._branches.some(
            lambda name: tracking.may_follow(name) and (name.endswith(ending) or name == parent)
        )
        return RefTable({branch.name: branch for branch in found}, {})

    def node(self, pin: PinnedVersion) -> tracking.Node:
        return tracking.Node(self.identity(pin.branch), pin.version)

    def origin(self, pin: PinnedVersion) -> tracking.Node:
        """A version in the chain where it was made: a branch begins with a copy of the version it was forked from."""
        while pin.branch is not None:
            fork = self.fork(pin.branch)
            if fork is None or pin.version > fork.version:
                break
            pin = PinnedVersion(fork.branch, pin.version)
        return self.node(pin)

    def pin(self, node: tracking.Node) -> PinnedVersion:
        """A node as a version. Raises Refused for one on a deleted branch."""
        if not node.chain:
            return PinnedVersion(None, node.version)
        found = self._branches.of_identity(node.chain)
        if found is None:
            raise Refused(
                "The last common version is on a branch that was deleted, so nothing is left to compare with.",
                hint="Merge that branch's content through the branch it was merged into, or append the rows again.",
            )
        return PinnedVersion(found.name, node.version)

    def identity(self, branch: str | None) -> str:
        """The identity of a branch, unique among branches of the same name; "" for main."""
        return "" if branch is None else self.branch(branch).identity

    def is_follower(self, branch: str | None) -> bool:
        """Whether a branch follows a remote's."""
        entry = None if branch is None else self._branches.find(branch)
        return entry is not None and tracking.read_follows(entry) is not None

    def fork(self, branch: str) -> PinnedVersion | None:
        """The version that a branch descends from; None for one unrelated to any other branch."""
        return self.branch(branch).fork

    def bases(self, one: PinnedVersion, other: PinnedVersion) -> list[tracking.Node]:
        """The newest common ancestors of two versions."""
        chains_read = self._read(one, other)
        return tracking.merge_bases(self.node(one), self.node(other), chains_read)

    def held(self, pin: PinnedVersion, beside: PinnedVersion) -> dict[str, int]:
        """The newest version of each chain, by identity, that a version fully contains.

        Chains that both versions share anyway are not read.
        """
        return tracking.ancestors(self.node(pin), self._read(pin, beside))

    def held_by(self, pins: Collection[PinnedVersion]) -> dict[PinnedVersion, dict[str, int]]:
        """:meth:`held` for each of several versions, with every chain read once."""
        chains = self._chains(*pins)
        return {pin: tracking.ancestors(self.node(pin), chains) for pin in pins}

    def gains(self, source: PinnedVersion, ours: PinnedVersion) -> tuple[PinnedVersion, ...]:
        """What a source holds of other branches, as versions of them, that ours lacks; without deleted branches."""
        before, own = self.held(ours, source), self.identity(source.branch)
        new = {
            chain: version
            for chain, version in self.held(source, ours).items()
            if chain and chain != own and before.get(chain, -1) < version
        }
        found = ((self._branches.of_identity(chain), version) for chain, version in new.items())
        return tuple(PinnedVersion(branch.name, version) for branch, version in found if branch is not None)

    def share(self, side: PinnedVersion, other: PinnedVersion, since: PinnedVersion) -> bool:
        """Whether two versions share an ancestor that an older version of the side lacks."""
        known = tracking.ancestors(self.node(since), self._read(side, other))
        return any(known.get(node.chain, -1) < node.version for node in self.bases(side, other))

    def inherits(self, pin: PinnedVersion, node: tracking.Node) -> bool:
        """Whether the forks of its branch alone show that a version contains a node; nothing is read."""
        return self._lineage(self.node(pin)).get(node.chain, -1) >= node.version

    def fork_of(self, one: PinnedVersion, other: PinnedVersion) -> PinnedVersion | None:
        """The newest version from which both chains go back by their forks alone; None if there is none."""
        lineage = self._lineage(self.node(other))
        for chain, newest in self._lineage(self.node(one)).items():
            if chain in lineage:
                return self.pin(tracking.Node(chain, min(newest, lineage[chain])))
        return None

    def path(self, side: PinnedVersion, base: tracking.Node, beside: PinnedVersion) -> tuple[VersionSpan, ...]:
        """The versions of a side that the base lacks: of its own chain and of the chains it was forked from."""
        known = tracking.ancestors(base, self._read(side, beside))
        spans = []
        for chain, newest in reversed(self._lineage(self.node(side)).items()):
            begin = self._start(chain)
            spans.append(
                VersionSpan(self.pin(tracking.Node(chain, newest)).branch, max(begin, known.get(chain, 0)), newest)
            )
        return tuple(span for span in spans if span.after < span.until)

    def numbering(self, side: PinnedVersion, base: tracking.Node, beside: PinnedVersion) -> PinnedVersion | None:
        """The version that brought the common ancestor into a side's chain; None if the chain began with it.

        A merge renumbers the rows that it takes in.
        """
        lineage = self._lineage(self.node(side))
        if lineage.get(base.chain, -1) >= base.version:
            return None
        graph = self._read(side, beside)
        for chain, newest in reversed(lineage.items()):
            merges = graph[chain].merges if chain in graph else ()
            for at, source in merges:
                if at <= newest and tracking.holds(source, base, graph):
                    return self.pin(tracking.Node(chain, at))
        return None

    def _read(self, one: PinnedVersion, other: PinnedVersion) -> Mapping[str, tracking.ChainLinks]:
        """Every chain that one of the versions descends from. What both share anyway is not read."""
        key = frozenset({one, other})
        if key not in self._found:
            self._found[key] = self._chains(one, other)
        return self._found[key]

    def _chains(self, *pins: PinnedVersion) -> Mapping[str, tracking.ChainLinks]:
        lineages = [self._lineage(self.node(pin)) for pin in pins]
        chains: dict[str, tracking.ChainLinks] = {}
        read: dict[str, int] = {}
        found: defaultdict[str, list[int]] = defaultdict(list)
        for lineage in lineages:
            for chain, newest in lineage.items():
                found[chain].append(newest)
        shared = {chain: min(versions) for chain, versions in found.items() if len(versions) == len(lineages)}
        pending = {chain: max(versions) for chain, versions in found.items()}
        while pending:
            chain, newest = pending.popitem()
            read[chain] = newest
            merges = self._merges_of(chain, shared.get(chain, -1), newest)
            chains[chain] = tracking.ChainLinks(self._fork_node(chain), merges)
            for _, source in merges:
                for parent, version in self._lineage(source).items():
                    # Chains may have taken in each other: one is read again only for newer versions.
                    if version > max(read.get(parent, -1), pending.get(parent, -1)):
                        pending[parent] = version
        return chains

    def _lineage(self, node: tracking.Node) -> dict[str, int]:
        lineage = {}
        while True:
            lineage[node.chain] = node.version
            parent = self._fork_node(node.chain)
            if parent is None or parent.chain in lineage:
                return lineage
            node = parent

    def _fork_node(self, chain: str) -> tracking.Node | None:
        branch = self._branches.of_identity(chain) if chain else None
        fork = None if branch is None else branch.fork
        if fork is None or (fork.branch is not None and self._branches.find(fork.branch) is None):
            return None
        return tracking.Node(self.identity(fork.branch), fork.version)

    def _merges_of(self, chain: str, above: int, newest: int) -> tuple[tracking.TakenIn, ...]:
        """The versions of a chain, in a range, that took another chain in."""
        holder = self._branches.of_identity(chain) if chain else None
        if chain and holder is None:
            return ()
        if above >= newest:
            return ()
        branch = None if holder is None else holder.name
        versions = self.reader.versions(self._location, branch, max(above, self._start(chain)), newest)
        merges: set[tracking.TakenIn] = set()
        for version, transaction in self.reader.transactions(self._location, branch, versions).items():
            trace = read_trace(transaction.properties) if transaction is not None else None
            if trace is not None and trace.takes_in:
                merges.add(tracking.TakenIn(version, tracking.Node(trace.source_id, trace.source.version)))
                if trace.source_id and self._branches.of_identity(trace.source_id) is None:
                    # Without the ancestry of a deleted branch, the next merge would take its rows for new ones.
                    merges |= {tracking.TakenIn(version, tracking.Node(*held)) for held in trace.held}
        for holder in self._with_notes_on(branch):
            for note in self._notes_of(holder).get(chain, ()):
                if above < note.at <= newest:
                    merges.add(tracking.TakenIn(note.at, note.source))
        return tuple(sorted(merges))

    def _notes_of(self, holder: Branch) -> Mapping[str, list[tracking.MergeNote]]:
        if holder.name not in self._notes:
            by_chain: defaultdict[str, list[tracking.MergeNote]] = defaultdict(list)
            for note in tracking.merged_notes([holder]):
                by_chain[note.into].append(note)
            self._notes[holder.name] = by_chain
        return self._notes[holder.name]

    def _start(self, chain: str) -> int:
        """The version that a chain began with, which belongs to its parent; 0 for main."""
        branch = self._branches.of_identity(chain) if chain else None
        return 0 if branch is None else branch.parent_version

    def _with_notes_on(self, branch: str | None) -> list[Branch]:
        """The branches that may hold notes on what a branch (None for main) took in.

        A branch holds its own. Main has no ref: what it took in is noted on the branch that it took in, which may be
        any. Branches that follow a remote's note what they have in common with others.
        """
        if branch is None:
            return self._branches.all()
        return self._branches.some(lambda name: name == branch or tracking.may_follow(name))


def only_base(graph: Graph, ours: PinnedVersion, theirs: PinnedVersion) -> tracking.Node:
    """The common ancestor. Raises Refused if there is none, or more than one."""
    bases = graph.bases(ours, theirs)
    if len(bases) == 1:
        return bases[0]
    if not bases:
        raise nothing_in_common(graph, ours, theirs)
    listed = " and ".join(f"{graph.pin(node)}" for node in bases)
    raise Refused(
        f"{ours} and {theirs} took each other in at the same time: both {listed} are their last common version.",
        hint=f"Create a branch from {ours.branch or MAIN} and bring the changes over with cherry-pick.",
    )


def nothing_in_common(graph: Graph, ours: PinnedVersion, theirs: PinnedVersion) -> Refused:
    """The error for two versions that share nothing, or whose common version is no longer recorded."""
    said = f"{ours} and {theirs} have no common version."
    follower = next((pin.branch for pin in (theirs, ours) if graph.is_follower(pin.branch)), None)
    if follower is None:
        return Refused(
            said, hint=hints.of("Bring single versions over: ", hints.CHERRY_PICK, "; or write the rows again.")
        )
    return Refused(
        f"{said} If '{follower}' was deleted and fetched again, the versions it shared with your branches are unknown.",
        hint=hints.of(
            "Continue from there: ",
            hints.create_branch("NAME", follower),
            ", and bring your own versions over: ",
            hints.CHERRY_PICK,
            ".",
        ),
    )


def trace_of(graph: Graph, action: str, source: PinnedVersion) -> Trace:
    return Trace(action, source, graph.identity(source.branch))


def numbering_of_pick(
    graph: Graph, ours: PinnedVersion, base: PinnedVersion, common: Sequence[tracking.Node]
) -> PinnedVersion | None:
    """A version with rows of the base under their ids in ours: the base, or the one that both were forked from."""
    if graph.inherits(ours, graph.node(base)):
        return base
    if len(common) == 1 and graph.inherits(ours, common[0]) and graph.inherits(base, common[0]):
        return graph.pin(common[0])
    return None


# --- What versions did since a base

_ANEW = "Begin"
"""From this step on, a version of another dataset is copied. What led to that version is unknown."""
_TOLD_BESIDE = frozenset({"Project", UNKNOWN})
"""Operations of versions that exist, but whose effect on columns goes with the version before, or with a file."""


def brings_between(reader: versions.VersionCache, location: DatasetLocation, span: VersionSpan) -> bool:
    """Whether versions of a branch brought rows that other branches may have, also ones that were cleaned up since."""
    return steps_between(
        (reader, location), PinnedVersion(span.branch, span.until), PinnedVersion(None, 0), (span,)
    ).brings


def steps_between(
    there: tuple[versions.VersionCache, DatasetLocation],
    side: PinnedVersion,
    base: PinnedVersion,
    path: tuple[VersionSpan, ...] | None,
) -> Steps:
    """The versions that the base does not have. No path and a base in another chain: all of the side's own versions."""
    if path is None:
        first = base.version
        if base.branch != side.branch:
            first = min(versions.version_numbers(there[1], side.branch), default=0)
        path = (VersionSpan(side.branch, first, side.version),)
    found = [_Told(*there, span) for span in path]
    steps = tuple(step for told in found for step in told.steps)
    complete = not any(told.gone for told in found)
    lost = tuple(version for told in found for version in told.lost)
    recalled = _joined([told.on_columns for told in found])
    if any(step.unsure for step in steps):
        complete, recalled = False, None
    return Steps(side.branch, steps, complete, lost, recalled=recalled)


def _joined(several: Iterable[tuple[Step, ...] | None]) -> tuple[Step, ...] | None:
    found = [*several]
    return None if None in found else tuple(itertools.chain.from_iterable(steps or () for steps in found))


@dataclass(frozen=True)
class _Told:
    """What the versions of a span tell, and records beside them of those that are gone."""

    reader: versions.VersionCache
    location: DatasetLocation
    span: VersionSpan

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        return tuple(_steps_of(self.reader, self.location, self.span))

    @cached_property
    def gone(self) -> frozenset[int]:
        there = {step.version for step in self.steps}
        return frozenset(range(self.span.after + 1, self.span.until + 1)) - there

    @cached_property
    def _records(self) -> Records:
        return Records.of(self.location, self.span.branch)

    @property
    def lost(self) -> tuple[int, ...]:
        """The versions that are gone and brought rows that the other side may have."""
        return self._records.brought(self.gone) if self.gone else ()

    @property
    def on_columns(self) -> tuple[Step, ...] | None:
        """What each version did to columns; None if that is unknown of one that is gone."""
        silent = {step.version for step in self.steps if step.is_silent and step.operation in _TOLD_BESIDE}
        if not self.gone and not silent:
            return self.steps
        record = self._records.columns()
        told = record.of(self.gone.union(filter(record.covers, silent)), self.span.after, self.span.until)
        if told is None:
            return None
        known = [Step(each.last, UNKNOWN, computed=each.computed, renames=each.renames) for each in told]
        again = {step.version for step in known}
        known += (step for step in self.steps if step.version not in again)
        return tuple(sorted(known, key=lambda step: step.version))


def _steps_of(reader: versions.VersionCache, location: DatasetLocation, span: VersionSpan) -> Iterable[Step]:
    numbers = reader.versions(location, span.branch, span.after, span.until)
    for version, transaction in reader.transactions(location, span.branch, numbers).items():
        if transaction is None:
            yield Step(version, UNKNOWN, branch=span.branch)
            continue
        properties, trace = transaction.properties, format_versions.read_trace(transaction.properties)
        if trace is not None and trace.action == format_versions.BEGIN:
            yield Step(version, _ANEW, branch=span.branch, unsure=True)
            continue
        reordered = properties.get(format_versions.REORDERED) == "true"
        brings = trace is not None and trace.action in format_versions.BRINGING
        yield Step(
            version,
            transaction.operation,
            reordered or _told(properties, format_versions.MOVED),
            brings=transaction.operation == "Restore" or brings or properties.get(format_versions.BRINGS) == "true",
            adds_only=properties.get(format_versions.ADDS_ONLY) == "true",
            replaced=_told(properties, format_versions.REPLACES),
            rewrites=tuple(_rewrites(reader, location, PinnedVersion(span.branch, version), transaction)),
            reordered=reordered,
            fields=_fields(reader, location, PinnedVersion(span.branch, version), transaction),
            branch=span.branch,
            appended=transaction.appended,
            computed=format_versions.read_computed(properties),
            renames=renames(reader, location, PinnedVersion(span.branch, version), transaction),
            prepares=transaction.operation == "UpdateConfig" and format_versions.PREPARES in properties,
        )


def _fields(
    reader: versions.VersionCache, location: DatasetLocation, pin: PinnedVersion, transaction: Transaction
) -> frozenset[int] | None:
    if transaction.operation in KEEPS_COLUMNS or not reader.has(location, pin):
        return None
    return frozenset(entry.id for entry in reader.contents(location, pin).fields)


def _rewrites(
    reader: versions.VersionCache, location: DatasetLocation, pin: PinnedVersion, transaction: Transaction
) -> Iterator[row_ids.Rewrite]:
    """The compactions of a version: its own, and those it took over."""
    yield from row_ids.read_rewrites(transaction.properties)
    snapshot = None
    for group in transaction.rewritten:
        places = {}
        for fragment in (*group.before, *group.after):
            key, deletion = row_ids.deletion_key(fragment), fragment.deletion
            if key is None or deletion is None:
                continue
            if deletion.base_id is None:
                places[key] = format_versions.Deletions(location.branch_uri(pin.branch), deletion.path_for(fragment.id))
                continue
            snapshot = snapshot or reader.snapshot(location, pin)
            place = snapshot.deletions_of(fragment)
            if place is not None:
                places[key] = place
        yield row_ids.Rewrite(group.before, group.after, places)


def _told(properties: Mapping[str, str], key: str) -> bool | None:
    """What a commit of this package records about itself; None if it records nothing."""
    return None if key not in properties else properties[key] == "true"
