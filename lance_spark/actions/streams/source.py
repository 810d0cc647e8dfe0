"""``readStream``: how far a stream has come, how far its next batch goes, and what a batch reads."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from lance_spark.actions.changes import feed_columns, find_moment
from lance_spark.actions.expressions import resolve_expression
from lance_spark.actions.pin_read import pin_read
from lance_spark.actions.read import PinnedRead, read_schema
from lance_spark.actions.streams.source_line import StreamLine
from lance_spark.actions.streams.source_parts import Part, PartsReader, StreamColumns, VersionParts
from lance_spark.actions.streams.source_tag import hold, tag_of
from lance_spark.errors import InvalidOption, NotFound, Refused
from lance_spark.feed.model import FeedColumns, FeedOptions
from lance_spark.options.stream_read import (
    LATEST,
    StreamReadOptions,
    parse_stream_options,
    split_stream_options,
)
from lance_spark.refs.model import RefSpec
from lance_spark.refs.names import MAIN
from lance_spark.refs.resolve import missing_version
from lance_spark.show.moments import moment_at
from lance_spark.store.scanning import Scan, ScanColumns, check_filter
from lance_spark.store.version_listing import version_numbers
from lance_spark.store.version_reader import read_contents
from lance_spark.streams.source_offsets import StreamOffset, StreamPlace, batch_start, begun, resume_after_loss
from lance_spark.streams.source_plan import NO_LIMITS, Limits, VersionSize, next_place

_log = logging.getLogger("lance_spark.streams")


@dataclass(frozen=True)
class StreamRead:
    """A stream as it was asked for. Its columns are those of the newest version at that time."""

    read: PinnedRead
    options: StreamReadOptions

    @property
    def limits(self) -> Limits:
        """What one batch reads at most."""
        return Limits(self.options.max_files, self.options.max_bytes, self.options.max_versions)


def stream_read(options: Mapping[str, str], pinned: PinnedRead | None = None) -> StreamRead:
    """Parse the options. ``pinned`` is what an earlier :func:`pin_read` found.

    Raises InvalidOption for bad options and NotFound for a missing table, dataset or branch.
    """
    own, rest = split_stream_options(options)
    parsed = parse_stream_options(own, rest)
    read = pinned or pin_read(rest)
    ref = read.options.ref
    if ref != RefSpec(branch=ref.branch):
        raise InvalidOption(
            "The path names one version behind its '@', and a stream goes on.",
            hint="Name a branch there, and where the stream begins by option('starting_version', ...).",
        )
    return StreamRead(read, parsed)


def stream_feed(stream: StreamRead) -> FeedColumns | None:
    """The columns of a change feed; None for a stream of rows. Raises NotFound, InvalidOption and Refused."""
    if not stream.options.changes:
        return None
    read = stream.read
    options = FeedOptions(read.options.columns, key=stream.options.key)
    return feed_columns(read.location, read.pin, read_contents(read.location, read.pin), options)


def stream_schema(stream: StreamRead) -> pa.Schema:
    """The Arrow schema of the rows that the stream gives, in the dataset's own types."""
    feed = stream_feed(stream)
    return read_schema(stream.read) if feed is None else feed.rows


