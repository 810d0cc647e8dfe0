"""Fetch: update the branches that follow a remote to what the remote has now. Metadata only; its files stay there.

In: a remote and the branches to fetch. Out: following branches like ``origin/main``, whose refs record the fetched
versions, and tags at the remote that protect the files read from here. An interrupted fetch is completed by the next.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256

from lance_spark import errors, hints
from lance_spark.core.location import DatasetLocation
from lance_spark.core.progress import WorkProgress
from lance_spark.core.records.tracking import (
    Edge,
    Follows,
    Node,
    VersionPair,
    following_name,
    merged_notes,
    read_follows,
    with_follows,
)
from lance_spark.core.ref_names import is_dataset_directory, missing
from lance_spark.core.refs import MAIN, ROOT, Branch, PinnedVersion, RefTable
from lance_spark.engine.local import Engine
from lance_spark.format.operations import VersionSpan, words_for
from lance_spark.format.transactions import UNKNOWN, Transaction
from lance_spark.format.versions import (
    ACTION,
    BEGIN,
    BRINGS,
    FETCH,
    PUSH,
    RECEIVE,
    RELOCATE,
    Snapshot,
    Trace,
    read_trace,
)
from lance_spark.merge import replay_commits
from lance_spark.merge.ancestry import Graph, brings_between
from lance_spark.merge.assembly_rules import InPlacePolicy
from lance_spark.merge.merge import Request, replay
from lance_spark.merge.replay_commits import copy_each
from lance_spark.refs.refs import create_branch_at
from lance_spark.remotes import fetch_rules
from lance_spark.remotes.protection import Protection
from lance_spark.remotes.protection import Remote as Remote
from lance_spark.remotes.report import Fetched, FetchResult, State
from lance_spark.storage import refs
from lance_spark.storage import versions as stored_versions
from lance_spark.storage.brought import recorded
from lance_spark.storage.datasets import open_latest, pin_latest, pin_version
from lance_spark.storage.files import each
from lance_spark.storage.mem_wal import told_of_waiting, waiting_rows
from lance_spark.storage.spelling import same_on_disk
from lance_spark.storage.versions import VersionCache


@dataclass(frozen=True)
class FetchOptions:
    branches: Sequence[str | None] | None = None
    """Branches of the remote, with None for main; None for all branches."""
    until: Mapping[str | None, int] = field(default_factory=dict)
    """The last version to fetch of a branch; other branches are fetched up to their newest version."""
    dry_run: bool = False
    deep: bool = False
    """Copy the files of all fetched versions."""
    allow_unrelated_histories: bool = False
    """Follow a dataset that took the place of the one that was fetched before."""


@dataclass(frozen=True)
class Seen:
    """What a push knows of the remote: the only branch that it changed, and the versions that it read."""

    chain: fetch_rules.RemoteChain
    reader: VersionCache


def fetch(
    local: DatasetLocation,
    remote: Remote,
    engine: Engine,
    options: FetchOptions | None = None,
    seen: Seen | None = None,
) -> FetchResult:
    """Fetch from a remote; with ``seen``, only what that has, without looking what else there is.

    A local branch follows each branch of the remote: ``origin/main`` follows main. The next fetch completes what an
    interrupted fetch left. Raises NotFound if the remote has no dataset, StorageFailure if the remote does not answer,
    and Refused if a following branch has a version that no fetch wrote, or if another dataset took the remote's place.
    """
    options = options or FetchOptions()
    if local.uri == remote.location.uri:
        raise errors.InvalidOption(f"{local.uri} cannot be a remote of itself.")
    return _Fetch(local, remote, engine, options, seen).run()


class _Fetch:
    """One run of a fetch, with what was read so far and what is known after each step."""

    def __init__(
        self, local: DatasetLocation, remote: Remote, engine: Engine, options: FetchOptions, seen: Seen | None
    ) -> None:
        self.local, self.remote, self.engine, self.options = local, remote, engine, options
        table = refs.read_refs(local)
        self.before = followed(table, remote.name)
        self.follows = dict(self.before)
        self.reader = VersionCache() if seen is None else seen.reader
        """The versions of the remote, each read once."""
        self.protection = Protection(local, remote, self.reader)
        self.chains: dict[str | None, fetch_rules.RemoteChain] = (
            look(local, remote.location, self.before, options.branches, self.reader)
            if seen is None
            else {seen.chain.branch: seen.chain}
        )
        self.reader.read_ahead(remote.location, self._looked_at())
        self.planted: dict[str | None, VersionPair] = {}
        self.states: dict[str | None, State] = {}

    def run(self) -> FetchResult:
        ordered = fetch_rules.in_order(self.chains)
        self._check_related()
        for number, chain in enumerate(ordered):
            self.engine.tell(WorkProgress("fetch branches", number, len(ordered)))
            self.states[chain.branch] = self._state(chain)
            if not self.options.dry_run:
                self._fetch(chain)
        notes: tuple[str, ...] = ()
        if not self.options.dry_run:
            self._note_meetings(ordered)
            notes = self._protected(ordered)
        return FetchResult(
            remote=self.remote.name,
            uri=self.remote.location.uri,
            branches=(*(self._fetched(chain) for chain in ordered), *self._gone()),
            notes=(*notes, *self._waiting(ordered)),
            dry_run=self.options.dry_run,
        )

    def _waiting(self, ordered: Sequence[fetch_rules.RemoteChain]) -> Iterator[str]:
        """What it says of rows that wait beside the remote's branches, of those that moved or were asked for."""
        for chain in ordered:
            moved = self.states[chain.branch] != "up to date"
            if moved or self.options.branches is not None:
                pin, where = PinnedVersion(chain.branch, chain.head), f"{self.remote.name}/{chain.branch or MAIN}"
                found = waiting_rows(self.remote.location, pin, self.reader if moved else None)
                if found:
                    yield f"{told_of_waiting(found, where)} That is for whoever writes there; they were not fetched."

    def _looked_at(self) -> Iterator[PinnedVersion]:
        """Versions whose commit time is needed: those fetched last, and the first ones of branches."""
        for chain in self.chains.values():
            known = self.before.get(chain.branch)
            if known is not None and known.newest is not None:
                if not _stands(chain, known):
                    yield PinnedVersion(chain.branch, known.newest.remote)
            elif chain.fork is not None and chain.fork.version in chain.versions:
                yield PinnedVersion(chain.branch, chain.fork.version)

    def _protected(self, ordered: Sequence[fetch_rules.RemoteChain]) -> tuple[str, ...]:
        """Protect what is read at the remote, also what a fetch left that died or was refused there; returns notes."""
        if self.options.deep:
            return ()  # files that were copied are not read there
        for pin in self._fetched_now(ordered):
            self.protection.add(pin)
        for chain in ordered:
            newest = self.follows[chain.branch].newest
            if newest is not None and newest.remote in chain.versions:
                self.protection.add(PinnedVersion(chain.branch, newest.remote), again=False)
        self.protection.prune(list(self.follows))
        return self.protection.notes

    def _fetched_now(self, ordered: Sequence[fetch_rules.RemoteChain]) -> list[PinnedVersion]:
        """Versions of the remote that this run fetched; their files may be read from now on."""
        pins = []
        for chain in ordered:
            known, now = self.before.get(chain.branch), self.follows[chain.branch]
            before = frozenset() if known is None else frozenset(known.pairs)
            there = frozenset(chain.versions) - {pair.remote for pair in before}
            pins += [PinnedVersion(chain.branch, pair.remote) for pair in now.pairs if pair.remote in there]
        return pins

    def _until(self, chain: fetch_rules.RemoteChain) -> int:
        return self.options.until.get(chain.branch, chain.head)

    def _state(self, chain: fetch_rules.RemoteChain) -> State:
        known = self.before.get(chain.branch)
        if known is None or known.newest is None:
            return "new"
        if not self._is_same(chain, known):
            return "begun again"
        return "updated" if known.newest.remote < self._until(chain) else "up to date"

    def _is_same(self, chain: fetch_rules.RemoteChain, known: Follows) -> bool:
        """Whether the version fetched last still exists and its branch was not replaced by a new one."""
        newest = known.newest
        if newest is None or known.identity != chain.identity or newest.remote > chain.head:
            return False
        if _stands(chain, known):
            return True
        try:
            head = self.reader.contents(self.remote.location, PinnedVersion(chain.branch, newest.remote)).head
        except errors.NotFound:
            return False
        return head.timestamp_ns == known.stamp

    def _check_related(self) -> None:
        """Raise Refused for another dataset in the remote's place: a pull would replace all rows by its rows.

        Main of another dataset lacks the version that was fetched last, and has no file of it in its oldest and newest
        versions. A cleanup of the remote can remove that version, too, but leaves files of it.
        """
        chain, known = self.chains.get(None), self.before.get(None)
        if chain is None or known is None or known.newest is None or self.options.allow_unrelated_histories:
            return
        if self._is_same(chain, known):
            return
        there = (PinnedVersion(None, version) for version in {chain.versions[0], chain.head})
        files = {path for pin in there for path in _files_of(self.reader.snapshot(self.remote.location, pin))}
        following = PinnedVersion(following_name(known.remote, None), known.newest.local)
        before = _files_of(stored_versions.read_snapshot(self.local, following))
        if files & before or (not before and known.newest.remote not in chain.versions):
            return
        raise errors.Refused(
            f"The dataset at {self.remote.location.uri} is not the one that was fetched before: their histories are "
            "unrelated. Nothing was fetched.",
            hint=hints.of(
                "If it took its place on purpose: ",
                hints.fetch_unrelated(self.remote.name),
                ". Otherwise put the former dataset back, or add this one as another remote.",
            ),
        )

    def _fetch(self, chain: fetch_rules.RemoteChain) -> None:
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
        for version in fetch_rules.stops(chain, seen, self._until(chain), self.chains.values()):
            self.follows[chain.branch] = self._advance(chain, self.follows[chain.branch], version)

    def _create(self, chain: fetch_rules.RemoteChain) -> Follows:
        """Create the following branch where the remote's branch forked, if that was fetched; else start over."""
        name = following_name(self.remote.name, chain.branch)
        follows = Follows(self.remote.name, self.remote.location.uri, chain.branch, chain.identity)
        begun = check_free(self.local, name)
        self._check_spelling(name)
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

    def _check_spelling(self, name: str) -> None:
        """Raise Refused if another following branch differs only in case, where the disk cannot hold both."""
        there = refs.taken_in_other_case(self.local, name)
        if there is None:
            return
        if self.options.branches is None:
            one = hints.fetch(self.remote.name, MAIN)
            words = ("Fetch the branches that you need by their names, such as ", one, "; clone with ")
            hint = hints.of(*words, hints.SINGLE_BRANCH, ".")
        elif refs.read_branch(self.local, there) is not None:
            deleted = hints.delete_branch(there)
            hint = hints.of("If you do not need that: ", deleted, ". Or follow the remote on another disk.")
        else:
            hint = hints.of("Follow the remote on another disk, or let one of the branches have another name there.")
        raise same_on_disk("branch", name, there, hint)

    def _fork_pair(self, parent: Follows, fork: PinnedVersion) -> VersionPair | None:
        """The pair of the version that a branch was created from, if that version was fetched and still exists."""
        there = stored_versions.version_numbers(self.local, following_name(parent.remote, parent.branch))
        return next((pair for pair in parent.pairs if pair.remote == fork.version and pair.local in there), None)

    def _first(self, chain: fetch_rules.RemoteChain) -> int:
        """The first version of a new following branch: the oldest one, which its parent also has."""
        if chain.fork is None:
            return self._until(chain)
        return next(version for version in chain.versions if version >= min(chain.fork.version, chain.head))

    def _plant(self, chain: fetch_rules.RemoteChain, follows: Follows, version: int) -> Follows:
        name = following_name(follows.remote, follows.branch)
        pin = self._read_from_now_on(pin_version(self.remote.location, chain.branch, version))
        begin = Trace(BEGIN, pin, chain.identity).properties(f"Begin {name} again")
        replay_commits.truncate(self.local, name, self.remote.location, pin, begin)
        theirs = self.reader.snapshot(self.remote.location, pin)
        replay_commits.equal_settings(self.local, name, theirs, begin)
        after = 0 if follows.newest is None else follows.newest.remote
        message = fetch_rules.message_of(chain, after, version, self.remote.name)
        trace = Trace(FETCH, pin, chain.identity).properties(message)
        copy = partial(copy_each, "clone", engine=self.engine) if self.options.deep else None
        span = VersionSpan(chain.branch, after, version)
        brings = bool(after) and brings_between(self.reader, self.remote.location, span)
        trace |= {BRINGS: "true"} if brings else {}
        fill = partial(replay_commits.populate, self.local, name, self.remote.location, theirs, trace, copy)
        filled = recorded(self.local, pin_latest(self.local, name), FETCH, fill) if brings else fill()
        pair = VersionPair(filled, version)
        self.planted[chain.branch] = pair
        return self._pair(follows, pair)

    def _read_from_now_on(self, pin: PinnedVersion) -> PinnedVersion:
        if not self.options.deep:
            self.protection.add(pin)
        return pin

    def _advance(self, chain: fetch_rules.RemoteChain, follows: Follows, version: int) -> Follows:
        name, newest = following_name(follows.remote, follows.branch), follows.newest
        if newest is None:
            return self._plant(chain, follows, version)
        there = self.remote.location
        before = PinnedVersion(chain.branch, newest.remote)
        stamp = self.reader.contents(there, PinnedVersion(chain.branch, version)).head.timestamp_ns
        after = self._read_from_now_on(PinnedVersion(chain.branch, version, stamp))

        def make() -> Request:
            replay_commits.add_referred(self.local, name, self.reader.snapshot(there, after))
            ours = pin_latest(self.local, name)
            if interrupted(self.local, follows, chain) != (None, False):
                raise errors.Conflict(f"Another fetch brought '{name}' on at the same time.", hint="Run it again.")
            return Request(
                location=self.local,
                ours=ours,
                theirs=after,
                base_ours=ours,
                base_theirs=before,
                trace=self._trace(chain, after),
                message=fetch_rules.message_of(chain, newest.remote, version, self.remote.name),
                reference=InPlacePolicy(everything=not self.options.deep),
                our_path=(),
                numbering=before,
                remote=there,
                with_indexes=False,
                reader=self.reader,
                one_version=True,
            )

        try:
            result = replay(make, self.engine)
        except errors.NotCommittable:
            # pylance cannot commit some combinations of changes at once. One version after the other keeps what later
            # merges have to know; only where that fails too, the whole version is written instead.
            between = [at for at in chain.versions if newest.remote < at < version]
            if not between:
                return self._plant(chain, follows, version)
            for at in (*between, version):
                follows = self._advance(chain, follows, at)
            return follows
        pair = VersionPair(result.version or pin_latest(self.local, name).version, version)
        return self._pair(self._equal(chain, follows, newest, pair), pair)

    def _equal(
        self, chain: fetch_rules.RemoteChain, follows: Follows, before: VersionPair | None, pair: VersionPair
    ) -> Follows:
        """Record a version that this dataset pushed: right after the one fetched before, it adds only the push."""
        pushed = next((received.source for received in chain.received if received.at == pair.remote), None)
        if pushed is None or before is None or pair.remote != before.remote + 1:
            return follows
        graph = Graph(self.local)
        into = graph.origin(pushed)
        return follows.with_edges([Edge(into.chain, into.version, node_of(graph, follows, pair))])

    def _trace(self, chain: fetch_rules.RemoteChain, pin: PinnedVersion) -> Trace:
        """The trace of the next version; if this dataset pushed it, the trace takes in the pushed version."""
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

    def _note_meetings(self, ordered: Sequence[fetch_rules.RemoteChain]) -> None:
        """Record which following branches contain which others."""
        met = list(fetch_rules.meetings(ordered, self.follows, self.planted))
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

    def _fetched(self, chain: fetch_rules.RemoteChain) -> Fetched:
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


