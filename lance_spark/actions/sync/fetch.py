"""Fetch: bring the branches that follow a remote to what the remote has now. Metadata only; its files stay there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from lance_spark import hints
from lance_spark.actions.branches import create_branch_at
from lance_spark.actions.merge.ancestry import Graph
from lance_spark.actions.merge.copying import copy_each
from lance_spark.actions.merge.execute import replay
from lance_spark.actions.merge.request import Request
from lance_spark.actions.sync.inspect_remote import look
from lance_spark.actions.sync.protection_tags import protect
from lance_spark.actions.sync.result import Fetched, FetchResult, State
from lance_spark.actions.sync.tracking_branches import Remote, followed, interrupted, node_of, write_down
from lance_spark.errors import Conflict, InvalidOption, NotCommittable, NotFound, Refused
from lance_spark.location import DatasetLocation
from lance_spark.merge.placement import InPlacePolicy
from lance_spark.merge.trace import BEGIN, FETCH, PUSH, Trace
from lance_spark.refs.model import ROOT, Branch, PinnedVersion
from lance_spark.refs.names import MAIN
from lance_spark.runner.interface import Engine
from lance_spark.show.progress import WorkProgress
from lance_spark.store import materialize, refs, version_listing
from lance_spark.store.datasets import pin_latest, pin_version
from lance_spark.store.version_cache import VersionCache
from lance_spark.sync.fetch_steps import RemoteChain, in_order, meetings, message_of, stops
from lance_spark.sync.tracking import Edge, Follows, VersionPair, following_name, read_follows


@dataclass(frozen=True)
class FetchOptions:
    """What to fetch."""

    branches: Sequence[str | None] | None = None
    """Branches of the remote, with None for main; None for all branches."""
    until: Mapping[str | None, int] = field(default_factory=dict)
    """The last version to fetch of a branch; branches that are not named are fetched up to their newest version."""
    dry_run: bool = False
    deep: bool = False
    """Copy the files, too."""


def fetch(local: DatasetLocation, remote: Remote, engine: Engine, options: FetchOptions | None = None) -> FetchResult:
    """Fetch from a remote.

    A local branch follows each branch of the remote: ``origin/main`` follows main. The next fetch finishes what a
    killed fetch left. Raises NotFound without a dataset at the remote, StorageFailure if the remote does not answer,
    and Refused if a following branch has a version that no fetch wrote.
    """
    options = options or FetchOptions()
    if local.uri == remote.location.uri:
        raise InvalidOption(f"{local.uri} cannot be a remote of itself.")
    return _Fetch(local, remote, engine, options).run()


class _Fetch:
    """One run of a fetch, with what was read so far and what is known after each step."""

    def __init__(self, local: DatasetLocation, remote: Remote, engine: Engine, options: FetchOptions) -> None:
        self.local, self.remote, self.engine, self.options = local, remote, engine, options
        table = refs.read_refs(local)
        self.before = followed(table, remote.name)
        self.follows = dict(self.before)
        self.reader = VersionCache()
        """The versions of the remote, each read once."""
        self.chains = look(local, remote.location, self.before, options.branches, self.reader)
        self.reader.read_ahead(remote.location, self._looked_at())
        self.planted: dict[str | None, VersionPair] = {}
        self.states: dict[str | None, State] = {}

    def run(self) -> FetchResult:
        ordered = in_order(self.chains)
        for number, chain in enumerate(ordered):
            self.engine.tell(WorkProgress("fetch branches", number, len(ordered)))
            self.states[chain.branch] = self._state(chain)
            if not self.options.dry_run:
                self._fetch(chain)
        notes: tuple[str, ...] = ()
        if not self.options.dry_run:
            self._note_meetings(ordered)
            # Files that were copied are not read at the remote.
            read_there = [] if self.options.deep else self._fetched_now(ordered)
            notes = protect(self.local, self.remote, read_there, self.reader)
        return FetchResult(
            remote=self.remote.name,
            uri=self.remote.location.uri,
            branches=(*(self._fetched(chain) for chain in ordered), *self._gone()),
            notes=notes,
            dry_run=self.options.dry_run,
        )

    def _looked_at(self) -> Iterator[PinnedVersion]:
        """Versions whose commit time is needed: those fetched last, and those that branches begin with."""
        for chain in self.chains.values():
            known = self.before.get(chain.branch)
            if known is not None and known.newest is not None:
                yield PinnedVersion(chain.branch, known.newest.remote)
            elif chain.fork is not None and chain.fork.version in chain.versions:
                yield PinnedVersion(chain.branch, chain.fork.version)

    def _fetched_now(self, ordered: Sequence[RemoteChain]) -> list[PinnedVersion]:
        """Versions of the remote that this run fetched; files of any of them may be read from now on."""
        pins = []
        for chain in ordered:
            known, now = self.before.get(chain.branch), self.follows[chain.branch]
            before = frozenset() if known is None else frozenset(known.pairs)
            there = frozenset(chain.versions) - {pair.remote for pair in before}
            pins += [PinnedVersion(chain.branch, pair.remote) for pair in now.pairs if pair.remote in there]
        return pins

    def _until(self, chain: RemoteChain) -> int:
        return self.options.until.get(chain.branch, chain.head)

    def _state(self, chain: RemoteChain) -> State:
        known = self.before.get(chain.branch)
        if known is None or known.newest is None:
            return "new"
        if not self._is_same(chain, known):
            return "begun again"
        return "updated" if known.newest.remote < self._until(chain) else "up to date"

    def _is_same(self, chain: RemoteChain, known: Follows) -> bool:
        """Whether the version fetched last is still there, and its branch was not replaced by a new one."""
        newest = known.newest
        if newest is None or known.identity != chain.identity or newest.remote > chain.head:
            return False
        try:
            head = self.reader.contents(self.remote.location, PinnedVersion(chain.branch, newest.remote)).head
        except NotFound:
            return False
        return head.timestamp_ns == known.stamp

    def _fetch(self, chain: RemoteChain) -> None:
        known = self.follows.get(chain.branch)
        if known is None:
            known = self._create(chain)
        elif self.states[chain.branch] != "begun again":
            pair, again = interrupted(self.local, known, chain)
            if pair is not None:
                known = self._pair(self._equal(chain, known, known.newest, pair), pair)
            if again:
                known = self._plant(chain, known, self._first(chain))
        else:
            begun = Follows(known.remote, self.remote.location.uri, known.branch, chain.identity)
            known = self._plant(chain, begun, self._until(chain))
        self.follows[chain.branch] = known
        seen = 0 if known.newest is None else known.newest.remote
        for version in stops(chain, seen, self._until(chain), self.chains.values()):
            self.follows[chain.branch] = self._advance(chain, self.follows[chain.branch], version)

    def _create(self, chain: RemoteChain) -> Follows:
        """Create the following branch where the remote's branch forked, if that was fetched; else begin again."""
        name = following_name(self.remote.name, chain.branch)
        follows = Follows(self.remote.name, self.remote.location.uri, chain.branch, chain.identity)
        begun = check_free(self.local, name)
        parent = None if chain.fork is None else self.follows.get(chain.fork.branch)
        if chain.fork is not None and parent is not None:
            pair = self._fork_pair(parent, chain.fork)
            fork = None if pair is None else PinnedVersion(following_name(parent.remote, parent.branch), pair.local)
            if pair is not None and fork is not None and (begun is None or begun.fork == fork):
                if begun is None:
                    create_branch_at(self.local, name, fork)
                # The next fetch looks at the branch's own copy of that version, which has another commit time.
                copied = pair.remote in chain.versions
                return self._pair(follows, pair, None if copied else PinnedVersion(chain.fork.branch, pair.remote))
        if begun is None:
            create_branch_at(self.local, name, pin_latest(self.local, None))
        write_down(self.local, follows, {ROOT: "true"})
        return self._plant(chain, follows, self._first(chain))

    def _fork_pair(self, parent: Follows, fork: PinnedVersion) -> VersionPair | None:
        """The pair of the version that a branch was created from, if that version was fetched and is still there."""
        there = version_listing.version_numbers(self.local, following_name(parent.remote, parent.branch))
        return next((pair for pair in parent.pairs if pair.remote == fork.version and pair.local in there), None)

    def _first(self, chain: RemoteChain) -> int:
        """The version that a new following branch begins with: the oldest one, which its parent has as well."""
        if chain.fork is None:
            return self._until(chain)
        return next(version for version in chain.versions if version >= min(chain.fork.version, chain.head))

    def _plant(self, chain: RemoteChain, follows: Follows, version: int) -> Follows:
        name = following_name(follows.remote, follows.branch)
        pin = pin_version(self.remote.location, chain.branch, version)
        begin = Trace(BEGIN, pin, chain.identity).properties(f"Begin {name} again")
        materialize.truncate(self.local, name, self.remote.location, pin, begin)
        after = 0 if follows.newest is None else follows.newest.remote
        message = message_of(chain, after, version, self.remote.name)
        trace = Trace(FETCH, pin, chain.identity).properties(message)
        theirs = self.reader.snapshot(self.remote.location, pin)
        copy = partial(copy_each, "clone", engine=self.engine) if self.options.deep else None
        filled = materialize.populate(self.local, name, self.remote.location, theirs, trace, copy)
        pair = VersionPair(filled, version)
        self.planted[chain.branch] = pair
        return self._pair(follows, pair)

    def _advance(self, chain: RemoteChain, follows: Follows, version: int) -> Follows:
        name, newest = following_name(follows.remote, follows.branch), follows.newest
        if newest is None:
            return self._plant(chain, follows, version)
        there = self.remote.location
        before, after = PinnedVersion(chain.branch, newest.remote), pin_version(there, chain.branch, version)

        def make() -> Request:
            ours = pin_latest(self.local, name)
            if interrupted(self.local, follows, chain) != (None, False):
                raise Conflict(f"Another fetch brought '{name}' on at the same time.", hint="Run it again.")
            return Request(
                location=self.local,
                ours=ours,
                theirs=after,
                base_ours=ours,
                base_theirs=before,
                trace=self._trace(chain, after),
                message=message_of(chain, newest.remote, version, self.remote.name),
                reference=InPlacePolicy(everything=not self.options.deep),
                our_path=(),
                numbering=before,
                remote=there,
                with_indexes=False,
                reader=self.reader,
            )

        try:
            result = replay(make, self.engine)
        except NotCommittable:
            # Some combinations of changes pylance cannot commit at once; then the whole version is written down.
            return self._plant(chain, follows, version)
        pair = VersionPair(result.version or pin_latest(self.local, name).version, version)
        return self._pair(self._equal(chain, follows, newest, pair), pair)

    def _equal(self, chain: RemoteChain, follows: Follows, before: VersionPair | None, pair: VersionPair) -> Follows:
        """A version that this dataset pushed, right after the one fetched before, has only what was pushed."""
        pushed = next((received.source for received in chain.received if received.at == pair.remote), None)
        if pushed is None or before is None or pair.remote != before.remote + 1:
            return follows
        graph = Graph(self.local)
        into = graph.origin(pushed)
        return follows.with_edges([Edge(into.chain, into.version, node_of(graph, follows, pair))])

    def _trace(self, chain: RemoteChain, pin: PinnedVersion) -> Trace:
        """The trace of the next version; one that this dataset pushed takes in the version that it was pushed from."""
        pushed = next((received.source for received in chain.received if received.at == pin.version), None)
        if pushed is None:
            return Trace(FETCH, pin, chain.identity)
        return Trace(PUSH, pushed, Graph(self.local).identity(pushed.branch))

    def _pair(self, follows: Follows, pair: VersionPair, pin: PinnedVersion | None = None) -> Follows:
        there = pin or PinnedVersion(follows.branch, pair.remote)
        stamp = self.reader.contents(self.remote.location, there).head.timestamp_ns
        changed = follows.with_pair(pair, stamp)
        write_down(self.local, changed)
        return changed

    def _note_meetings(self, ordered: Sequence[RemoteChain]) -> None:
        """Write down which following branches contain which others."""
        met = list(meetings(ordered, self.follows, self.planted))
        if not met:
            return
        graph = Graph(self.local)
        for branch in dict.fromkeys(meeting.branch for meeting in met):
            edges = []
            for meeting in met:
                if meeting.branch == branch:
                    into = node_of(graph, self.follows[branch], meeting.pair)
                    source = node_of(graph, self.follows[meeting.source_branch], meeting.source)
                    edges.append(Edge(into.chain, into.version, source))
            changed = self.follows[branch].with_edges(edges)
            if changed != self.follows[branch]:
                self.follows[branch] = changed
                write_down(self.local, changed)

    def _fetched(self, chain: RemoteChain) -> Fetched:
        known = self.before.get(chain.branch)
        before = None if known is None or known.newest is None else known.newest.remote
        after = None if self.options.dry_run else self.follows[chain.branch].newest
        return Fetched(
            branch=chain.branch or MAIN,
            into=following_name(self.remote.name, chain.branch),
            state=self.states[chain.branch],
            before=before,
            after=self._until(chain) if after is None else after.remote,
            version=None if after is None else after.local,
        )

    def _gone(self) -> list[Fetched]:
        """Branches that the remote no longer has. Their following branches stay, as they may still be needed."""
        if self.options.branches is not None:
            return []
        return [
            Fetched(branch or MAIN, following_name(self.remote.name, branch), "gone")
            for branch in self.before
            if branch not in self.chains
        ]


def check_free(local: DatasetLocation, name: str) -> Branch | None:
    """The branch that a killed fetch created and did not fill, if there is one.

    The fetch uses that branch instead of creating it again: pylance does not delete a directory that holds another
    branch. Raises Refused for a branch of the user's own.
    """
    branch = refs.read_branch(local, name)
    if branch is None:
        return None
    if (
        read_follows(branch) is None
        and max(version_listing.version_numbers(local, name), default=0) > branch.parent_version
    ):
        raise Refused(
            f"The branch '{name}' is one of your own, and would have to follow the remote.",
            hint=hints.of("Rename it (", hints.rename_branch(name), "), or give the remote another name."),
        )
    return branch
