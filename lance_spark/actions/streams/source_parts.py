"""What each version gives to a stream, part by part, and why a stream cannot go through a version."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from lance_spark.actions.changes import commit_of
from lance_spark.actions.read import PinnedRead
from lance_spark.actions.streams.source_line import LineVersion, StreamLine
from lance_spark.actions.streams.source_merged import TrackedVersion, rows_of_merge
from lance_spark.errors import LanceSparkError, NotFound, SchemaMismatch
from lance_spark.feed.model import Commit, FeedColumns, FeedOptions, FeedReading, Piece, VersionPieces, arrange
from lance_spark.feed.pieces import (
    ColumnTrack,
    StepReader,
    begins_copy,
    changes_no_rows,
    replaces_all,
    track,
    tracked_to,
    whole_pieces,
)
from lance_spark.manifest.contents import Field
from lance_spark.manifest.transactions import Transaction
from lance_spark.merge.snapshot import Snapshot
from lance_spark.merge.trace import MERGE, read_trace
from lance_spark.options.stream_read import StreamReadOptions
from lance_spark.refs.model import PinnedVersion
from lance_spark.schema.casts import why_not
from lance_spark.schema.projection import ROW_COLUMNS
from lance_spark.store import scanning
from lance_spark.streams.source_commits import CommitMeaning, Effect, may_have_moved, meaning, refusal
from lance_spark.streams.source_merged import NewRows
from lance_spark.streams.source_plan import PartSize, VersionSize

_KEPT = 256
"""Versions whose parts are kept: a batch is planned twice, once for its end and once for its tasks."""


class Part(NamedTuple):
    """What is never divided among batches: one fragment, or all rows of a version that have to be compared."""

    pieces: tuple[Piece, ...]
    reading: FeedReading | None = None
    """None in a stream of appended rows."""
    pairing: bool = False
    recognizable: bool = True
    rows: NewRows | None = None
    """Of a fragment that has older rows, too: the rows to give. None for all that are not deleted."""

    @property
    def size(self) -> PartSize:
        """What reading it takes."""
        return PartSize(len(self.pieces), sum(piece.size for piece in self.pieces))


class VersionParts(NamedTuple):
    """What a version gives."""

    version: int
    parts: tuple[Part, ...] = ()
    problem: LanceSparkError | None = None
    """Why the stream cannot go through it."""
    lost: bool = False
    """Whether that is because it, or the version before it, is gone."""

    @property
    def size(self) -> VersionSize:
        """What planning needs to know."""
        return VersionSize(self.version, [part.size for part in self.parts], self.problem is not None)


@dataclass(frozen=True)
class StreamColumns:
    """The columns of a stream, which stay what they were when the query began."""

    read: PinnedRead
    """The version that they are of, and what a read of it would be asked for."""
    fields: tuple[Field, ...]
    """All fields of that version."""
    schema: pa.Schema
    """Top-level columns as they are given."""
    feed: FeedColumns | None = None
    """None in a stream of appended rows."""

    @property
    def pin(self) -> PinnedVersion:
        """The version that they are of."""
        return self.read.pin

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns that are read, without those that pylance makes."""
        read = self.schema if self.feed is None else self.feed.schema
        return tuple(name for name in read.names if self.feed is not None or name not in ROW_COLUMNS)