def _files_of(snapshot: Snapshot) -> frozenset[str]:
    return frozenset(file.path for fragment in snapshot.contents.fragments() for file in fragment.files)


def _stands(chain: fetch_rules.RemoteChain, known: Follows) -> bool:
    """Whether a branch is where it was at the last fetch, as its ref and the listing of its versions show.

    A branch that is created again has another identity. Main has none: the commit time of its version tells.
    """
    newest = known.newest
    is_same = bool(chain.identity) and chain.identity == known.identity
    return is_same and newest is not None and newest.remote == chain.head


def check_free(local: DatasetLocation, name: str) -> Branch | None:
    """The branch that an interrupted fetch created and did not fill, if there is one.

    The fetch uses that branch instead of creating it again: pylance does not delete a directory that holds another
    branch. Raises Refused for one of the user's own branches.
    """
    branch = refs.read_branch(local, name)
    if branch is None:
        return None
    if (
        read_follows(branch) is None
        and max(stored_versions.version_numbers(local, name), default=0) > branch.parent_version
    ):
        raise errors.Refused(
            f"The branch '{name}' is your own, but a fetch needs that name to follow the remote.",
            hint=hints.of("Rename it (", hints.rename_branch(name), "), or give the remote another name."),
        )
    return branch


# --- Reading a remote, as far as a fetch needs it


