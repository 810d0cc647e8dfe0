"""``changes``: the rows that changed from one version to another, step by step, with the versions that changed them.

Two points of a history come in; a frame of changes comes out. Reads manifests one after another, and only those
fragments that a version added, removed or changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from functools import cached_property, partial
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark import hints
from lance_spark.changes import feed_rules
from lance_spark.changes.changed_rows import came_rows, gone_rows, rewritten_rows
from lance_spark.changes.image_rules import changes, pair, unpaired, updates
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import MAIN, Branch, PinnedVersion, newest_at
from lance_spark.engine.local import Frame, Runner
from lance_spark.errors import InvalidOption, NotFound, Refused
from lance_spark.format.contents import Contents, Fragment
from lance_spark.format.operations import VersionSpan, key_columns
from lance_spark.format.row_ids import Deleted, DeletionKey, Offsets, Rewrite, deletion_key
from lance_spark.format.schema import row_width, unknown_column
from lance_spark.format.transactions import Transaction
from lance_spark.format.versions import Deletions, Snapshot
from lance_spark.scan.fragment_reads import blob_columns, read_deletions, schema_of
from lance_spark.storage import refs
from lance_spark.storage import versions as stored_versions
from lance_spark.storage.datasets import list_versions, pin_version
from lance_spark.storage.files import THREADS, each
from lance_spark.storage.resolving import resolve_expression

Point = int | str | datetime
"""A version: its number on the branch, a ref (tag, branch, ``branch@7``), or a moment, for the last version at it.