class PartsReader:
    """Reads versions, each once as long as it is remembered."""

    def __init__(self, line: StreamLine, columns: StreamColumns, options: StreamReadOptions) -> None:
        self._line, self._columns, self._options = line, columns, options
        self._known: OrderedDict[tuple[int, bool], VersionParts] = OrderedDict()
        self._tracks: dict[int, ColumnTrack] = {columns.pin.version: track(columns.fields, self._read_names)}

    def forget(self) -> None:
        """Read everything again."""
        self._known.clear()

    def parts(self, version: int, whole: bool) -> VersionParts:
        """What a version gives: what it changed or, if ``whole``, all its rows."""
        known = self._known.get((version, whole))
        if known is None:
            try:
                known = VersionParts(version, self._read(version, whole))
            except _Gone as gone:
                return VersionParts(version, problem=gone, lost=True)
            except LanceSparkError as problem:
                return VersionParts(version, problem=problem)
            self._known[version, whole] = known
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return known

    @property
    def _read_names(self) -> tuple[str, ...]:
        # A feed may read the size of a blob, which stands under the blob's name.
        return self._columns.names

    def _read(self, version: int, whole: bool) -> tuple[Part, ...]:
        found = self._line.find(version)
        if found is None:
            raise _gone(version, self._line)
        if not whole and (changes_no_rows(found.transaction) or begins_copy(found.transaction)):
            return ()
        after = self._line.snapshot(found)
        columns = self._track(after)
        commit = commit_of(after, found.pin.branch)
        before = None if whole else self._line.before(version)
        if before is None and not whole and version > 1 and not self._begins(version):
            raise _gone(version - 1, self._line)
        self._check(after, columns)
        if before is None:
            pieces = tuple(whole_pieces(after, commit, columns))
            return self._as_parts(VersionPieces(pieces), after.contents.has_stable_row_ids)
        return self._changed(self._line.snapshot(before), after, found, columns, commit)

    def _begins(self, version: int) -> bool:
        """Whether everything before a version is the empty first half of a copy."""
        first = self._line.find(1)
        return version == 2 and first is not None and begins_copy(first.transaction)

    def _changed(
        self, before: Snapshot, after: Snapshot, found: LineVersion, columns: ColumnTrack, commit: Commit
    ) -> tuple[Part, ...]:
        names, by = self._read_names, found.transaction
        step = StepReader(after.contents.fields, names, columns).forward(before, after, commit, by)
        if self._columns.feed is not None:
            stable = before.contents.has_stable_row_ids and after.contents.has_stable_row_ids
            return self._as_parts(step, stable)
        old = TrackedVersion(before, tracked_to(before.contents.fields, columns, names, replaces_all(by)))
        effect = _effect(step.pieces, {at for at in range(len(names)) if old.columns.ids[at] != columns.ids[at]})
        added = [piece for piece in step.pieces if piece.before is None]
        if meaning(effect) is not CommitMeaning.CHANGE:
            return tuple(Part((piece,)) for piece in added)
        if may_have_moved(effect):
            chosen = rows_of_merge(self._line.location, old, TrackedVersion(after, columns), by)
            if chosen is not None:
                return tuple(_chosen_parts(added, chosen))
        if self._options.skip_change_commits:
            return ()
        trace = None if by is None else read_trace(by.properties)
        merged = trace.source if trace is not None and trace.action == MERGE else None
        raise refusal(found.pin, None if by is None else by.operation, merged)

    def _as_parts(self, told: VersionPieces, stable: bool) -> tuple[Part, ...]:
        feed = self._columns.feed
        if feed is None:
            return tuple(Part((piece,)) for piece in told.pieces)
        images = self._options.images
        options = FeedOptions(images=images)  # type: ignore[arg-type]  # one of three words, checked where it is parsed
        reading = FeedReading(self._line.location, feed, options, stable and not feed.key)
        plan = arrange(reading, [told])
        parts = [Part((piece,), plan.reading) for piece in plan.direct]
        if plan.to_pair:
            parts.append(Part(plan.to_pair, plan.reading, True, not plan.unrecognizable))
        return tuple(parts)

    def _track(self, after: Snapshot) -> ColumnTrack:
        """Where the columns are in a version: from the version that they are of, backwards; later on by their names."""
        version, fields = after.pin.version, after.contents.fields
        if fields == self._columns.fields:
            return self._tracks[self._columns.pin.version]
        if version > self._columns.pin.version:
            return track(fields, self._read_names)
        return self._tracks.get(version) or self._track_back(version) or track(fields, self._read_names)

    def _track_back(self, version: int) -> ColumnTrack | None:
        """A column may have been renamed since. None if a version in between is gone."""
        newer = min(known for known in self._tracks if known > version)
        here, fields = self._tracks[newer], None if newer != self._columns.pin.version else self._columns.fields
        replaced = replaces_all(_transaction(self._line.find(newer)))
        for number in range(newer - 1, version - 1, -1):
            found = self._line.find(number)
            if found is None:
                return None
            older = self._line.snapshot(found).contents.fields
            if older != fields or replaced:
                here = tracked_to(older, here, self._read_names, replaced)
            self._tracks[number], fields, replaced = here, older, replaces_all(found.transaction)
        return here

    def _check(self, after: Snapshot, columns: ColumnTrack) -> None:
        """Raise SchemaMismatch for a column that a version dropped, or has in a type that cannot be read."""
        if after.contents.fields == self._columns.fields:
            return
        if after.pin.version > self._columns.pin.version:
            for name, known in zip(self._read_names, columns.names, strict=True):
                if known is None:
                    raise SchemaMismatch(
                        f"Version {after.pin} has no column '{name}' any more, which this stream reads: it was dropped "
                        "or renamed.",
                        hint=_RESTART,
                    )
        options = self._columns.read.options
        every = scanning.ScanColumns(
            scanning.column_names(self._line.location, after.pin),
            blobs="all_binary" if options.blob_handling == "bytes" else "blobs_descriptions",
        )
        types = scanning.schema_of(self._line.location, after.pin, every)
        shown = self._columns.schema if self._columns.feed is None else self._columns.feed.schema
        for name, known in zip(self._read_names, columns.names, strict=True):
            blob = self._columns.feed is not None and name in self._columns.feed.blobs
            reason = (
                None
                if known is None or blob
                else why_not(types.field(known).type, shown.field(name).type, drop_fields=True)
            )
            if reason:
                raise SchemaMismatch(
                    f"Version {after.pin} has column '{known}' as {types.field(known).type}, which this stream cannot "
                    f"read as {shown.field(name).type}: {reason}.",
                    hint=_RESTART,
                )
        if options.filter is not None:
            scanning.check_filter(scanning.Scan(self._line.location, after.pin, every, options.filter))