@dataclass(frozen=True)
class RemoteHistory:
    """The branches of a remote, and a cache of their versions."""

    location: DatasetLocation
    table: RefTable
    reader: VersionCache


def look(
    local: DatasetLocation,
    remote: DatasetLocation,
    follows: Mapping[str | None, Follows],
    chosen: Collection[str | None] | None = None,
    reader: VersionCache | None = None,
) -> dict[str | None, fetch_rules.RemoteChain]:
    """The remote's branches, or some of them with their ancestors. Raises NotFound, StorageFailure.

    Leaves out branches that follow another dataset or cannot be followed from here.
    """
    reader = reader or VersionCache()
    table = refs.read_branches(remote)
    own = {
        name: branch
        for name, branch in table.branches.items()
        if read_follows(branch) is None and _can_be_followed(name)
    }
    forks = {name: _fork(table, own, branch) for name, branch in own.items()}
    names: set[str | None] = {None, *own}
    if chosen is not None:
        for name in chosen:
            if name not in names:
                open_latest(remote)  # a missing dataset is the better error
                raise missing("branch", name or MAIN, [MAIN, *own])
        names = fetch_rules.with_parents(chosen, {name: fork for name, fork in forks.items() if fork is not None})
    versions = dict(zip(names, each(remote, partial(stored_versions.version_numbers, remote), names), strict=True))
    chains = {}
    for name in names:
        if not versions[name]:
            if name is None:
                raise errors.NotFound(
                    f"There is no Lance dataset at {remote.uri}.",
                    hint=hints.of("Check the place of the remote; if it was moved: ", hints.set_url("NAME"), "."),
                )
            raise errors.CorruptData(f"Branch '{name}' of {remote.uri} has no versions.")
        chain = fetch_rules.RemoteChain(
            branch=name,
            identity="" if name is None else own[name].identity,
            versions=tuple(versions[name]),
            fork=None if name is None else forks[name],
        )
        there = RemoteHistory(remote, table, reader)
        chains[name] = with_history(local, there, chain, follows.get(name))
    return chains


