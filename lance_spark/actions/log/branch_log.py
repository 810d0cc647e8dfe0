"""The versions of one branch as entries of a log, each read when it is needed."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import takewhile

from lance_spark.errors import NotFound
from lance_spark.history.entries import LogEntry
from lance_spark.history.fragments import Stat, match, stat, stat_of_all
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Contents, decode_contents
from lance_spark.manifest.decode import decode_head
from lance_spark.manifest.transactions import UNKNOWN
from lance_spark.merge.trace import ACTION, REORDERED, SOURCE, read_trace
from lance_spark.refs.model import Branch, PinnedVersion, RefTable
from lance_spark.refs.names import MAIN
from lance_spark.refs.resolve import missing
from lance_spark.show.moments import moment_at
from lance_spark.store.parallel import THREADS
from lance_spark.store.scanning import count_rows
from lance_spark.store.version_reader import read_manifest, transaction_of
from lance_spark.store.version_walk import BranchVersions, StoredVersion, read_versions

_MOVES_ROWS = "Rewrite"
_STARTS = "Clone"


class LogContext:
    """What all chains of one log have in common: refs, and the newest versions that were looked up."""

    def __init__(self, location: DatasetLocation, refs: RefTable, count: int | None, stat: bool) -> None:
        self.location = location
        self.refs = refs
        # To compare the last one with what came before it, one manifest more is needed than is shown.
        self.unread = sys.maxsize if count is None else count + stat
        """How many versions are still to be read, at most."""
        self.stat = stat
        self._manifests: dict[str | None, BranchVersions] = {}
        self._walks_all = False
        self._tags: dict[PinnedVersion, list[str]] = defaultdict(list)
        self._forks: dict[PinnedVersion, list[str]] = defaultdict(list)
        for tag in refs.tags.values():
            self._tags[self.shown(PinnedVersion(tag.branch, tag.version))].append(tag.name)
        for branch in refs.branches.values():
            if branch.fork is not None:
                self._forks[self.shown(branch.fork)].append(branch.name)

    def manifests(self, branch: str | None) -> BranchVersions:
        """The versions of a branch, as they were when they were first listed."""
        return self._manifests.setdefault(branch, BranchVersions(self.location, branch))

    def newest(self, branch: str | None) -> int | None:
        """Number of the newest version of a branch; None where it has none."""
        return self.manifests(branch).newest

    def newest_of_all(self) -> dict[str | None, int | None]:
        """Of main and every branch."""
        self._walks_all = True
        branches = (None, *self.refs.branches)
        if self.location.is_local:
            return {branch: self.newest(branch) for branch in branches}
        with ThreadPoolExecutor(THREADS) as pool:
            return dict(zip(branches, pool.map(self._look, branches), strict=True))

    def _look(self, branch: str | None) -> int | None:
        fork, newest = self.fork(branch), self.newest(branch)
        if newest is not None and (fork is None or newest > fork.version):
            self.manifests(branch).read_newest()
        return newest

    def ahead(self) -> Iterator[int]:
        """How many versions of a chain may be read at once. Of very many chains, most have one version to show."""
        if self._walks_all:
            yield 1
        while True:
            yield self.unread

    def tip(self, branch: str | None) -> PinnedVersion:
        """The newest version of a branch. Raises NotFound without such a branch, or without versions."""
        newest = self.newest(branch)
        if branch is not None and branch not in self.refs.branches:
            raise missing("branch", branch, [MAIN, *self.refs.branches])
        if newest is None:
            raise NotFound(
                f"Branch '{branch or MAIN}' of {self.location.uri} has no versions.",
                hint="Check the name of the branch and the path of the dataset.",
            )
        return PinnedVersion(branch, newest)

    def fork(self, branch: str | None) -> PinnedVersion | None:
        """The version a branch was created from; None for main, and for a branch without a ref."""
        entry: Branch | None = self.refs.branches.get(branch) if branch is not None else None
        return None if entry is None else entry.fork

    def shown(self, pin: PinnedVersion) -> PinnedVersion:
        """The version a log shows for one: the first of a branch is a copy of the one it was created from."""
        while (fork := self.fork(pin.branch)) is not None and fork.version == pin.version:
            pin = fork
        return pin

    def tags(self, pin: PinnedVersion) -> tuple[str, ...]:
        """Tags at a version, by name."""
        return tuple(sorted(self._tags.get(self.shown(pin), ())))

    def forks(self, pin: PinnedVersion) -> tuple[str, ...]:
        """Branches that were created from a version, by name."""
        return tuple(sorted(self._forks.get(self.shown(pin), ())))

    def heads(self, pin: PinnedVersion) -> tuple[str, ...]:
        """Branches whose newest version it is: its own, and those of its forks that are known to be without one."""
        names = [pin.branch or MAIN] if self.newest(pin.branch) == pin.version else []
        names += [name for name in self.forks(pin) if name in self._manifests and self.newest(name) == pin.version]
        return tuple(names)


class BranchLog:
    """The versions of one branch as entries, newest first, down to its fork."""

    def __init__(self, context: LogContext, branch: str | None, newest: int, own_only: bool = True) -> None:
        self.branch = branch
        self.fork = context.fork(branch)
        self.previous: Contents | None = None
        """The version before the entry that was handed out last; only with a stat."""
        self.context = context
        self._newest = newest
        self._own_only = own_only
        self._rows = _RowCounter()
        self._last: tuple[StoredVersion, Contents] | None = None

    def __iter__(self) -> Iterator[LogCursor]:
        manifests = self.context.manifests(self.branch)
        paths = manifests.paths(self._newest)
        if not self.context.stat:
            paths = takewhile(lambda read: self._is_shown(read[0]), paths)
        versions = read_versions(manifests, paths, self.context.ahead())
        here = next(versions, None)
        # The last one that is shown is compared with the one before it, which may not be shown.
        while here is not None and self._is_shown(here.version):
            turn = LogCursor(self, here, versions)
            yield turn
            here = turn.before

    def entry(self, here: StoredVersion, before: StoredVersion | None) -> LogEntry:
        """A version as an entry. ``before`` is the version before it, if that was read."""
        current = self._decoded(here)
        if self.context.stat:
            self.previous = self._at_fork() if before is None else self._decoded(before)
        return self._entry(here, current)

    def _decoded(self, version: StoredVersion) -> Contents:
        """The last one is asked for again, as the next one's turn comes."""
        if self._last is None or self._last[0] is not version:
            self._last = (version, decode_contents(version.content))
        return self._last[1]

    def _is_shown(self, version: int) -> bool:
        """Whether it is a version of the branch itself, or a copy of the one it was created from where that is gone."""
        if self.fork is None or version > self.fork.version or not self._own_only:
            return True
        return version == self.fork.version and not self._fork_is_there

    @cached_property
    def _fork_is_there(self) -> bool:
        return self.fork is not None and self.context.manifests(self.fork.branch).has(self.fork.version)

    def _at_fork(self) -> Contents | None:
        if self.fork is None or not self._fork_is_there:
            return None
        return decode_contents(read_manifest(self.context.location, self.fork))

    def _entry(self, here: StoredVersion, contents: Contents) -> LogEntry:
        head, context = contents.head, self.context
        pin = PinnedVersion(self.branch, head.version)
        transaction = transaction_of(context.location, self.branch, here.content)
        properties = {} if transaction is None else transaction.properties
        operation = UNKNOWN if transaction is None else transaction.operation
        return LogEntry(
            branch=self.branch,
            version=head.version,
            timestamp=moment_at(head.timestamp_ns),
            operation=operation,
            action=properties.get(ACTION),
            source=properties.get(SOURCE),
            message=None if transaction is None else transaction.message,
            total_rows=self._rows.rows(contents) if contents.counts_rows else count_rows(context.location, pin),
            stat=self._stat(contents, operation, REORDERED in properties) if context.stat else None,
            tags=context.tags(pin),
            heads=context.heads(pin),
            forks=context.forks(pin),
            parents=(*self._first_parent(here), *self._taken_in(properties)),
        )

    def _stat(self, contents: Contents, operation: str, reordered: bool) -> Stat | None:
        if self.previous is None:
            return stat_of_all(contents) if contents.head.version == 1 or operation == _STARTS else None
        counted = contents.counts_rows and self.previous.counts_rows
        return stat(match(self.previous, contents), counted, moved=reordered or operation == _MOVES_ROWS)

    def _first_parent(self, here: StoredVersion) -> tuple[PinnedVersion, ...]:
        fork = self.fork
        if fork is None or here.version <= fork.version or (here.below is not None and here.below > fork.version):
            return () if here.below is None else (PinnedVersion(self.branch, here.below),)
        if self._fork_is_there:
            return (self.context.shown(fork),)
        return () if here.below is None else (PinnedVersion(self.branch, here.below),)

    def _taken_in(self, properties: Mapping[str, str]) -> tuple[PinnedVersion, ...]:
        """The second parent; none if the branch is gone and a new one has its name."""
        trace = read_trace(properties)
        if trace is None or not trace.takes_in:
            return ()
        branch = None if trace.source.branch is None else self.context.refs.branches.get(trace.source.branch)
        if branch is not None and trace.source_id and branch.identity and branch.identity != trace.source_id:
            return ()
        return (self.context.shown(trace.source),)


