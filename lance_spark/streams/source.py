"""``readStream``: the position of a stream, the end of its next batch, and what a batch reads.

In: the options of a stream, and the versions of a branch. Out: offsets, and the parts that tasks read. The module also
follows a branch back through its parents, reads what each version gives, and keeps the tag that holds cleanups off.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa

from lance_spark import errors, hints
from lance_spark.changes import feed_rules
from lance_spark.changes.changes import (
    DeletionReader,
    Held,
    ReadVersion,
    commit_of,
    feed_columns,
    find_moment,
    known_deletions,
)
from lance_spark.changes.feed_rules import (
    ColumnTrack,
    Commit,
    FeedColumns,
    FeedOptions,
    FeedReading,
    Piece,
    VersionPieces,
)
from lance_spark.core.location import DatasetLocation
from lance_spark.core.ref_names import missing_version
from lance_spark.core.refs import MAIN, Branch, PinnedVersion, RefSpec
from lance_spark.core.services import keeps_versions
from lance_spark.core.table_options import LATEST, StreamReadOptions, parse_stream_options, split_stream_options
from lance_spark.core.texts import moment_at
from lance_spark.format.contents import Field
from lance_spark.format.manifest import decode_head
from lance_spark.format.operations import match
from lance_spark.format.row_ids import read_rewrites
from lance_spark.format.schema import ROW_COLUMNS, why_not
from lance_spark.format.stream_notes import source_tag
from lance_spark.format.transactions import Transaction
from lance_spark.format.versions import MERGE, PUBLISH, Snapshot, read_trace
from lance_spark.scan import fragment_reads
from lance_spark.scan.fragment_reads import Scan, ScanColumns, check_filter
from lance_spark.scan.read import PinnedRead, read_schema
from lance_spark.storage import refs, versions
from lance_spark.storage.datasets import pin_latest
from lance_spark.storage.resolving import check_branch, resolve_expression
from lance_spark.streams import source_rules
from lance_spark.streams.query_records import read_query_id
from lance_spark.streams.source_rules import CommitMeaning, Effect, Limits, NewRows, PartSize, StreamOffset, VersionSize
from lance_spark.tables.read import pin_read

_log = logging.getLogger("lance_spark.streams")


@dataclass(frozen=True)
class StreamRead:
    """The requested stream. Its columns are those of the newest version at that time."""

    read: PinnedRead
    options: StreamReadOptions

    @property
    def limits(self) -> Limits:
        return Limits(self.options.max_files, self.options.max_bytes, self.options.max_versions)


def stream_read(options: Mapping[str, str], pinned: PinnedRead | None = None) -> StreamRead:
    """Parse the options. ``pinned`` is the result of an earlier :func:`pin_read`.

    Raises InvalidOption for bad options and NotFound for a missing table, dataset or branch.
    """
    own, rest = split_stream_options(options)
    parsed = parse_stream_options(own, rest)
    read = pinned or pin_read(rest)
    ref = read.options.ref
    if ref != RefSpec(branch=ref.branch):
        raise errors.InvalidOption(
            "The path names a version after its '@', but a stream does not stop at a version.",
            hint="Name a branch there, and set the start of the stream with option('starting_version', ...).",
        )
    return StreamRead(read, parsed)


def stream_feed(stream: StreamRead) -> FeedColumns | None:
    """The columns of a change feed; None for a stream of rows. Raises NotFound, InvalidOption and Refused."""
    if not stream.options.changes:
        return None
    read = stream.read
    options = FeedOptions(read.options.columns, key=stream.options.key)
    return feed_columns(read.location, read.pin, versions.read_contents(read.location, read.pin), options)


def stream_schema(stream: StreamRead) -> pa.Schema:
    """The Arrow schema of the stream's rows, in the dataset's own types."""
    feed = stream_feed(stream)
    return read_schema(stream.read) if feed is None else feed.rows


class StreamSource:
    """One stream. It keeps only state that it can recover, except for the end of ``AvailableNow``."""

    def __init__(self, stream: StreamRead, schema: pa.Schema, feed: FeedColumns | None) -> None:
        """``schema``: the columns to give, in Spark's types; ``feed``: the same for a change feed.

        Raises InvalidOption for an invalid filter: a task would report it late, with a traceback.
        """
        self.stream, self._options = stream, stream.options
        read = stream.read
        if read.options.filter is not None:
            check_filter(Scan(read.location, read.pin, ScanColumns(()), read.options.filter))
        self._line = StreamLine(read.location, read.pin.branch)
        contents = versions.read_contents(read.location, read.pin)
        columns = StreamColumns(read, contents.fields, schema, feed)
        self._parts = PartsReader(self._line, columns, self._options)
        self._nothing_new: tuple[StreamOffset, int] | None = None
        """Reduces requests to the store while nothing is committed."""
        self._tag: str | None = None
        self._knows_tag = False

    def newest(self) -> int:
        """The newest version of the branch. Raises NotFound if the branch is gone."""
        return self._line.look()

    def latest(
        self, start: StreamOffset | None, limits: Limits = source_rules.NO_LIMITS, until: int | None = None
    ) -> StreamOffset:
        """The end of the batch that begins at an offset (None for the first one); that offset if nothing is new.

        Raises Refused for a version that changed rows, and for versions that are missing or of another dataset, as the
        options require; SchemaMismatch for columns that are no longer readable; NotFound if the branch is gone.
        """
        newest = self._line.look()
        last = newest if until is None else min(newest, until)
        here = self._begin(last) if start is None else self._checked(start, newest)
        while True:
            place = source_rules.next_place(here.next, self._sizes(here, last), limits)
            if place != here.next or place.version > last:
                return self._at(here, place)
            blocked = self._look_at(here, place.version)
            if blocked.problem is None:
                return here
            if not blocked.lost:
                raise blocked.problem
            here = self._lost(here, newest, blocked.problem.message)

    def parts(self, start: StreamOffset | None, end: StreamOffset) -> list[Part]:
        """The parts of the batch between two offsets. They are the same for every attempt.

        Raises Refused for missing versions, unless the stream may continue without them.
        """
        if start == end:
            return []
        self._line.look()
        reason = self._difference(end)
        if reason:
            if self._options.fail_on_data_loss:
                raise self._refusal(reason)
            _log.warning("%s A batch that was already planned gives no rows.", reason)
            return []
        begin = source_rules.batch_start(start, end)
        return [part for each in self._batch(begin, end) for part in each]

    def commit(self, end: StreamOffset) -> None:
        """Release what led to a finished batch."""
        self._hold(end)

    def _batch(self, begin: StreamOffset, end: StreamOffset) -> Iterator[tuple[Part, ...]]:
        last = end.next.version + (1 if end.next.file else 0)
        for version in range(begin.next.version, last):
            found = self._look_at(begin, version)
            if found.lost and not self._options.fail_on_data_loss:
                _log.warning("%s A batch that was already planned continues without it.", found.problem)
                continue
            if found.problem is not None:
                raise self._refusal(found.problem.message) if found.lost else found.problem
            first = begin.next.file if version == begin.next.version else 0
            yield found.parts[first : end.next.file if version == end.next.version else None]

    def _sizes(self, here: StreamOffset, last: int) -> Iterator[VersionSize]:
        for version in range(here.next.version, last + 1):
            yield self._look_at(here, version).size

    def _look_at(self, here: StreamOffset, version: int) -> VersionParts:
        return self._parts.parts(version, here.snapshot and version == here.begin)

    def _at(self, here: StreamOffset, place: source_rules.StreamPlace) -> StreamOffset:
        moved = here.at(place, 0)
        return here if place == here.next else here.at(place, self._line.stamp(moved.anchor))

    def _begin(self, newest: int) -> StreamOffset:
        """The offset of a stream that has read nothing. Its tag exists before a version is read."""
        version, snapshot = self._first(newest)
        here = source_rules.begun(self._line.identity, version, snapshot, 0)
        here = here.at(here.next, self._line.stamp(here.anchor))
        self._hold(here)
        return here

    def _first(self, newest: int) -> tuple[int, bool]:
        asked, moment = self._options.starting_version, self._options.starting_timestamp
        branch = self._line.branch
        if moment is not None:
            if shown(self._line.stamp(1)) > moment:
                return 1, False
            return find_moment(self._line.location, branch, moment).version + 1, False
        if asked is None:
            return newest, True
        if asked == LATEST:
            return newest + 1, False
        if isinstance(asked, str):
            asked = self._named(asked)
        if asked > newest or self._line.find(asked) is None or (asked > 1 and self._line.find(asked - 1) is None):
            problem = missing_version(asked, branch, [*versions.version_numbers(self._line.location, branch)])
            if asked <= newest:
                oldest = self._line.oldest(newest)
                problem = errors.NotFound(
                    f"The changes of version {asked} of '{branch or MAIN}' are unknown: versions are gone.",
                    hint=f"Begin with version {source_rules.resume_after_loss(oldest)}, or leave starting_version out "
                    "to begin with a snapshot of the newest version.",
                )
            raise problem
        return asked, False

    def _named(self, ref: str) -> int:
        """The version of a ref, which must be an ancestor of the branch or on it."""
        pin = resolve_expression(self._line.location, ref, self._line.branch)
        if (pin.branch, pin.version) not in {(own.branch, own.version) for own in self._line.pins(pin.version)}:
            raise errors.Refused(
                f"'{ref}' is {pin}, which did not lead to branch '{self._line.branch or MAIN}'.",
                hint="Begin with a version of the branch, or with a version that it descends from.",
            )
        return pin.version

    def _checked(self, start: StreamOffset, newest: int) -> StreamOffset:
        """The offset, or a new one if its base is gone and the stream may continue."""
        if self._nothing_new == (start, newest):
            return start
        reason = self._difference(start)
        if reason:
            return self._lost(start, newest, reason)
        self._nothing_new = start, newest
        return start

    def _difference(self, offset: StreamOffset) -> str | None:
        """Why an offset does not match the current branch."""
        name = self._line.branch or MAIN
        if offset.line != self._line.identity:
            return f"Branch '{name}' was deleted and created again since this stream read it."
        if not offset.stamp:
            return None
        stamp = self._line.stamp_now(offset.anchor)
        if not stamp:
            return f"Version {offset.anchor} of '{name}' is gone, so later changes are unknown."
        if stamp != offset.stamp:
            self._line.forget()
            self._parts.forget()
            return (
                f"Version {offset.anchor} of '{name}' is not the one that this stream read: the dataset is a new one."
            )
        return None

    def _lost(self, here: StreamOffset, newest: int, reason: str) -> StreamOffset:
        if self._options.fail_on_data_loss:
            raise self._refusal(reason)
        oldest = self._line.oldest(newest)
        version = source_rules.resume_after_loss(oldest)
        self._line.forget()
        self._parts.forget()
        _log.warning(
            "%s The stream continues with the changes of version %d; earlier ones may be missing.", reason, version
        )
        return source_rules.begun(self._line.identity, version, False, self._line.stamp(version - 1), here.losses + 1)

    def _refusal(self, reason: str) -> errors.Refused:
        kept = "With option('query_id', ...), a tag keeps the versions that a stream still has to read."
        if self._tag:
            kept = f"Cleanups of lance_spark keep the versions after tag '{self._tag}'; those of other tools do not."
        return errors.Refused(
            reason,
            hint="A new query, with its own checkpoint, begins with a snapshot of all existing rows; rows that came "
            "and went since then are lost. To continue with the oldest existing version and skip missing ones, restart "
            f"with option('fail_on_data_loss', 'false'). {kept}",
        )

    def _hold(self, here: StreamOffset) -> None:
        if not self._knows_tag:
            tag = tag_of(self._line.location, self._options, self._line.branch)
            self._tag, self._knows_tag = tag, True
        version = max(1, here.anchor)
        if self._tag is not None and not hold(self._line.location, self._tag, self._line.pins(version)):
            _log.warning("The tag '%s' could not be moved to version %d.", self._tag, version)


def shown(stamp: int) -> datetime:
    """A commit time in nanoseconds as pylance's ``versions()`` shows it, from where users copy it.

    pylance uses a double, whose steps are 256 ns here, so one version in eight is off by a microsecond: a stream from
    that moment on would begin before the version.
    """
    return moment_at(int(float(stamp)))


# --- The history of one branch

_KEPT = 4
"""Number of versions kept in memory: neighbors are compared, and manifests may be large."""


class StreamLine:
    """A branch by name. :meth:`look` finds which branch currently has the name, and its newest version."""

    def __init__(self, location: DatasetLocation, branch: str | None) -> None:
        self.location, self.branch = location, branch
        self.identity = ""
        """Identity of the branch that :meth:`look` found; "" for main."""
        self._branches: Mapping[str, Branch] = {}
        self._known: OrderedDict[int, ReadVersion] = OrderedDict()
        self._snapshots: OrderedDict[PinnedVersion, Snapshot] = OrderedDict()

    def look(self) -> int:
        """The newest version. Raises NotFound if the branch is gone."""
        if self.branch is not None:
            entry = refs.read_branch(self.location, self.branch)
            if entry is None:
                check_branch(self.location, self.branch)
            elif entry.identity != self.identity:
                self.forget()
                self.identity = entry.identity
                self._branches = refs.read_branches(self.location).branches
        newest = next(versions.newest_first(self.location, self.branch), None)
        return pin_latest(self.location, self.branch).version if newest is None else newest[0]

    def forget(self) -> None:
        """Discard everything that was read: the dataset is another one."""
        self._known.clear()
        self._snapshots.clear()

    def pins(self, version: int) -> tuple[PinnedVersion, ...]:
        """The places of a version: on the branch or on an ancestor; on both for the version it was created from."""
        own = feed_rules.at_or_before(PinnedVersion(self.branch, version), self._branches)
        entry = self._branches.get(own.branch or "")
        fork = None if entry is None else entry.fork
        return (fork, own) if fork is not None and fork.version == version else (own,)

    def find(self, version: int) -> ReadVersion | None:
        """A version; None if it is gone, and before the first."""
        if version < 1:
            return None
        known = self._known.get(version)
        if known is not None:
            return known
        for pin in self.pins(version):
            content = versions.find_manifest(self.location, pin)
            if content is not None:
                return self._keep(pin, content)
        return None

    def stamp(self, version: int) -> int:
        """Commit time in nanoseconds; 0 before the first version and for a missing one."""
        found = self.find(version)
        return 0 if found is None else found.pin.stamp or 0

    def stamp_now(self, version: int) -> int:
        """Like :meth:`stamp`, for the current version, ignoring what was read before."""
        self._known.pop(version, None)
        return self.stamp(version)

    def snapshot(self, found: ReadVersion) -> Snapshot:
        known = self._snapshots.get(found.pin)
        if known is None:
            contents = versions.contents_of(self.location, found.pin, found.content)
            known = self._snapshots[found.pin] = versions.snapshot_of(self.location, found.pin, contents)
            while len(self._snapshots) > _KEPT:
                self._snapshots.popitem(last=False)
        return known

    def before(self, version: int) -> ReadVersion | None:
        """The version to compare with; None if there is none or it is gone."""
        while True:
            version -= 1
            found = self.find(version)
            # The first half of a version copied from another dataset has no rows; the next one brings them.
            if found is None or not feed_rules.begins_copy(found.transaction):
                return found

    def oldest(self, newest: int) -> int:
        """The start of the unbroken sequence of versions up to the newest one, on the branch itself."""
        known = {*versions.version_numbers(self.location, self.branch)}
        oldest = newest
        while oldest - 1 in known:
            oldest -= 1
        return oldest

    def _keep(self, pin: PinnedVersion, content: bytes) -> ReadVersion:
        head = decode_head(content)
        if head.version != pin.version:
            raise errors.CorruptData(
                f"The manifest of version {pin} of {self.location.uri} holds version {head.version}.",
                hint=hints.of(hints.FSCK, " shows details."),
            )
        stamped = PinnedVersion(pin.branch, pin.version, head.timestamp_ns)
        found = ReadVersion(stamped, content, versions.transaction_of(self.location, pin.branch, content))
        self._known[pin.version] = found
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return found


# --- Finding new rows in a version with compactions, by deletion files only


class TrackedVersion(NamedTuple):
    """A version, and the positions of a stream's columns in it."""

    snapshot: Snapshot
    columns: ColumnTrack