def _fork(table: RefTable, own: Collection[str], branch: Branch) -> PinnedVersion | None:
    """The version of a followed branch that a branch descends from; its own parent may not be followed."""
    fork = branch.fork
    while fork is not None and fork.branch is not None and fork.branch not in own:
        between = table.branches.get(fork.branch)
        before = None if between is None else between.fork
        fork = None if before is None else PinnedVersion(before.branch, min(fork.version, before.version))
    return fork


def _can_be_followed(name: str) -> bool:
    """Whether a branch ``origin/<name>`` can exist: not if it would be among the files of another branch."""
    return not is_dataset_directory(name.partition("/")[0])


def with_history(
    local: DatasetLocation, there: RemoteHistory, chain: fetch_rules.RemoteChain, follows: Follows | None
) -> fetch_rules.RemoteChain:
    """The branch with its merges and the pushes from here, among the versions that were not fetched yet."""
    newest = None if follows is None else follows.newest
    if newest is not None:
        after = newest.remote
    elif chain.fork is not None:
        after = chain.fork.version
    else:
        return chain  # begins with the newest version; older ones are not fetched
    versions = [version for version in chain.versions if version > after]
    branches = there.table.branches.values()
    names = {branch.identity: branch.name for branch in branches}
    taken, received = {}, []
    transactions = there.reader.transactions(there.location, chain.branch, versions)
    operations = {version: "" if made is None else made.operation for version, made in transactions.items()}
    told = {}
    for version, transaction in transactions.items():
        told[version] = _words(version, transaction)
        trace = None if transaction is None else read_trace(transaction.properties)
        if trace is None:
            continue
        if trace.takes_in and (not trace.source_id or trace.source_id in names):
            taken[version] = trace.source
        if trace.action == RECEIVE and is_own_push(local, trace):
            received.append(fetch_rules.Received(version, trace.source))
    for note in merged_notes(branches):
        if note.into == chain.identity and (not note.source.chain or note.source.chain in names):
            source = PinnedVersion(names.get(note.source.chain), note.source.version)
            taken.setdefault(note.at, source)
    return replace(
        chain,
        taken=tuple(fetch_rules.RemoteMerge(at, source) for at, source in sorted(taken.items())),
        received=tuple(received),
        reshaped=fetch_rules.reshaping(operations),
        told=told,
    )


