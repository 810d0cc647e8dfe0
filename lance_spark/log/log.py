"""The history of a table: ``log``, ``show``, and cards for tables, branches, tags and remotes.

Refs and manifests come in, each read when it is needed. Entries of a log, details of a version and cards come out.
Nothing is changed.
"""

from __future__ import annotations

import heapq
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from functools import cached_property
from itertools import count as counting
from itertools import islice, takewhile
from typing import Literal, NamedTuple

import pyarrow as pa

from lance_spark.changes.diff_rules import Diff
from lance_spark.core.location import DatasetLocation
from lance_spark.core.records.tracking import read_follows
from lance_spark.core.ref_files import BRANCHES, TAGS
from lance_spark.core.ref_names import is_own_tag, is_service_tag, missing
from lance_spark.core.refs import MAIN, Branch, PinnedVersion, RefSpec, RefTable
from lance_spark.core.show import Card
from lance_spark.core.texts import moment_at
from lance_spark.errors import LanceSparkError, NotFound
from lance_spark.format.contents import Contents, decode_contents
from lance_spark.format.manifest import decode_head
from lance_spark.format.mem_wal import INDEX
from lance_spark.format.operations import (
    ConfigChange,
    Index,
    LogEntry,
    Stat,
    VersionDetail,
    columns,
    match,
    stat,
    stat_of_all,
)
from lance_spark.format.transactions import UNKNOWN
from lance_spark.format.versions import ACTION, BEGIN, REORDERED, SOURCE, read_trace
from lance_spark.layout.declaring import look
from lance_spark.layout.layout_rules import SETTINGS
from lance_spark.log import print_rules
from lance_spark.scan import fragment_reads
from lance_spark.storage import datasets, refs
from lance_spark.storage.files import THREADS
from lance_spark.storage.followers import known_remotes
from lance_spark.storage.mem_wal import note_of_waiting
from lance_spark.storage.resolving import resolve
from lance_spark.storage.versions import BranchVersions, StoredVersion, read_manifest, read_versions, transaction_of

_MOVES_ROWS = "Rewrite"
_STARTS = "Clone"


class LogContext:
    """What all chains of one log share: refs, and the newest versions that were looked up."""

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
        """The versions of a branch, as they were when first listed."""
        return self._manifests.setdefault(branch, BranchVersions(self.location, branch))

    def newest(self, branch: str | None) -> int | None:
        """Number of the newest version of a branch; None if it has none."""
        return self.manifests(branch).newest

    def newest_of_all(self) -> dict[str | None, int | None]:
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
        """How many versions of a chain to read at once. With very many chains, most show only one version."""
        if self._walks_all:
            yield 1
        while True:
            yield self.unread

    def tip(self, branch: str | None) -> PinnedVersion:
        """The newest version of a branch. Raises NotFound if the branch does not exist or has no versions."""
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
        """The version that a log shows: the first version of a branch is a copy of its fork, which is shown instead."""
        while (fork := self.fork(pin.branch)) is not None and fork.version == pin.version:
            pin = fork
        return pin

    def tags(self, pin: PinnedVersion) -> tuple[str, ...]:
        return tuple(sorted(self._tags.get(self.shown(pin), ())))

    def forks(self, pin: PinnedVersion) -> tuple[str, ...]:
        """Branches that were created from a version, by name."""
        return tuple(sorted(self._forks.get(self.shown(pin), ())))

    def heads(self, pin: PinnedVersion) -> tuple[str, ...]:
        """Branches whose newest version this is: its own branch, and forks known to have no versions of their own."""
        names = [pin.branch or MAIN] if self.newest(pin.branch) == pin.version else []
        forks = (name for name in self.forks(pin) if name != pin.branch and name in self._manifests)
        return (*names, *(name for name in forks if self.newest(name) == pin.version))


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
        # The last one shown is compared with the one before it, which need not be shown.
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
        """Decoded contents; the last one is kept, since the next version asks for it again."""
        if self._last is None or self._last[0] is not version:
            self._last = (version, decode_contents(version.content))
        return self._last[1]

    def _is_shown(self, version: int) -> bool:
        """Whether the branch wrote this version itself, or it is a copy of a fork that is gone."""
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
            author=None if transaction is None else transaction.author,
            total_rows=self._rows.rows(contents)
            if contents.counts_rows
            else fragment_reads.count_rows(context.location, pin),
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
    """A version that may come next in the log. Most of these are never decoded: only their time is needed."""

    def __init__(self, chain: BranchLog, here: StoredVersion, rest: Iterator[StoredVersion]) -> None:
        self.pin = PinnedVersion(chain.branch, here.version)
        self.timestamp_ns = decode_head(here.content).timestamp_ns
        """Nanoseconds since 1970."""
        self._chain = chain
        self._here = here
        self._rest = rest

    @cached_property
    def before(self) -> StoredVersion | None:
        """The version before it in the chain. Its manifest is read only when needed."""
        return next(self._rest, None)

    def entry(self) -> LogEntry:
        context = self._chain.context
        context.unread -= 1
        return self._chain.entry(self._here, self.before if context.stat else None)