As the start of a feed, 0 stands before the first version."""

_USUAL_ROW = 500
"""The row size in bytes that a runner assumes; of wider rows it has to hold fewer at once."""


class FeedEnds(NamedTuple):
    since: PinnedVersion | None
    """None for all changes since the table was made, those of its first version included."""
    until: PinnedVersion


def find_ends(location: DatasetLocation, at: PinnedVersion, since: Point, until: Point | None) -> FeedEnds:
    """The named versions, on the line of ``at``, which is also the end if none was named.

    Raises NotFound, InvalidOption and Refused.
    """
    start = None if type(since) is int and since == 0 else _find(location, at, since)
    return FeedEnds(start, at if until is None else _find(location, at, until))


class Bound(NamedTuple):
    """One end of a range of versions, each of which has changes."""

    point: Point
    inclusive: bool = True


def range_ends(location: DatasetLocation, at: PinnedVersion, first: Bound, last: Bound | None) -> FeedEnds:
    """The ends of the changes that a range of versions made, on the line of ``at``, by default up to it.

    Raises NotFound, InvalidOption, and Refused for a range that runs backwards, or to another branch.
    """
    branches = refs.read_branches(location).branches
    until: PinnedVersion | None = at
    if last is not None and isinstance(last.point, datetime):
        until = find_moment(location, at.branch, edge(last.point, last.inclusive))
    elif last is not None:
        until = _find(location, at, last.point)
        until = until if last.inclusive else feed_rules.before(until, branches)
    begin = _begin(location, at, first, branches)
    named = begin is not None and isinstance(first.point, str)  # a version that has to lead to the end itself
    since = feed_rules.before(begin, branches) if begin is not None and named and first.inclusive else begin
    if until is None or (begin is not None and feed_rules.path_between(begin, until, branches).back):
        raise Refused(
            f"Changes that begin after {since or 'nothing'} cannot end with {until or 'nothing'}, to which those did "
            "not lead.",
            hint="Swap its ends. In Python, changes(since, until) also undoes versions, and crosses branches.",
        )
    return FeedEnds(since, until)


def _begin(
    location: DatasetLocation, at: PinnedVersion, first: Bound, branches: Mapping[str, Branch]
) -> PinnedVersion | None:
    """The version before the first one of a range, or the first one if a ref names it; None for the very first."""
    if isinstance(first.point, datetime):
        try:
            return find_moment(location, at.branch, edge(first.point, not first.inclusive))
        except NotFound:
            return None  # if versions are missing that far back, the walk says so
    if isinstance(first.point, str):
        return _find(location, at, first.point)
    number = max(
        0, first.point - 1 if first.inclusive else first.point
    )  # not looked up: the path knows what is missing
    return None if number == 0 else feed_rules.at_or_before(PinnedVersion(at.branch, number), branches)


_LISTED = timedelta(microseconds=1)
"""By how much the time of a version in its manifest, which a feed shows, differs from the one that pylance lists."""


def edge(moment: datetime, inclusive: bool) -> datetime:
    """The last moment that counts for what happened up to one, or before it."""
    return moment + _LISTED if inclusive else moment - 2 * _LISTED


def _find(location: DatasetLocation, at: PinnedVersion, point: Point) -> PinnedVersion:
    if isinstance(point, datetime):
        return find_moment(location, at.branch, point)
    if isinstance(point, str):
        return resolve_expression(location, point, at.branch)
    if type(point) is not int or point < 1:
        raise InvalidOption(
            f"{point!r} is not a version.", hint="Give a number from 1, a tag, a branch, 'branch@7' or a datetime."
        )
    pin = feed_rules.at_or_before(PinnedVersion(at.branch, point), _branches(location, at.branch))
    return pin_version(location, pin.branch, pin.version)


def find_moment(location: DatasetLocation, branch: str | None, point: datetime) -> PinnedVersion:
    """The last version at a moment; of the parent if the branch had none yet. A moment without a zone is UTC."""
    moment = point.replace(tzinfo=timezone.utc) if point.tzinfo is None else point
    branches = _branches(location, branch)
    highest: int | None = None
    while True:
        fork = branches[branch].fork if branch is not None and branch in branches else None
        begin = 0 if fork is None else fork.version
        history = [
            info
            for info in list_versions(location, branch)
            if info.version > begin and (highest is None or info.version <= highest)
        ]
        if fork is None or any(info.timestamp <= moment for info in history):
            return pin_version(location, branch, newest_at(history, moment, branch))
        branch, highest = fork.branch, fork.version


def _branches(location: DatasetLocation, branch: str | None) -> Mapping[str, Branch]:
    return {} if branch is None else refs.read_branches(location).branches


def plan_changes(location: DatasetLocation, ends: FeedEnds, options: feed_rules.FeedOptions) -> feed_rules.FeedPlan:
    """Which fragments to read, and for what; reads no row.

    The path from the last common version of both ends to ``until`` is reported version by version. What ``since`` has
    beyond the common version is reverted in one step, labeled with the common version. Raises NotFound for a version
    or a column that is gone, Refused, InvalidOption and CorruptData.
    """
    branches = refs.read_branches(location).branches
    path = feed_rules.path_between(ends.since or feed_rules.first_of(ends.until, branches), ends.until, branches)
    versions = VersionsOfPath(location, path)
    end = stored_versions.read_contents(location, ends.until)
    columns = feed_columns(location, ends.until, end, options)
    walk = _FeedWalk(versions, feed_rules.StepReader(end.fields, columns.schema.names), end.has_stable_row_ids)
    onwards = [*walk.forward()]
    told = [walk.first() if ends.since is None else walk.back(), *reversed(onwards)]
    below = versions.common.contents.next_row_id if path.back and path.forward and options.net else None
    return feed_rules.arrange(
        feed_rules.FeedReading(location, columns, options, walk.stable and not columns.key, below), told
    )


class _FeedWalk:
    """Walks through versions; ``stable`` is whether all of them have stable row ids."""

    def __init__(self, versions: VersionsOfPath, steps: feed_rules.StepReader, stable: bool) -> None:
        self.stable = stable
        self._versions = versions
        self._steps = steps

    def forward(self) -> Iterator[feed_rules.VersionPieces]:
        """The changes of each version after the common one, newest first."""
        for step in self._seen(forward=True):
            commit = commit_of(step.after, step.after.pin.branch)
            yield self._steps.forward(step.before, step.after, commit, step.transaction)

    def first(self) -> feed_rules.VersionPieces:
        first = self._versions.common
        self.stable &= first.contents.has_stable_row_ids
        return self._steps.first(first, commit_of(first, first.pin.branch))

    def back(self) -> feed_rules.VersionPieces:
        """One step that reverts everything after the common version."""
        if not self._versions.path.back:
            return feed_rules.VersionPieces(())
        commit = commit_of(self._versions.common, self._versions.path.common.branch)
        steps = self._seen(forward=False)
        found = [self._steps.back(step.before, step.after, commit, step.transaction).pieces for step in steps]
        pieces = tuple(piece for each in found for piece in each)
        return feed_rules.VersionPieces(pieces, net=sum(map(bool, found)) > 1)

    def _seen(self, forward: bool) -> Iterator[FeedStep]:
        for step in self._versions.steps(forward):
            self.stable &= step.before.contents.has_stable_row_ids and step.after.contents.has_stable_row_ids
            yield step


def commit_of(snapshot: Snapshot, branch: str | None) -> feed_rules.Commit:
    """The fields of a version that a feed shows."""
    head = snapshot.contents.head
    return feed_rules.Commit(head.version, head.timestamp_ns // 1000, branch or MAIN)


def feed_columns(
    location: DatasetLocation, until: PinnedVersion, end: Contents, options: feed_rules.FeedOptions
) -> feed_rules.FeedColumns:
    """The columns to read. Of blobs only the size is read, which reveals most of their changes."""
    schema, blobs = schema_of(location, until), blob_columns(location, until)
    chosen = [name for name in schema.names if name not in blobs] if options.columns is None else list(options.columns)
    key = options.key or (() if end.has_stable_row_ids else key_columns(end.fields))
    for name in (*chosen, *key):
        if name not in schema.names:
            raise unknown_column(name, schema.names)
        if name in blobs:
            raise Refused(
                f"Column '{name}' holds blobs, which the change feed does not show.",
                hint="Leave it out, and read the blobs of the changed rows by their key.",
            )
    taken = {field.name for field in feed_rules.FEED_FIELDS}
    clash = next((name for name in chosen if name.lower() in taken), None)
    if clash is not None:
        raise InvalidOption(f"The change feed has its own column '{clash}'.", hint="Leave it out with columns=[...].")
    hidden = [name for name in key if name not in chosen]
    sizes = [] if options.columns is not None else [name for name in schema.names if name in blobs]
    fields = [schema.field(name).with_nullable(True) for name in (*chosen, *hidden)]
    fields += [pa.field(name, pa.int64()) for name in sizes]
    return feed_rules.FeedColumns(pa.schema(fields), len(chosen), tuple(key), frozenset(sizes))


def feed_frame(runner: Runner, plan: feed_rules.FeedPlan) -> Frame:
    """The changes, as a frame of the runner; its columns are those of ``plan.reading.columns.rows``."""
    reading = plan.reading
    columns = reading.columns
    frames = []
    if plan.direct or not plan.to_pair:
        read = partial(direct_changes, reading)
        frames.append(runner.flat_map("read changes", feed_rules.in_tasks(plan.direct), read, columns.rows))
    if plan.to_pair:
        sides = tuple(
            runner.flat_map(
                stage,
                feed_rules.in_tasks(pieces),
                partial(rows_to_pair, reading, plan.unrecognizable, old),
                columns.unpaired,
            )
            for stage, old, pieces in (
                ("read what went", True, [piece for piece in plan.to_pair if piece.deletes or piece.rewritten]),
                ("read what came", False, [piece for piece in plan.to_pair if piece.inserts or piece.rewritten]),
            )
        )
        matched = partial(pair, images=reading.options.images, schema=columns.rows)
        rows = int(plan.rows * max(1.0, row_width(columns.rows) / _USUAL_ROW))
        frames.append(runner.match("pair rows", (sides[0], sides[1]), matched, columns.rows, rows))
    return runner.union(frames)


def direct_changes(reading: feed_rules.FeedReading, pieces: Sequence[feed_rules.Piece]) -> Iterator[pa.RecordBatch]:
    """The changes of pieces whose rows need no comparison with others."""
    for piece in pieces:
        for kind, rows in (
            (feed_rules.DELETE, gone_rows(reading, piece)),
            (feed_rules.INSERT, came_rows(reading, piece)),
        ):
            for batch in rows:
                yield changes(batch, kind, piece.commit, reading.columns)
        for before, after in rewritten_rows(reading, piece):
            yield from updates(before, after, piece.commit, reading)


def rows_to_pair(
    reading: feed_rules.FeedReading, unrecognizable: frozenset[int], old: bool, pieces: Sequence[feed_rules.Piece]
) -> Iterator[pa.RecordBatch]:
    """The rows of one side, with the hashes that pair them with rows of the other side."""
    for piece in pieces:
        rows = gone_rows(reading, piece) if old else came_rows(reading, piece)
        changed = (pair[0 if old else 1] for pair in rewritten_rows(reading, piece))
        recognizable = reading.options.net or piece.commit.version not in unrecognizable
        for batch in chain(rows, changed):
            yield unpaired(batch, piece.commit, reading, recognizable)


# --- The versions on the path of a feed, in pairs of neighbors

_HELD = 32 * 2**20
"""Bytes of manifests to read ahead."""


class FeedStep(NamedTuple):
    """A version that may have changed rows, and the one that it was made from."""

    before: Snapshot
    after: Snapshot
    transaction: Transaction | None


class ReadVersion(NamedTuple):
    """A version whose manifest and transaction were read."""

    pin: PinnedVersion
    content: bytes
    transaction: Transaction | None


class VersionsOfPath:
    """The versions on a path. At most two neighboring manifests are kept decoded."""

    def __init__(self, location: DatasetLocation, path: feed_rules.FeedPath) -> None:
        self.path = path
        self._location = location

    @cached_property
    def common(self) -> Snapshot:
        """The version that both ends have in common. Raises NotFound if it, and every copy of it, is gone."""
        spans = (*self.path.forward[:1], *self.path.back[:1])
        copies = [PinnedVersion(span.branch, span.after) for span in spans]
        return self._snapshot(self._first_of(self.path.common, *copies))

    def steps(self, forward: bool) -> Iterator[FeedStep]:
        """The steps away from the common version, newest first, or those that lead back to it, oldest first.

        Steps known to change no rows are left out. Raises NotFound for a version that is gone: its changes are unknown.
        """
        spans = self.path.forward if forward else self.path.back
        before = [self.path.common, *(PinnedVersion(span.branch, span.until) for span in spans)]
        parts = list(zip(before, spans, strict=False))
        for previous, span in reversed(parts) if forward else parts:
            yield from self._steps(previous, span, forward)

    def _steps(self, previous: PinnedVersion, span: VersionSpan, newest_first: bool) -> Iterator[FeedStep]:
        known: dict[PinnedVersion, Snapshot] = {}
        last: ReadVersion | None = None
        for here in self._versions(previous, span, newest_first):
            older, newer = (here, last) if newest_first else (last, here)
            if older is not None and newer is not None and not feed_rules.changes_no_rows(newer.transaction):
                known = {each.pin: known.get(each.pin) or self._snapshot(each) for each in (older, newer)}
                yield FeedStep(known[older.pin], known[newer.pin], newer.transaction)
            last = here

    def _versions(self, previous: PinnedVersion, span: VersionSpan, newest_first: bool) -> Iterator[ReadVersion]:
        """The versions of a span and the one before it, without those that only begin a copy."""
        # The first version of a branch is a copy of the one it was made from, with all files at the same places.
        begin = PinnedVersion(span.branch, span.after)
        numbers: Sequence[int] = range(span.after + 1, span.until + 1)
        if not newest_first:
            yield self._first_of(begin, previous)
        for pin, content in self._manifests(span.branch, numbers[::-1] if newest_first else numbers):
            if content is None:
                raise self._gone(pin, span.until)
            found = self._found(pin, content)
            if pin.version == span.until or not feed_rules.begins_copy(found.transaction):
                yield found
        if newest_first:
            yield self._first_of(begin, previous)

    def _manifests(self, branch: str | None, numbers: Sequence[int]) -> Iterator[tuple[PinnedVersion, bytes | None]]:
        """Requested in parallel; fewer at once for a table with many fragments, whose manifests take megabytes."""
        at_once = 2
        while numbers:
            pins = [PinnedVersion(branch, number) for number in numbers[:at_once]]
            contents = each(self._location, partial(stored_versions.find_manifest, self._location), pins)
            yield from zip(pins, contents, strict=True)
            numbers = numbers[at_once:]
            at_once = max(1, min(THREADS, _HELD // max(len(content or b" ") for content in contents)))

    def _first_of(self, *pins: PinnedVersion) -> ReadVersion:
        """The first existing version among several copies of the same one."""
        for pin in pins:
            content = stored_versions.find_manifest(self._location, pin)
            if content is not None:
                return self._found(pin, content)
        raise self._gone(pins[-1], pins[-1].version)

    def _found(self, pin: PinnedVersion, content: bytes) -> ReadVersion:
        return ReadVersion(pin, content, stored_versions.transaction_of(self._location, pin.branch, content))

    def _snapshot(self, found: ReadVersion) -> Snapshot:
        contents: Contents = stored_versions.contents_of(self._location, found.pin, found.content)
        stamped = PinnedVersion(found.pin.branch, found.pin.version, contents.head.timestamp_ns)
        return stored_versions.snapshot_of(self._location, stamped, contents)

    def _gone(self, pin: PinnedVersion, until: int) -> NotFound:
        known = {*stored_versions.version_numbers(self._location, pin.branch)}
        oldest = until
        while oldest - 1 in known:
            oldest -= 1
        name = pin.branch or MAIN
        since = f"Changes since {name}@{oldest} can be read. " if oldest in known else ""
        return NotFound(
            f"Version {pin.version} of '{name}' is gone: its changes cannot be read.",
            hint=hints.of(
                f"{since}A tag keeps a version, but not those after it; a cleanup policy does. ",
                hints.DIFF,
                " compares any two versions.",
            ),
        )


# --- Deletion files: each one read once


class Held(NamedTuple):
    """Fragments of an existing version, whose deletion files therefore exist."""

    version: Snapshot
    fragments: Iterable[Fragment]


class DeletionReader(NamedTuple):
    """Where to read, and what errors name."""

    location: DatasetLocation
    pin: PinnedVersion
    open_root: Callable[[str], DatasetLocation]
    """A root by its URI, with the storage options that open it."""


def known_deletions(reader: DeletionReader, held: Sequence[Held], rewrites: Sequence[Rewrite]) -> Deleted:
    """The deleted rows of all these fragments, and of those in compactions, as far as their files still exist.

    Raises NotFound for a missing file of an existing version, and CorruptData.
    """
    certain: dict[DeletionKey, Deletions] = {}
    for key, place in _places(held):
        certain.setdefault(key, place)
    maybe = {key: place for entry in rewrites for key, place in entry.deletions.items() if key not in certain}

    def read(entry: tuple[DeletionKey, Deletions]) -> Offsets | None:
        key, place = entry
        try:
            found = read_deletions(reader.open_root(place.root), reader.pin, place)
        except NotFound:
            if key in certain:
                raise
            return None
        offsets: Offsets = found.to_numpy(zero_copy_only=False).astype(np.int64)
        return offsets if len(offsets) == key[-1] else None

    places = {**maybe, **certain}
    known = dict(zip(places, each(reader.location, read, places.items()), strict=True))
    nothing = np.zeros(0, np.int64)

    def deleted(fragment: Fragment) -> Offsets | None:
        key = deletion_key(fragment)
        return nothing if key is None else known.get(key)

    return deleted


def _places(held: Sequence[Held]) -> Iterator[tuple[DeletionKey, Deletions]]:
    for version, fragments in held:
        for fragment in fragments:
            key, place = deletion_key(fragment), version.deletions_of(fragment)
            if key is not None and place is not None:
                yield key, place
