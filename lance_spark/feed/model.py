"""The words of the change feed, and the values that say what to read for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import pyarrow as pa

from lance_spark.errors import InvalidOption
from lance_spark.location import DatasetLocation
from lance_spark.merge.snapshot import Deletions
from lance_spark.refs.model import PinnedVersion

CHANGE_TYPE, COMMIT_VERSION = "_change_type", "_commit_version"
COMMIT_TIMESTAMP, COMMIT_BRANCH = "_commit_timestamp", "_commit_branch"
INSERT, DELETE = "insert", "delete"
UPDATE_PREIMAGE, UPDATE_POSTIMAGE = "update_preimage", "update_postimage"
"""Spark's words for changes, from 4.2 on, which are Delta's."""

Images = Literal["update", "post", "none"]
"""What an update gives: both images, only the row after it, or a delete and an insert."""

COMMIT_FIELDS = (
    pa.field(COMMIT_VERSION, pa.int64()),
    pa.field(COMMIT_TIMESTAMP, pa.timestamp("us", "UTC")),
    pa.field(COMMIT_BRANCH, pa.string()),
)
FEED_FIELDS = (pa.field(CHANGE_TYPE, pa.string()), *COMMIT_FIELDS)
"""The columns behind those of the table."""
CONTENT, IDENTITY, LOCAL = "__content", "__identity", "local"
"""Of rows that have to be paired: hashes of their values and of what they are recognized by, and the hash that all rows
have in common that may belong together."""
PAIRING_FIELDS = tuple(pa.field(name, pa.int64()) for name in (CONTENT, IDENTITY, LOCAL))


@dataclass(frozen=True)
class FeedOptions:
    """What a user asked for."""

    columns: tuple[str, ...] | None = None
    """None for all columns of the table."""
    images: Images = "update"
    net: bool = False
    """Whether each row comes once at most, with all that happened to it put together."""
    key: tuple[str, ...] = ()
    """Columns that tell rows apart; empty for stable row ids or, without them, the table's key."""

    def __post_init__(self) -> None:
        """Raise InvalidOption for values that cannot be."""
        if self.images not in get_args(Images):
            raise InvalidOption(f"images is {self.images!r}.", hint="Choose 'update', 'post' or 'none'.")
        for what, names in (("columns", self.columns or ()), ("key", self.key)):
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise InvalidOption(f"Column '{twice}' stands twice in {what}.")
        if self.columns == ():
            raise InvalidOption(
                "columns is empty: there would be nothing to show.", hint="Name a column, or leave it out."
            )


class Commit(NamedTuple):
    """What is told of the version that made a change."""

    version: int
    timestamp_us: int
    """Microseconds since 1970, UTC."""
    branch: str


class Side(NamedTuple):
    """A fragment in one version."""

    pin: PinnedVersion
    fragment: int
    deletions: Deletions | None
    columns: tuple[str | None, ...]
    """What the version calls each column of the feed; None for one that it does not have."""


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
    """Whether rows may have gone."""
    inserts: bool = True
    """Whether rows may have come."""
    size: int = 0
    """Bytes to read, about."""
    rows: int = 0
    """Rows that changed, at most."""


class VersionPieces(NamedTuple):
    """What one version changed."""

    pieces: tuple[Piece, ...]
    recognizable: bool = True
    """Whether row ids, if the table has stable ones, tell which of its rows are the same."""
    net: bool = False
    """Whether it stands for several versions, so that several of its rows may be one."""

    @property
    def needs_pairing(self) -> bool:
        """Whether rows of different fragments may be the same row."""
        return any(piece.deletes for piece in self.pieces) and any(piece.inserts for piece in self.pieces)


@dataclass(frozen=True)
class FeedColumns:
    """The columns of a feed, in its types. All of them may be null, as an older version may lack them."""

    schema: pa.Schema
    """Those that are shown, then those that are only read."""
    shown: int
    """How many are shown."""
    key: tuple[str, ...] = ()
    blobs: frozenset[str] = frozenset()
    """Those of which only the size is read."""

    @property
    def rows(self) -> pa.Schema:
        """The feed's schema."""
        return pa.schema([*self._shown, *FEED_FIELDS])

    @property
    def unpaired(self) -> pa.Schema:
        """The schema of rows that are to be paired."""
        # A column of the table may be called as one of ours.
        plain = [pa.field(f"c{place}", field.type) for place, field in enumerate(self._shown)]
        return pa.schema([*plain, *COMMIT_FIELDS, *PAIRING_FIELDS])

    @property
    def _shown(self) -> list[pa.Field]:
        return list(self.schema)[: self.shown]


@dataclass(frozen=True)
class FeedReading:
    """What every task has to know."""

    location: DatasetLocation
    columns: FeedColumns
    options: FeedOptions
    row_ids: bool = False
    """Whether stable row ids tell rows apart."""
    below: int | None = None
    """Row ids from here on were given to different rows on two branches; None if all ids are reliable."""


@dataclass(frozen=True)
class FeedPlan:
    """What to read, and what to make of it."""

    reading: FeedReading
    direct: tuple[Piece, ...]
    """Their rows are changes as they are read."""
    to_pair: tuple[Piece, ...]
    """Their rows have to be compared with one another; those of one version, or all if ``net``."""
    unrecognizable: frozenset[int] = frozenset()
    """Versions of which row ids tell nothing."""

    @property
    def rows(self) -> int:
        """How many rows have to be compared, at most."""
        return sum(piece.rows for piece in self.to_pair)


def arrange(reading: FeedReading, told: Sequence[VersionPieces]) -> FeedPlan:
    """Which rows have to be compared. What only came or only went is known as it is read, unless the net is asked for.

    Rows that were changed where they are belong together by their places.
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