class LogCursor:
    """A version that may come next in the log. Of most such versions only the time is ever needed."""

    def __init__(self, chain: BranchLog, here: StoredVersion, rest: Iterator[StoredVersion]) -> None:
        self.pin = PinnedVersion(chain.branch, here.version)
        self.timestamp_ns = decode_head(here.content).timestamp_ns
        """Nanoseconds since 1970."""
        self._chain = chain
        self._here = here
        self._rest = rest

    @cached_property
    def before(self) -> StoredVersion | None:
        """The version before it in the chain. Its manifest is read only when it is needed."""
        return next(self._rest, None)

    def entry(self) -> LogEntry:
        """The version as an entry of the log."""
        context = self._chain.context
        context.unread -= 1
        return self._chain.entry(self._here, self.before if context.stat else None)


class _RowCounter:
    """Counts the rows of successive versions; only fragments that differ are decoded."""

    def __init__(self) -> None:
        self._last: tuple[Contents, int] | None = None

    def rows(self, contents: Contents) -> int:
        if self._last is None:
            total = sum(fragment.rows for fragment in contents.fragments())
        else:
            other, total = self._last
            total += sum(fragment.rows for fragment in contents.fragments_without(other))
            total -= sum(fragment.rows for fragment in other.fragments_without(contents))
        self._last = (contents, total)
        return total
