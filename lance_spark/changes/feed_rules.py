"""The change feed: its options and columns, the path between two versions, and the fragments to read for each step.

Manifests come in as values. What comes out is a plan: pieces of fragments, divided among tasks. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import pyarrow as pa

from lance_spark import hints
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import Branch, PinnedVersion
from lance_spark.errors import InvalidOption, Refused
from lance_spark.format.contents import Field, Fragment
from lance_spark.format.operations import FragmentPair, VersionSpan, match
from lance_spark.format.transactions import Transaction
from lance_spark.format.versions import ACTION, BEGIN, REORDERED, Deletions, Snapshot

CHANGE_TYPE, COMMIT_VERSION = "_change_type", "_commit_version"
COMMIT_TIMESTAMP, COMMIT_BRANCH = "_commit_timestamp", "_commit_branch"
INSERT, DELETE = "insert", "delete"
UPDATE_PREIMAGE, UPDATE_POSTIMAGE = "update_preimage", "update_postimage"
"""Spark's names for changes (since 4.2), the same as Delta's."""

Images = Literal["update", "post", "none"]
"""The rows of an update: both images, only the row after it, or a delete and an insert."""

COMMIT_FIELDS = (
    pa.field(COMMIT_VERSION, pa.int64()),
    pa.field(COMMIT_TIMESTAMP, pa.timestamp("us", "UTC")),
    pa.field(COMMIT_BRANCH, pa.string()),
)
FEED_FIELDS = (pa.field(CHANGE_TYPE, pa.string()), *COMMIT_FIELDS)
"""The columns after those of the table."""
CONTENT, IDENTITY, LOCAL = "__content", "__identity", "local"
"""Columns of rows that have to be paired: hashes of their values and of their identity, and a hash that all rows share
that may belong together."""
PAIRING_FIELDS = tuple(pa.field(name, pa.int64()) for name in (CONTENT, IDENTITY, LOCAL))


@dataclass(frozen=True)
class FeedOptions:
    """The options of the feed, as the user gave them."""

    columns: tuple[str, ...] | None = None
    """None for all columns of the table."""
    images: Images = "update"
    net: bool = False
    """Whether each row appears at most once, with all its changes combined."""
    key: tuple[str, ...] = ()
    """Columns that identify rows; empty for stable row ids or, without them, the table's key."""

    def __post_init__(self) -> None:
        if self.images not in get_args(Images):
            raise InvalidOption(f"images is {self.images!r}.", hint="Choose 'update', 'post' or 'none'.")
        for what, names in (("columns", self.columns or ()), ("key", self.key)):
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise InvalidOption(f"Column '{twice}' appears twice in {what}.")
        if self.columns == ():
            raise InvalidOption(
                "columns is empty: the feed would show nothing.", hint="Name a column, or leave it out."
            )


class Commit(NamedTuple):
    """The version that made a change, as the feed shows it."""

    version: int
    timestamp_us: int
    """Microseconds since 1970, UTC."""
    branch: str


class Side(NamedTuple):
    pin: PinnedVersion
    fragment: int
    deletions: Deletions | None
    columns: tuple[str | None, ...]
    """The version's name of each column of the feed; None for a column that it does not have."""


class Piece(NamedTuple):
    """A fragment that a version changed, added or removed."""

    commit: Commit
    before: Side | None
    """None for a fragment that was added."""
    after: Side | None
    """None for one that was removed."""
    rewritten: tuple[int, ...] = ()
    """Places of the columns of the feed whose values may differ in rows that both versions have."""
    deletes: bool = True
    inserts: bool = True
    size: int = 0
    """Approximate bytes to read."""
    rows: int = 0
    """Upper bound of the changed rows."""


class VersionPieces(NamedTuple):
    pieces: tuple[Piece, ...]
    recognizable: bool = True
    """Whether row ids, if the table has stable ones, identify its rows."""
    net: bool = False
    """Whether it stands for several versions, so that several of its rows may be the same row."""

    @property
    def needs_pairing(self) -> bool:
        """Whether rows of different fragments may be the same row."""
        return any(piece.deletes for piece in self.pieces) and any(piece.inserts for piece in self.pieces)