def _words(version: int, transaction: Transaction | None) -> str:
    """What made a version, as in a log, and the first line of its message."""
    if transaction is None:
        return words_for(version, UNKNOWN, None)
    action = transaction.properties.get(ACTION)
    said = words_for(version, transaction.operation, PUSH if action == RECEIVE else action)
    message = (transaction.message or "").strip().partition("\n")[0]
    return f"{said}: {message}" if message else said


# --- Following branches: their records, and interrupted fetches

_QUIET = frozenset({"Clone", "CreateIndex", "ReserveFragments", "UpdateBases", "UpdateConfig"})


def followed(table: RefTable, remote: str) -> dict[str | None, Follows]:
    """What is recorded about the branches that follow a remote, by the remote's branch."""
    known = (read_follows(branch) for branch in table.branches.values())
    return {follows.branch: follows for follows in known if follows is not None and follows.remote == remote}


def write_down(local: DatasetLocation, follows: Follows, more: Mapping[str, str] | None = None) -> None:
    """Replace the record in the ref of the following branch. Keeps what another fetch wrote there meanwhile."""
    name = following_name(follows.remote, follows.branch)
    branch = refs.read_branch(local, name)
    metadata = {} if branch is None else branch.metadata
    known = None if branch is None else read_follows(branch)
    if known is not None and known.pairs[:1] == follows.pairs[:1]:
        follows = replace(follows, edges=known.edges).with_edges(follows.edges)
    refs.replace_metadata(local, name, with_follows({**metadata, **(more or {})}, follows))


