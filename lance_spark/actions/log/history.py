"""The history of a branch: ``log`` and ``show``. Nothing is changed, and only manifests that are shown are read."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import replace
from itertools import count as counting
from itertools import islice
from typing import Literal, NamedTuple

from lance_spark.actions.log.branch_log import BranchLog, LogContext, LogCursor
from lance_spark.errors import NotFound
from lance_spark.history.columns import columns
from lance_spark.history.entries import ConfigChange, Index, LogEntry, VersionDetail
from lance_spark.history.log import History
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Contents, decode_contents
from lance_spark.merge.trace import BEGIN
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import is_own_tag
from lance_spark.store import refs
from lance_spark.store.version_reader import read_manifest
from lance_spark.sync.tracking import read_follows

_STEPS = frozenset({"Clone", "ReserveFragments", "UpdateBases"})
Scope = Literal["chain", "merged", "all"]
"""Which versions a log has: those of a branch and, past its fork, of its parents; with them those that merges took in
and that are still there; or those of all branches."""


def log(
    location: DatasetLocation,
    branch: str | None,
    start: PinnedVersion | None = None,
    count: int | None = None,
    stat: bool = False,
    scope: Scope = "chain",
) -> tuple[LogEntry, ...]:
    """The versions of a branch, newest first: from ``start`` or its newest one, ``count`` of them.

    Versions that a fetch or a clone needs to write down another dataset's versions, and that change no row, are left
    out. Raises NotFound where there is no such branch or version, CorruptData for a manifest that cannot be understood.
    """
    context = LogContext(location, refs.read_ref_files(location), count, stat)
    walk, first = _begin(branch, start, context, scope)
    entries = list(islice(walk.entries(first), count))
    return tuple(replace(entry, parents=walk.shown_parents(entry)) for entry in entries)


def recent(
    location: DatasetLocation, start: PinnedVersion, count: int | None, stat: bool = False, scope: Scope = "merged"
) -> History:
    """The newest ``count`` versions from ``start`` on, all without a count, as a value that can be printed."""
    entries = log(location, start.branch, start, None if count is None else count + 1, stat, scope)
    return History(location.uri, start, entries[:count], older=count is not None and len(entries) > count)


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
    """One version in full. Raises NotFound for a version that is not there, CorruptData."""
    content = read_manifest(location, pin)
    context = LogContext(location, refs.read_ref_files(location), 2, stat=True)
    chain = BranchLog(context, pin.branch, pin.version, own_only=False)
    cursor = next(iter(chain), None)
    if cursor is None or cursor.pin.version != pin.version:
        raise NotFound(f"Version {pin} was removed a moment ago.")
    return _detail(cursor.entry(), decode_contents(content), chain.previous)


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
    """Decides among cursors of one age; so the fields after it are never compared."""
    cursor: LogCursor
    chain: BranchLog
    rest: Iterator[LogCursor]


class _Walk:
    """Several chains at once, the newest entry first. Every version comes before those that it was made from."""

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
        """Walk a branch, too, from a version on. ``age`` is that of the entry it must come after."""
        if self._from.get(branch, 0) >= version:
            return  # the walk that began above comes by there
        self._from[branch] = version
        chain = BranchLog(self._context, branch, version)
        self._push(chain, iter(chain), age)

    def shown_parents(self, entry: LogEntry) -> tuple[PinnedVersion, ...]:
        """Its parents, with what comes before them in place of those that are not shown."""
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
            return  # another walk goes on from there
        self._seen.add(cursor.pin)
        # Clocks differ: an entry is never older than what was made from it.
        own = max(age, -cursor.timestamp_ns)
        heapq.heappush(self._waiting, _Next(own, next(self._order), cursor, chain, rest))

    def entries(self, first: PinnedVersion) -> Iterator[LogEntry]:
        """All entries; those of other branches than that of the first are marked."""
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