@dataclass(frozen=True)
class FeedColumns:
    """The columns of a feed, in its types. All are nullable, since an older version may lack them."""

    schema: pa.Schema
    """The shown columns, then those that are only read."""
    shown: int
    """How many are shown."""
    key: tuple[str, ...] = ()
    blobs: frozenset[str] = frozenset()
    """Columns of which only the size is read."""

    @property
    def rows(self) -> pa.Schema:
        return pa.schema([*self._shown, *FEED_FIELDS])

    @property
    def unpaired(self) -> pa.Schema:
        """The schema of rows that still have to be paired."""
        # A column of the table may have the same name as one of ours.
        plain = [pa.field(f"c{place}", field.type) for place, field in enumerate(self._shown)]
        return pa.schema([*plain, *COMMIT_FIELDS, *PAIRING_FIELDS])

    @property
    def _shown(self) -> list[pa.Field]:
        return list(self.schema)[: self.shown]


@dataclass(frozen=True)
class FeedReading:
    location: DatasetLocation
    columns: FeedColumns
    options: FeedOptions
    row_ids: bool = False
    """Whether stable row ids identify rows."""
    below: int | None = None
    """From this id on, two branches gave the same row ids to different rows; None if all ids are reliable."""


@dataclass(frozen=True)
class FeedPlan:
    """What to read, and how to turn it into changes."""

    reading: FeedReading
    direct: tuple[Piece, ...]
    """Their rows are changes as they are read."""
    to_pair: tuple[Piece, ...]
    """Their rows have to be compared with one another: within each version, or across all if ``net``."""
    unrecognizable: frozenset[int] = frozenset()
    """Versions whose row ids identify nothing."""

    @property
    def rows(self) -> int:
        """Upper bound of the rows to compare."""
        return sum(piece.rows for piece in self.to_pair)


def arrange(reading: FeedReading, told: Sequence[VersionPieces]) -> FeedPlan:
    """Which rows have to be compared. Rows of steps that only add or only remove need it only if ``net`` is requested.

    Rows that were changed in place are paired by their places.
    """
    told = [version for version in told if version.pieces]
    net = reading.options.net and len(told) > 1
    reading = replace(reading, options=replace(reading.options, net=net))
    if net:
        every = VersionPieces(tuple(piece for version in told for piece in version.pieces), net=True)
        return _arranged(reading, [every])
    return _arranged(reading, told)


def _arranged(reading: FeedReading, told: Sequence[VersionPieces]) -> FeedPlan:
    direct: list[Piece] = []
    to_pair: list[Piece] = []
    for version in told:
        rewritten = any(piece.rewritten for piece in version.pieces)
        if version.net and (rewritten or version.needs_pairing):
            to_pair += version.pieces
        elif version.needs_pairing:
            direct += [piece._replace(deletes=False, inserts=False) for piece in version.pieces if piece.rewritten]
            to_pair += [piece._replace(rewritten=()) for piece in version.pieces if piece.deletes or piece.inserts]
        else:
            direct += version.pieces
    unknown = frozenset(piece.commit.version for each in told if not each.recognizable for piece in each.pieces)
    return FeedPlan(reading, tuple(direct), tuple(to_pair), unknown)


# --- The path between two versions: back to their last common version, and forward from there
# A branch is a line below its fork, so each version is at the end of one line of spans. Merges are versions like
# any other: the path never leaves the line.


@dataclass(frozen=True)
class FeedPath:
    common: PinnedVersion
    back: tuple[VersionSpan, ...]
    """Versions behind ``since`` that the common one does not have, oldest first."""
    forward: tuple[VersionSpan, ...]
    """Versions from the common one to the end, oldest first."""