_RESTART = (
    "Restart the query from its checkpoint: it then has the columns of the newest version. A query that remembers "
    "rows, as aggregations do, or a sink with fixed columns may need option('columns', ...) with those that stay."
)


class _Gone(NotFound):
    """A version is not there any more."""


def _gone(version: int, line: StreamLine) -> _Gone:
    return _Gone(f"Version {line.pins(version)[-1]} is gone: what the stream still has to read cannot be told.")


def _effect(pieces: tuple[Piece, ...], other: set[int]) -> Effect:
    """``other``: places of columns that are not the same ones in both versions, such as one that was added."""
    both = [piece for piece in pieces if piece.before is not None and piece.after is not None]
    return Effect(
        added=sum(piece.before is None for piece in pieces),
        removed=sum(piece.after is None for piece in pieces),
        deleted=sum(piece.deletes or piece.inserts for piece in both),
        rewritten=sum(not other.issuperset(piece.rewritten) for piece in both),
    )


def _chosen_parts(added: Iterable[Piece], chosen: Mapping[int, NewRows]) -> Iterator[Part]:
    """Fragments of which some rows are new. Of a fragment whose rows are all new, no rows are chosen."""
    for piece in added:
        rows = None if piece.after is None else chosen[piece.after.fragment]
        if rows is None or not rows.total:
            continue
        if rows.total == piece.rows:
            yield Part((piece,))
            continue
        size = piece.size * rows.total // max(1, piece.rows)
        yield Part((piece._replace(size=size, rows=rows.total),), rows=rows)


def _transaction(found: LineVersion | None) -> Transaction | None:
    return None if found is None else found.transaction