def rows_of_merge(
    location: DatasetLocation, before: TrackedVersion, after: TrackedVersion, by: Transaction | None
) -> Mapping[int, NewRows] | None:
    """The new rows of each fragment that a version added, by id; None if it may have done more than add rows.

    Raises NotFound and CorruptData for a deletion file of either version.
    """
    rewrites = () if by is None else read_rewrites(by.properties)
    if not rewrites:
        return None
    changes = match(before.snapshot.contents, after.snapshot.contents)
    stayed = [entry for pair in changes.changed for entry in (pair.before, pair.after)]
    touched = [*changes.removed, *changes.added, *stayed]
    paths = {path for each in rewrites for path in each.paths} | {file.path for each in touched for file in each.files}
    old, new = (version.snapshot.contents.fragments_with(paths) for version in (before, after))
    reader = DeletionReader(location, after.snapshot.pin, lambda uri: DatasetLocation(uri, location.options))
    deleted = known_deletions(reader, (Held(before.snapshot, old), Held(after.snapshot, new)), rewrites)
    step = source_rules.MergedStep(tuple(old), tuple(new), rewrites, _compared(before.columns, after.columns))
    return source_rules.new_rows(step, {entry.id for entry in changes.added}, deleted)


def _compared(old: ColumnTrack, new: ColumnTrack) -> frozenset[int]:
    """The fields of the columns that both versions have. The values of a new column are not a change of rows."""
    same = [place for place, number in enumerate(new.ids) if number == old.ids[place]]
    return frozenset().union(*(old.fields[place] | new.fields[place] for place in same))