def line_of(pin: PinnedVersion, branches: Mapping[str, Branch]) -> tuple[VersionSpan, ...]:
    """All versions that lead to one, oldest first. The first version of a branch is the one it was made from."""
    spans = []
    while True:
        entry = None if pin.branch is None else branches.get(pin.branch)
        fork = None if entry is None else entry.fork
        begin = 0 if fork is None else fork.version
        if pin.version > begin:
            spans.append(VersionSpan(pin.branch, begin, pin.version))
        if fork is None:
            return tuple(reversed(spans))
        pin = PinnedVersion(fork.branch, min(fork.version, pin.version))


def path_between(since: PinnedVersion, until: PinnedVersion, branches: Mapping[str, Branch]) -> FeedPath:
    """The path from one version to another. Raises Refused if they have no common version."""
    common: PinnedVersion | None = None
    ours, theirs = line_of(since, branches), line_of(until, branches)
    for mine, other in zip(ours, theirs, strict=False):
        if mine.branch != other.branch:
            break
        common = PinnedVersion(mine.branch, min(mine.until, other.until))
        if mine.until != other.until:
            break
    if common is None:
        raise Refused(
            f"{since} and {until} have no common version, so no path leads from one to the other.",
            hint=hints.of(hints.DIFF, " compares any two versions."),
        )
    return FeedPath(common, _after(ours, common), _after(theirs, common))


def first_of(pin: PinnedVersion, branches: Mapping[str, Branch]) -> PinnedVersion:
    """The first version of the line that leads to one."""
    return PinnedVersion(line_of(pin, branches)[0].branch, 1)


def before(pin: PinnedVersion, branches: Mapping[str, Branch]) -> PinnedVersion | None:
    """The version that one was made from; None for the first one."""
    if pin.version <= 1:
        return None
    return at_or_before(PinnedVersion(pin.branch, pin.version - 1), branches)


def at_or_before(pin: PinnedVersion, branches: Mapping[str, Branch]) -> PinnedVersion:
    """The version of that number on the line of a branch: numbers below its fork are its parent's."""
    while pin.branch is not None and pin.branch in branches:
        fork = branches[pin.branch].fork
        if fork is None or pin.version >= fork.version:
            break
        pin = PinnedVersion(fork.branch, pin.version)
    return pin


def _after(line: tuple[VersionSpan, ...], common: PinnedVersion) -> tuple[VersionSpan, ...]:
    place = next(at for at, span in enumerate(line) if span.branch == common.branch)
    rest = [line[place]._replace(after=common.version), *line[place + 1 :]]
    return tuple(span for span in rest if span.after < span.until)


# --- The fragments to read for one version, from its manifest and the one before it

_OPEN_COST = 64 * 2**10
"""Bytes charged for opening a fragment."""
_CHANGE_NO_ROWS = frozenset(
    {"CreateIndex", "Rewrite", "ReserveFragments", "UpdateConfig", "UpdateBases", "UpdateMemWalState"}
)
"""Operations that leave the rows of the table the same; a compaction moves them to other files."""
_BRING_NO_ROWS_BACK = frozenset({"Append", "Delete", "Update"})
_REPLACES_ALL = "Overwrite"


def changes_no_rows(transaction: Transaction | None) -> bool:
    """Whether a version is known to have the same rows as the one before it, so that its fragments need no look."""
    return transaction is not None and (
        transaction.operation in _CHANGE_NO_ROWS or transaction.properties.get(REORDERED) == "true"
    )


def begins_copy(transaction: Transaction | None) -> bool:
    """Whether a version is the first half of a copy from another dataset.

    It has no rows. The next one brings them, and is compared with the version before the copy.
    """
    return transaction is not None and transaction.properties.get(ACTION) == BEGIN


class ColumnTrack(NamedTuple):
    ids: tuple[int | None, ...]
    """Ids of their fields; None for a column that the version does not have."""
    names: tuple[str | None, ...]
    """What the version calls them."""
    fields: tuple[frozenset[int], ...]
    """The ids of all their fields, nested ones included."""