class _RowCounter:
    """Counts the rows of successive versions; decodes only the fragments that differ."""

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


# --- The history of a branch: ``log`` and ``show``
# Reads only the manifests that are shown, and changes nothing.

_STEPS = frozenset({"Clone", "ReserveFragments", "UpdateBases"})
Scope = Literal["chain", "merged", "all"]
"""Which versions a log has: those of a branch and, past its fork, of its parents; those plus the versions that merges
took in and that still exist; or those of all branches."""


def log(
    location: DatasetLocation,
    branch: str | None,
    start: PinnedVersion | None = None,
    count: int | None = None,
    stat: bool = False,
    scope: Scope = "chain",
) -> tuple[LogEntry, ...]:
    """The versions of a branch, newest first: from ``start`` or its newest one, ``count`` of them.

    Leaves out versions that only record another dataset's versions for a fetch or a clone and change no row. Raises
    NotFound if the branch or version does not exist, CorruptData for a manifest that cannot be decoded.
    """
    context = LogContext(location, refs.read_ref_files(location), count, stat)
    walk, first = _begin(branch, start, context, scope)
    entries = list(islice(walk.entries(first), count))
    return tuple(replace(entry, parents=walk.shown_parents(entry)) for entry in entries)


def shown_diff(found: Diff) -> print_rules.TableDiff:
    """A diff that prints as ``lance-git diff`` does."""
    return print_rules.TableDiff(**{each.name: getattr(found, each.name) for each in fields(found)})