# --- The parts of each version

_KEPT_PARTS = 256
"""Number of versions whose parts are kept: a batch is planned twice, for its end and for its tasks."""


class Part(NamedTuple):
    """The unit that batches never divide: one fragment, or all rows of a version that must be compared."""

    pieces: tuple[Piece, ...]
    reading: FeedReading | None = None
    """None in a stream of appended rows."""
    pairing: bool = False
    recognizable: bool = True
    rows: NewRows | None = None
    """For a fragment that also has older rows: the rows to give. None for all that are not deleted."""

    @property
    def size(self) -> PartSize:
        return PartSize(len(self.pieces), sum(piece.size for piece in self.pieces))


class VersionParts(NamedTuple):
    version: int
    parts: tuple[Part, ...] = ()
    problem: errors.LanceSparkError | None = None
    """Why the stream cannot pass it."""
    lost: bool = False
    """Whether the reason is that it, or the version before it, is gone."""

    @property
    def size(self) -> VersionSize:
        return VersionSize(self.version, [part.size for part in self.parts], self.problem is not None)


@dataclass(frozen=True)
class StreamColumns:
    """The columns of a stream, fixed when the query began."""

    read: PinnedRead
    """The version that they are from, and the options for reading it."""
    fields: tuple[Field, ...]
    """All fields of that version."""
    schema: pa.Schema
    """Top-level columns as the stream gives them."""
    feed: FeedColumns | None = None
    """None in a stream of appended rows."""

    @property
    def pin(self) -> PinnedVersion:
        return self.read.pin

    @property
    def names(self) -> tuple[str, ...]:
        """The columns to read, without those that pylance generates. A feed may read the size of a blob by its name."""
        read = self.schema if self.feed is None else self.feed.schema
        return tuple(name for name in read.names if self.feed is not None or name not in ROW_COLUMNS)