def track(fields: Sequence[Field], columns: Sequence[str]) -> ColumnTrack:
    """The columns in a version, by their names."""
    ids = {field.name: field.id for field in fields if field.parent_id == -1}
    return _tracked([ids.get(name) for name in columns], fields)


def tracked_to(fields: Sequence[Field], here: ColumnTrack, columns: Sequence[str], replaced: bool) -> ColumnTrack:
    """The columns of a version, found in its neighbor with these fields.

    A renamed column keeps its id; a column whose type was changed keeps only its name. Ids of dropped columns may be
    reused later, so they are meaningful only between neighbors, and never if the table was ``replaced``. ``columns``
    are the names in the feed.
    """
    by_id = {field.id: field.name for field in fields if field.parent_id == -1}
    by_name = {name: field_id for field_id, name in by_id.items()}
    ids = [each if each in by_id and not replaced else None for each in here.ids]
    for candidates in (here.names, columns):
        for place, name in enumerate(candidates):
            found = None if name is None else by_name.get(name)
            if ids[place] is None and found not in ids:
                ids[place] = found
    return _tracked(ids, fields)


def _tracked(ids: Sequence[int | None], fields: Sequence[Field]) -> ColumnTrack:
    names = {field.id: field.name for field in fields if field.parent_id == -1}
    owner: dict[int, int] = {}
    inside: dict[int, set[int]] = {}
    for field in fields:
        owner[field.id] = owner.get(field.parent_id, field.id)
        inside.setdefault(owner[field.id], set()).add(field.id)
    return ColumnTrack(
        tuple(ids),
        tuple(None if each is None else names[each] for each in ids),
        tuple(frozenset() if each is None else frozenset(inside[each]) for each in ids),
    )


class StepReader:
    """Finds the pieces of steps between neighboring versions, moving away from ``until`` one step at a time."""

    def __init__(self, until: Sequence[Field], columns: Sequence[str], known: ColumnTrack | None = None) -> None:
        """``known``: where the columns are in ``until``, if their names do not tell."""
        self._columns = tuple(columns)
        self._fields, self._track = tuple(until), known or track(until, columns)

    def forward(self, before: Snapshot, after: Snapshot, commit: Commit, by: Transaction | None) -> VersionPieces:
        """The changes of a version. Steps come newest first."""
        new = self._moved(after, replaced=False)
        old = self._moved(before, replaced=replaces_all(by))
        returns = by is None or ACTION in by.properties or by.operation not in _BRING_NO_ROWS_BACK
        step = _Step(before, after, commit, old, new)
        return VersionPieces(tuple(step.pieces(returns)), not replaces_all(by))

    def first(self, snapshot: Snapshot, commit: Commit) -> VersionPieces:
        """Everything in the first version, which added it. Comes after all forward steps."""
        return VersionPieces(tuple(whole_pieces(snapshot, commit, self._moved(snapshot, replaced=False))))

    def back(self, before: Snapshot, after: Snapshot, commit: Commit, by: Transaction | None) -> VersionPieces:
        """The changes that revert a version. Steps come oldest first, after all forward steps."""
        old = self._moved(before, replaced=False)
        new = self._moved(after, replaced=replaces_all(by))
        step = _Step(after, before, commit, new, old)
        return VersionPieces(tuple(step.pieces(True)))

    def _moved(self, snapshot: Snapshot, replaced: bool) -> ColumnTrack:
        fields = snapshot.contents.fields
        if fields != self._fields or replaced:
            self._fields, self._track = fields, tracked_to(fields, self._track, self._columns, replaced)
        return self._track


def whole_pieces(
    snapshot: Snapshot, commit: Commit, columns: ColumnTrack, fragments: Iterable[Fragment] | None = None
) -> Iterator[Piece]:
    """All fragments of a version, or some, as those that it added."""
    for fragment in snapshot.contents.fragments() if fragments is None else fragments:
        side = Side(snapshot.pin, fragment.id, snapshot.deletions_of(fragment), columns.names)
        size = _size(fragment, columns.fields)
        yield Piece(commit, None, side, deletes=False, size=size, rows=fragment.rows)