HISTORY = pa.schema(
    [
        ("version", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("operation", pa.string()),
        ("operationParameters", pa.map_(pa.string(), pa.string())),
        ("message", pa.string()),
        ("branch", pa.string()),
        ("rows", pa.int64()),
        ("rows_added", pa.int64()),
        ("rows_removed", pa.int64()),
        ("tags", pa.list_(pa.string())),
        ("userName", pa.string()),
    ]
)
"""Columns of ``t.history()`` and DESCRIBE HISTORY, with Delta's names if it has one. Of a compaction, which only moves
rows, none are added or removed; null if the writer did not record them."""


def history(location: DatasetLocation, start: PinnedVersion, count: int | None) -> Iterator[dict[str, object]]:
    """The versions of a branch and, past its fork, of its parents, newest first, as rows. Raises like :func:`log`."""
    for entry in log(location, start.branch, start, count, stat=True):
        told = {"transaction": entry.operation, "source": entry.source}
        yield {
            "version": entry.version,
            "timestamp": entry.timestamp,
            "operation": entry.words,
            "operationParameters": [(name, value) for name, value in told.items() if value is not None],
            "message": entry.message,
            "branch": entry.branch or MAIN,
            "rows": entry.total_rows,
            "rows_added": None if entry.stat is None else entry.stat.rows_added,
            "rows_removed": None if entry.stat is None else entry.stat.rows_removed,
            "tags": [tag for tag in entry.tags if not is_service_tag(tag, entry.tags)],
            "userName": entry.author,
        }


def recent(
    location: DatasetLocation, start: PinnedVersion, count: int | None, stat: bool = False, scope: Scope = "merged"
) -> print_rules.History:
    """The newest ``count`` versions from ``start`` on, or all without a count, as a printable value."""
    entries = log(location, start.branch, start, None if count is None else count + 1, stat, scope)
    older = count is not None and len(entries) > count
    return print_rules.History(location.uri, start, entries[:count], older, note_of_waiting(location, start))


def _begin(
    branch: str | None, start: PinnedVersion | None, context: LogContext, scope: Scope
) -> tuple[_Walk, PinnedVersion]:
    others = context.newest_of_all() if scope == "all" else {}
    walk = _Walk(context, merged=scope != "chain")
    tip = context.tip(branch if start is None else start.branch)
    first = tip if start is None else start
    walk.add(first.branch, first.version)
    for other, newest in others.items():
        if newest is not None:
            walk.add(other, newest)
    return walk, first


def show(location: DatasetLocation, pin: PinnedVersion) -> VersionDetail:
    """One version in full. Raises NotFound if the version does not exist, CorruptData."""
    content = read_manifest(location, pin)
    context = LogContext(location, refs.read_ref_files(location), 2, stat=True)
    chain = BranchLog(context, pin.branch, pin.version, own_only=False)
    cursor = next(iter(chain), None)
    if cursor is None or cursor.pin.version != pin.version:
        raise NotFound(f"Version {pin} was removed a moment ago.")
    contents = decode_contents(content)
    found = _detail(cursor.entry(), contents, chain.previous)
    return replace(found, layout=str(look(location, pin)[0])) if _has_layout(contents) else found


def _has_layout(contents: Contents) -> bool:
    """Whether it may have one, which only then is looked for."""
    return bool({*SETTINGS} & contents.config.keys()) or any(each.name == INDEX for each in contents.indexes)


def _detail(entry: LogEntry, contents: Contents, previous: Contents | None) -> VersionDetail:
    fragments = list(contents.fragments())
    names = {column.id: column.path for column in columns(contents.fields)}
    indexes: dict[str, tuple[str, ...]] = {}
    for index in contents.indexes:
        indexes.setdefault(index.name, tuple(names.get(field, f"field {field}") for field in index.fields))
    deletions = [fragment.deletion for fragment in fragments if fragment.deletion is not None]
    return VersionDetail(
        entry=entry,
        columns=columns(contents.fields),
        indexes=tuple(Index(name, indexes[name]) for name in sorted(indexes)),
        config_changes=_config_changes({} if previous is None else previous.config, contents.config),
        fragments=len(fragments),
        data_files=len({file.path for fragment in fragments for file in fragment.files}),
        deletion_files=len(deletions),
        deleted_rows=sum(deletion.rows for deletion in deletions),
        bytes=sum(fragment.size for fragment in fragments),
        bases=tuple(sorted(base.path for base in contents.head.bases.values())),
        storage_version=contents.storage_version,
        stable_row_ids=contents.has_stable_row_ids,
    )


def _config_changes(before: dict[str, str], after: dict[str, str]) -> tuple[ConfigChange, ...]:
    keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    return tuple(ConfigChange(key, before.get(key), after.get(key)) for key in keys)


class _Next(NamedTuple):
    """The version of a chain that comes next, in the order of the log."""

    age: float
    order: int
    """Breaks ties between cursors of one age, so that the fields after it are never compared."""
    cursor: LogCursor
    chain: BranchLog
    rest: Iterator[LogCursor]


class _Walk:
    """Several chains at once, newest entry first. Every version comes before those it was made from."""

    def __init__(self, context: LogContext, merged: bool) -> None:
        self._context = context
        self._merged = merged
        self._waiting: list[_Next] = []
        self._seen: set[PinnedVersion] = set()
        self._from: dict[str | None, int] = {}
        """The highest version from which a branch is walked."""
        self._order = counting()
        self._hidden: dict[PinnedVersion, tuple[PinnedVersion, ...]] = {}
        """Versions that are not shown, with the ones before them."""

    def add(self, branch: str | None, version: int, age: float = float("-inf")) -> None:
        """Also walk a branch from a version on. ``age`` is that of the entry it must come after."""
        if self._from.get(branch, 0) >= version:
            return  # an earlier walk from a newer version reaches this one
        self._from[branch] = version
        chain = BranchLog(self._context, branch, version)
        self._push(chain, iter(chain), age)

    def shown_parents(self, entry: LogEntry) -> tuple[PinnedVersion, ...]:
        """Its parents; those that are not shown are replaced by the versions before them."""
        shown: list[PinnedVersion] = []
        for parent in entry.parents:
            line: tuple[PinnedVersion, ...] = (parent,)
            while line and line[0] in self._hidden:
                line = self._hidden[line[0]]
            shown += line
        return tuple(shown)

    def _is_step(self, entry: LogEntry) -> bool:
        """Whether it is only a step in copying a version of another dataset, and no user's ref names it."""
        if entry.heads or any(not is_own_tag(tag) for tag in entry.tags):
            return False
        branch = self._context.refs.branches.get(entry.branch or "") if entry.operation in _STEPS else None
        return entry.action == BEGIN or (branch is not None and read_follows(branch) is not None)

    def _push(self, chain: BranchLog, rest: Iterator[LogCursor], age: float) -> None:
        cursor = next(rest, None)
        if cursor is None:
            if chain.fork is not None:
                self.add(chain.fork.branch, chain.fork.version, age)
            return
        if cursor.pin in self._seen:
            return  # another walk continues from there
        self._seen.add(cursor.pin)
        # Clocks differ: an entry is never older than the versions it was made from.
        own = max(age, -cursor.timestamp_ns)
        heapq.heappush(self._waiting, _Next(own, next(self._order), cursor, chain, rest))

    def entries(self, first: PinnedVersion) -> Iterator[LogEntry]:
        """All entries; entries of branches other than the first one's are marked."""
        while self._waiting:
            turn = heapq.heappop(self._waiting)
            entry = turn.cursor.entry()
            if entry.pin != first and self._is_step(entry):
                self._hidden[entry.pin] = entry.parents[:1]
            else:
                yield entry if entry.branch == first.branch else replace(entry, inherited=True)
            if self._merged:
                for parent in entry.parents[1:]:
                    if parent.branch is None or parent.branch in self._context.refs.branches:
                        self.add(parent.branch, parent.version, turn.age)
            self._push(turn.chain, turn.rest, turn.age)


# --- Cards for tables, branches, tags and remotes
# A few metadata requests. Nothing here raises: debuggers and tracebacks also print values, so if the store does not
# answer, the card shows why.

_LONGEST_WHY = 120
_MOST_REFS = 200
"""How many ref files are read to find remotes: a dataset can have thousands, and each costs a request."""


def look_at_table(what: str, location: DatasetLocation, ref: RefSpec) -> Card:
    """A table at a ref. A moment is not resolved: that would read the manifests of the whole history."""

    def look() -> Card:
        pin = resolve(location, ref)
        names = tuple(fragment_reads.schema_of(location, pin).names)
        info, note = datasets.summarise(location, pin), note_of_waiting(location, pin)
        return print_rules.table_card(what, location.uri, ref, print_rules.TableGlance(pin, info, names, note))

    if ref.as_of is not None:
        return print_rules.unknown_card(what, location.uri, "the version was not looked up", ref)
    return or_why(look, lambda why: print_rules.unknown_card(what, location.uri, why, ref))


def look_at_branches(what: str, location: DatasetLocation) -> Card:
    """The names of all branches, and some branches in full."""

    def look() -> Card:
        datasets.open_latest(location)
        names = print_rules.RefNames.of_branches(
            refs.list_ref_names(location, BRANCHES), refs.list_ref_names(location, TAGS)
        )
        branches = refs.read_branches(location, names.shown).branches
        return print_rules.branches_card(what, location.uri, names, tuple(branches.values()))

    return or_why(look, lambda why: print_rules.unknown_card(what, location.uri, why))


def look_at_tags(what: str, location: DatasetLocation) -> Card:
    """The names of all tags, and some tags in full."""

    def look() -> Card:
        datasets.open_latest(location)
        names = print_rules.RefNames.of_tags(refs.list_ref_names(location, TAGS))
        return print_rules.tags_card(what, location.uri, names, tuple(refs.read_tags(location, names.shown).values()))

    return or_why(look, lambda why: print_rules.unknown_card(what, location.uri, why))


def look_at_remotes(what: str, location: DatasetLocation) -> Card:
    def look() -> Card:
        datasets.open_latest(location)
        # A branch that follows a remote's is named after both.
        names = [name for name in refs.list_ref_names(location, BRANCHES) if "/" in name]
        return print_rules.remotes_card(
            what, location.uri, known_remotes(refs.read_branches(location, names[:_MOST_REFS]))
        )

    return or_why(look, lambda why: print_rules.unknown_card(what, location.uri, why))


def or_why(look: Callable[[], Card], otherwise: Callable[[str], Card]) -> Card:
    """The card, or one with the store's error message instead."""
    try:
        return look()
    except (LanceSparkError, OSError, RuntimeError, ValueError) as problem:
        why = problem.message if isinstance(problem, LanceSparkError) else str(problem)
        return otherwise(why if len(why) <= _LONGEST_WHY else f"{why[: _LONGEST_WHY - 3]}...")