class PartsReader:
    """Reads versions, each once while it is remembered."""

    def __init__(self, line: StreamLine, columns: StreamColumns, options: StreamReadOptions) -> None:
        self._line, self._columns, self._options = line, columns, options
        self._known: OrderedDict[tuple[int, bool], VersionParts] = OrderedDict()
        self._tracks: dict[int, ColumnTrack] = {
            columns.pin.version: feed_rules.track(columns.fields, self._columns.names)
        }

    def forget(self) -> None:
        self._known.clear()

    def parts(self, version: int, whole: bool) -> VersionParts:
        """What a version gives: its changes or, if ``whole``, all its rows."""
        known = self._known.get((version, whole))
        if known is None:
            try:
                known = VersionParts(version, self._read(version, whole))
            except _Gone as gone:
                return VersionParts(version, problem=gone, lost=True)
            except errors.LanceSparkError as problem:
                return VersionParts(version, problem=problem)
            self._known[version, whole] = known
            while len(self._known) > _KEPT_PARTS:
                self._known.popitem(last=False)
        return known

    def _read(self, version: int, whole: bool) -> tuple[Part, ...]:
        found = self._line.find(version)
        if found is None:
            raise _gone(version, self._line)
        if not whole and (feed_rules.changes_no_rows(found.transaction) or feed_rules.begins_copy(found.transaction)):
            return ()
        after = self._line.snapshot(found)
        columns = self._track(after)
        commit = commit_of(after, found.pin.branch)
        before = None if whole else self._line.before(version)
        if before is None and not whole and version > 1 and not self._begins(version):
            raise _gone(version - 1, self._line)
        self._check(after, columns)
        if before is None:
            pieces = tuple(feed_rules.whole_pieces(after, commit, columns))
            return self._as_parts(VersionPieces(pieces), after.contents.has_stable_row_ids)
        return self._changed(self._line.snapshot(before), after, found, columns, commit)

    def _begins(self, version: int) -> bool:
        """Whether the only version before it is the empty first half of a copy."""
        first = self._line.find(1)
        return version == 2 and first is not None and feed_rules.begins_copy(first.transaction)

    def _changed(
        self, before: Snapshot, after: Snapshot, found: ReadVersion, columns: ColumnTrack, commit: Commit
    ) -> tuple[Part, ...]:
        names, by = self._columns.names, found.transaction
        step = feed_rules.StepReader(after.contents.fields, names, columns).forward(before, after, commit, by)
        if self._columns.feed is not None:
            stable = before.contents.has_stable_row_ids and after.contents.has_stable_row_ids
            return self._as_parts(step, stable)
        old = TrackedVersion(
            before, feed_rules.tracked_to(before.contents.fields, columns, names, feed_rules.replaces_all(by))
        )
        effect = _effect(step.pieces, {at for at in range(len(names)) if old.columns.ids[at] != columns.ids[at]})
        added = [piece for piece in step.pieces if piece.before is None]
        if source_rules.meaning(effect) is not CommitMeaning.CHANGE:
            return tuple(Part((piece,)) for piece in added)
        if source_rules.may_have_moved(effect):
            chosen = rows_of_merge(self._line.location, old, TrackedVersion(after, columns), by)
            if chosen is not None:
                return tuple(_chosen_parts(added, chosen))
        if self._options.skip_change_commits:
            return ()
        trace = None if by is None else read_trace(by.properties)
        merged = trace.source if trace is not None and trace.action in (MERGE, PUBLISH) else None
        raise source_rules.refusal(found.pin, None if by is None else by.operation, merged)

    def _as_parts(self, told: VersionPieces, stable: bool) -> tuple[Part, ...]:
        feed = self._columns.feed
        if feed is None:
            return tuple(Part((piece,)) for piece in told.pieces)
        images = self._options.images
        options = FeedOptions(images=images)  # type: ignore[arg-type]  # one of three words, checked where it is parsed
        reading = FeedReading(self._line.location, feed, options, stable and not feed.key)
        plan = feed_rules.arrange(reading, [told])
        parts = [Part((piece,), plan.reading) for piece in plan.direct]
        if plan.to_pair:
            parts.append(Part(plan.to_pair, plan.reading, True, not plan.unrecognizable))
        return tuple(parts)

    def _track(self, after: Snapshot) -> ColumnTrack:
        """The positions of the columns in a version: for older versions traced backwards, for newer ones by name."""
        version, fields = after.pin.version, after.contents.fields
        if fields == self._columns.fields:
            return self._tracks[self._columns.pin.version]
        if version > self._columns.pin.version:
            return feed_rules.track(fields, self._columns.names)
        return self._tracks.get(version) or self._track_back(version) or feed_rules.track(fields, self._columns.names)

    def _track_back(self, version: int) -> ColumnTrack | None:
        """Trace columns backwards, as one may have been renamed. None if a version in between is gone."""
        newer = min(known for known in self._tracks if known > version)
        here, fields = self._tracks[newer], None if newer != self._columns.pin.version else self._columns.fields
        newest = self._line.find(newer)
        replaced = feed_rules.replaces_all(None if newest is None else newest.transaction)
        for number in range(newer - 1, version - 1, -1):
            found = self._line.find(number)
            if found is None:
                return None
            older = self._line.snapshot(found).contents.fields
            if older != fields or replaced:
                here = feed_rules.tracked_to(older, here, self._columns.names, replaced)
            self._tracks[number], fields, replaced = here, older, feed_rules.replaces_all(found.transaction)
        return here

    def _check(self, after: Snapshot, columns: ColumnTrack) -> None:
        """Raise SchemaMismatch for a column that a version dropped, or whose type cannot be read."""
        if after.contents.fields == self._columns.fields:
            return
        if after.pin.version > self._columns.pin.version:
            for name, known in zip(self._columns.names, columns.names, strict=True):
                if known is None:
                    raise errors.SchemaMismatch(
                        f"Version {after.pin} no longer has column '{name}', which this stream reads: it was dropped "
                        "or renamed.",
                        hint=_RESTART,
                    )
        options = self._columns.read.options
        every = fragment_reads.ScanColumns(
            fragment_reads.column_names(self._line.location, after.pin),
            blobs="all_binary" if options.blob_handling == "bytes" else "blobs_descriptions",
        )
        types = fragment_reads.schema_of(self._line.location, after.pin, every)
        shown = self._columns.schema if self._columns.feed is None else self._columns.feed.schema
        for name, known in zip(self._columns.names, columns.names, strict=True):
            blob = self._columns.feed is not None and name in self._columns.feed.blobs
            if known is None or blob:
                continue
            reason = why_not(types.field(known).type, shown.field(name).type, drop_fields=True)
            if reason:
                raise errors.SchemaMismatch(
                    f"Version {after.pin} has column '{known}' as {types.field(known).type}, which this stream cannot "
                    f"read as {shown.field(name).type}: {reason}.",
                    hint=_RESTART,
                )
        if options.filter is not None:
            fragment_reads.check_filter(fragment_reads.Scan(self._line.location, after.pin, every, options.filter))