def replaces_all(by: Transaction | None) -> bool:
    """Whether a version keeps nothing of the one before it, so that column ids mean something else."""
    return by is not None and by.operation == _REPLACES_ALL


@dataclass(frozen=True)
class _Step:
    before: Snapshot
    after: Snapshot
    commit: Commit
    old: ColumnTrack
    new: ColumnTrack

    def pieces(self, rows_may_return: bool) -> Iterator[Piece]:
        # A dropped column stays in its files, and in the records of the fragments.
        changes = match(self.before.contents, self.after.contents, every=self.old.ids != self.new.ids)
        for fragment in changes.removed:
            size = _size(fragment, self.old.fields)
            yield Piece(self.commit, self._side(fragment, old=True), None, inserts=False, size=size, rows=fragment.rows)
        yield from whole_pieces(self.after, self.commit, self.new, changes.added)
        for pair in changes.changed:
            piece = self._changed(pair, rows_may_return)
            if piece.deletes or piece.inserts or piece.rewritten:
                yield piece

    def _changed(self, pair: FragmentPair, rows_may_return: bool) -> Piece:
        before, after = pair.before, pair.after
        rewritten = tuple(self._rewritten(pair))
        deletes = not pair.deletes_alike and after.deletion is not None
        inserts = not pair.deletes_alike and before.deletion is not None and rows_may_return
        whole = _size(before, self.old.fields) + _size(after, self.new.fields)
        gone = abs(before.rows - after.rows)
        part = whole if rewritten else whole * min(1.0, gone / max(1, before.physical_rows))
        return Piece(
            self.commit,
            self._side(before, old=True),
            self._side(after, old=False),
            rewritten,
            deletes,
            inserts,
            size=_OPEN_COST + int(part),
            rows=2 * after.rows + gone if rewritten else gone,
        )

    def _rewritten(self, pair: FragmentPair) -> Iterator[int]:
        """Columns of the feed that lie in different files, or under different overlays."""
        overlaid = pair.before.has_overlays or pair.after.has_overlays
        for place, (old, new) in enumerate(zip(self.old.fields, self.new.fields, strict=True)):
            if overlaid or _files(pair.before, old) != _files(pair.after, new):
                yield place

    def _side(self, fragment: Fragment, old: bool) -> Side:
        snapshot, names = (self.before, self.old.names) if old else (self.after, self.new.names)
        return Side(snapshot.pin, fragment.id, snapshot.deletions_of(fragment), names)


def _files(fragment: Fragment, fields: frozenset[int]) -> frozenset[str]:
    return frozenset(file.path for file in fragment.files if not fields.isdisjoint(file.fields))


def _size(fragment: Fragment, fields: Sequence[frozenset[int]]) -> int:
    """Bytes of the files that have any of the columns."""
    every = frozenset().union(*fields)
    return _OPEN_COST + sum(file.size for file in fragment.files if not every.isdisjoint(file.fields))


# --- Dividing pieces among tasks, by bytes to read

TASK_BYTES = 32 * 2**20
"""Approximate bytes that one task reads. A fragment is never divided."""
_MOST_PIECES = 1_000
"""Opening a fragment takes a task milliseconds on a local disk, and hundreds of them on an object store."""


def in_tasks(pieces: Iterable[Piece], size: int = TASK_BYTES) -> Sequence[tuple[Piece, ...]]:
    """Groups of consecutive pieces, each of about that size."""
    tasks: list[tuple[Piece, ...]] = []
    group: list[Piece] = []
    filled = 0
    for piece in pieces:
        if group and (filled + piece.size > size or len(group) == _MOST_PIECES):
            tasks.append(tuple(group))
            group, filled = [], 0
        group.append(piece)
        filled += piece.size
    if group:
        tasks.append(tuple(group))
    return tasks