def node_of(graph: Graph, follows: Follows, pair: VersionPair) -> Node:
    return graph.origin(PinnedVersion(following_name(follows.remote, follows.branch), pair.local))


def pusher(local: DatasetLocation, stamp: int | None) -> str:
    """Identifies a dataset, and a version of it by its commit time."""
    return f"{sha256(local.uri.encode()).hexdigest()[:16]}-{stamp}"


def is_own_push(local: DatasetLocation, trace: Trace) -> bool:
    """Whether a version was pushed from this dataset, which still has the pushed version."""
    if not trace.pusher.startswith(pusher(local, None).partition("-")[0]):
        return False
    try:
        head = stored_versions.read_contents(local, trace.source).head
    except errors.NotFound:
        return False
    branch = None if trace.source.branch is None else refs.read_branch(local, trace.source.branch)
    identity = "" if branch is None else branch.identity
    return trace.pusher == pusher(local, head.timestamp_ns) and identity == trace.source_id


def interrupted(
    local: DatasetLocation, follows: Follows, chain: fetch_rules.RemoteChain
) -> tuple[VersionPair | None, bool]:
    """What an interrupted fetch left: (a pair that was not recorded, whether to start the branch over).

    Raises Refused if something else wrote to the branch: the branch would no longer be what the remote has.
    """
    name = following_name(follows.remote, follows.branch)
    after = 0 if follows.newest is None else follows.newest.local
    versions = [version for version in stored_versions.version_numbers(local, name) if version > after]
    last: tuple[int, Trace] | None = None
    for version, transaction in stored_versions.read_transactions(local, name, versions).items():
        if transaction is not None and transaction.operation in _QUIET:
            continue
        trace = None if transaction is None else read_trace(transaction.properties)
        if trace is not None and trace.action == RELOCATE:
            continue  # the same rows, read from another place
        if trace is None or trace.action not in (BEGIN, FETCH, PUSH):
            raise errors.Refused(
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


def _fetched_version(trace: Trace, chain: fetch_rules.RemoteChain) -> int | None:
    """The remote's version that was fetched; None if the fetch did not finish or the version is no longer known."""
    if trace.action == FETCH:
        return trace.source.version
    if trace.action == PUSH:  # its source is the pushed version
        return next((received.at for received in chain.received if received.source == trace.source), None)
    return None