_RESTART = (
    "Restart the query from its checkpoint: it then has the columns of the newest version. A query with state, such as "
    "an aggregation, or a sink with fixed columns may need option('columns', ...) with those that stay."
)


class _Gone(errors.NotFound):
    """A version no longer exists."""


def _gone(version: int, line: StreamLine) -> _Gone:
    return _Gone(f"Version {line.pins(version)[-1]} is gone, so the stream cannot find what it still has to read.")


def _effect(pieces: tuple[Piece, ...], other: set[int]) -> Effect:
    """``other``: positions of columns that are not the same in both versions, such as an added one."""
    both = [piece for piece in pieces if piece.before is not None and piece.after is not None]
    return Effect(
        added=sum(piece.before is None for piece in pieces),
        removed=sum(piece.after is None for piece in pieces),
        deleted=sum(piece.deletes or piece.inserts for piece in both),
        rewritten=sum(not other.issuperset(piece.rewritten) for piece in both),
    )


def _chosen_parts(added: Iterable[Piece], chosen: Mapping[int, NewRows]) -> Iterator[Part]:
    """Fragments with some new rows. A fragment whose rows are all new has no chosen rows."""
    for piece in added:
        rows = None if piece.after is None else chosen[piece.after.fragment]
        if rows is None or not rows.total:
            continue
        if rows.total == piece.rows:
            yield Part((piece,))
            continue
        size = piece.size * rows.total // max(1, piece.rows)
        yield Part((piece._replace(size=size, rows=rows.total),), rows=rows)