class StreamSource:
    """One stream. It remembers nothing that it could not find out again, except for how far ``AvailableNow`` goes."""

    def __init__(self, stream: StreamRead, schema: pa.Schema, feed: FeedColumns | None) -> None:
        """``schema``: the columns to give, in the types that Spark takes; ``feed``: those of a change feed, so too.

        Raises InvalidOption for a filter that cannot be read: a task would say so late, and with a traceback.
        """
        self.stream, self._options = stream, stream.options
        read = stream.read
        if read.options.filter is not None:
            check_filter(Scan(read.location, read.pin, ScanColumns(()), read.options.filter))
        self._line = StreamLine(read.location, read.pin.branch)
        contents = read_contents(read.location, read.pin)
        columns = StreamColumns(read, contents.fields, schema, feed)
        self._parts = PartsReader(self._line, columns, self._options)
        self._nothing_new: tuple[StreamOffset, int] | None = None
        """Asked again and again, a store is asked less while nothing is committed."""
        self._tag: str | None = None
        self._knows_tag = False

    def newest(self) -> int:
        """The newest version of the branch. Raises NotFound where the branch is gone."""
        return self._line.look()

    def latest(self, start: StreamOffset | None, limits: Limits = NO_LIMITS, until: int | None = None) -> StreamOffset:
        """Where a batch ends that begins at an offset, None for the first one; the offset itself if nothing is new.

        Raises Refused for a version that changed rows, and for versions that are gone or of another dataset, as the
        options say; SchemaMismatch for columns that cannot be read any more; NotFound where the branch is gone.
        """
        newest = self._line.look()
        last = newest if until is None else min(newest, until)
        here = self._begin(last) if start is None else self._checked(start, newest)
        while True:
            place = next_place(here.next, self._sizes(here, last), limits)
            if place != here.next or place.version > last:
                return self._at(here, place)
            blocked = self._look_at(here, place.version)
            if blocked.problem is None:
                return here
            if not blocked.lost:
                raise blocked.problem
            here = self._lost(here, newest, blocked.problem.message)

    def parts(self, start: StreamOffset | None, end: StreamOffset) -> list[Part]:
        """What the batch between two offsets reads. The same each time, however often a batch is run.

        Raises Refused for versions that are gone meanwhile, unless that is not to stop the stream.
        """
        if start == end:
            return []
        self._line.look()
        reason = self._difference(end)
        if reason:
            if self._options.fail_on_data_loss:
                raise self._refusal(reason)
            _log.warning("%s A batch that was planned before gives nothing.", reason)
            return []
        begin = batch_start(start, end)
        return [part for each in self._batch(begin, end) for part in each]

    def commit(self, end: StreamOffset) -> None:
        """A batch is done, with all its rows: what led there is not needed any more."""
        self._hold(end)

    def _batch(self, begin: StreamOffset, end: StreamOffset) -> Iterator[tuple[Part, ...]]:
        last = end.next.version + (1 if end.next.file else 0)
        for version in range(begin.next.version, last):
            found = self._look_at(begin, version)
            if found.lost and not self._options.fail_on_data_loss:
                _log.warning("%s A batch that was planned before goes on without it.", found.problem)
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

    def _at(self, here: StreamOffset, place: StreamPlace) -> StreamOffset:
        moved = here.at(place, 0)
        return here if place == here.next else here.at(place, self._line.stamp(moved.anchor))

    def _begin(self, newest: int) -> StreamOffset:
        """The offset of a stream that has read nothing. Its tag is there before a version is read."""
        version, snapshot = self._first(newest)
        here = begun(self._line.identity, version, snapshot, 0)
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
            problem = missing_version(asked, branch, [*version_numbers(self._line.location, branch)])
            if asked <= newest:
                oldest = self._line.oldest(newest)
                problem = NotFound(
                    f"What version {asked} of '{branch or MAIN}' changed cannot be told: versions are gone.",
                    hint=f"Begin with version {resume_after_loss(oldest)}, or with a snapshot of the newest version: "
                    "leave starting_version out.",
                )
            raise problem
        return asked, False

    def _named(self, ref: str) -> int:
        """The version of a ref, which has to be one that led to the branch."""
        pin = resolve_expression(self._line.location, ref, self._line.branch)
        if (pin.branch, pin.version) not in {(own.branch, own.version) for own in self._line.pins(pin.version)}:
            raise Refused(
                f"'{ref}' is {pin}, which did not lead to branch '{self._line.branch or MAIN}'.",
                hint="Begin with a version of the branch, or of the one it was made from before that.",
            )
        return pin.version

    def _checked(self, start: StreamOffset, newest: int) -> StreamOffset:
        """The offset, unless what it counts from is gone. Then where to go on, if the stream is to go on."""
        if self._nothing_new == (start, newest):
            return start
        reason = self._difference(start)
        if reason:
            return self._lost(start, newest, reason)
        self._nothing_new = start, newest
        return start

    def _difference(self, offset: StreamOffset) -> str | None:
        """Why an offset is none of the branch as it is now."""
        name = self._line.branch or MAIN
        if offset.line != self._line.identity:
            return f"Branch '{name}' was deleted and made anew since this stream read it."
        if not offset.stamp:
            return None
        stamp = self._line.stamp_now(offset.anchor)
        if not stamp:
            return f"Version {offset.anchor} of '{name}' is gone: what came after it cannot be told."
        if stamp != offset.stamp:
            self._line.forget()
            self._parts.forget()
            return (
                f"Version {offset.anchor} of '{name}' is not the one that this stream read: the dataset was made anew."
            )
        return None

    def _lost(self, here: StreamOffset, newest: int, reason: str) -> StreamOffset:
        if self._options.fail_on_data_loss:
            raise self._refusal(reason)
        oldest = self._line.oldest(newest)
        version = resume_after_loss(oldest)
        self._line.forget()
        self._parts.forget()
        _log.warning(
            "%s The stream goes on with what version %d changed; what came before may be missing.", reason, version
        )
        return begun(self._line.identity, version, False, self._line.stamp(version - 1), here.losses + 1)

    def _refusal(self, reason: str) -> Refused:
        kept = "With option('query_id', ...) a tag keeps what a stream has to read."
        if self._tag:
            kept = f"Cleanups of lance_spark keep what comes after tag '{self._tag}'; those of other tools do not."
        return Refused(
            reason,
            hint="A new query, with a checkpoint of its own, begins with a snapshot of all rows that are there; those "
            "that came and went meanwhile are lost. To go on with the oldest version that is there, and do without "
            f"what is gone, restart with option('fail_on_data_loss', 'false'). {kept}",
        )

    def _hold(self, here: StreamOffset) -> None:
        if not self._knows_tag:
            tag = tag_of(self._line.location, self._options, self._line.branch)
            self._tag, self._knows_tag = tag, True
        version = max(1, here.anchor)
        if self._tag is not None and not hold(self._line.location, self._tag, self._line.pins(version)):
            _log.warning("The tag '%s' could not be moved to version %d.", self._tag, version)


def shown(stamp: int) -> datetime:
    """A commit time in nanoseconds as pylance's ``versions()`` shows it, which is what a user copies from.

    It goes through a double, whose steps are 256 ns here, and is a microsecond off for one version in eight: a stream
    from that moment on would have begun before the version.
    """
    return moment_at(int(float(stamp)))