# --- The tag of a reading stream: cleanups keep its version, and ours also the later ones


def tag_of(location: DatasetLocation, options: StreamReadOptions, branch: str | None) -> str | None:
    """The name of the tag of a stream on a branch; None if nothing identifies the stream.

    Raises InvalidOption for an id that is invalid in a tag, and NotFound, CorruptData or StorageFailure for a
    checkpoint without an id.
    """
    if options.query_id is not None:
        return source_tag(options.query_id, branch)
    if options.checkpoint is not None:
        return source_tag(read_query_id(options.checkpoint, location.storage_options), branch)
    return None


def hold(location: DatasetLocation, name: str, pins: tuple[PinnedVersion, ...]) -> bool:
    """Point the tag at the last existing one of a version's places; returns whether it points there now.

    A store without write access does not stop the stream: the tag then keeps too much or nothing, and a missing version
    is noticed when it is read. Nor does a catalog that keeps the table's versions: cleanups leave such a table alone.
    """
    if keeps_versions(location):
        return False
    pin = next((each for each in reversed(pins) if versions.has_version(location, each)), None)
    if pin is None:
        return False
    try:
        known = refs.read_tag(location, name)
        if known is not None and (known.branch, known.version) == (pin.branch, pin.version):
            return True
        tags = refs.TagWriter(location)
        try:
            tags.move(name, pin) if known is not None else tags.create(name, pin)
        except (errors.AlreadyExists, errors.NotFound):
            return False
    except errors.StorageFailure:
        return False
    if versions.has_version(location, pin):
        return True
    tags.delete(name)  # a cleanup just removed the version: the next one would stop at a tag that points nowhere
    return False
