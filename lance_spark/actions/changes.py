"""``changes``: the rows that lead from one version to another, one after the other, with the versions that made them.

Manifests are read one after the other; of fragments only those that a version added, removed or changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from itertools import chain
from typing import NamedTuple

import pyarrow as pa

from lance_spark.actions.expressions import resolve_expression
from lance_spark.actions.feed_versions import FeedStep, VersionsOfPath
from lance_spark.errors import InvalidOption, Refused
from lance_spark.feed.images import changes, pair, unpaired, updates
from lance_spark.feed.model import (
    DELETE,
    FEED_FIELDS,
    INSERT,
    Commit,
    FeedColumns,
    FeedOptions,
    FeedPlan,
    FeedReading,
    Piece,
    VersionPieces,
    arrange,
)
from lance_spark.feed.path import at_or_before, path_between
from lance_spark.feed.pieces import StepReader
from lance_spark.feed.tasks import in_tasks
from lance_spark.history.columns import key_columns
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Contents
from lance_spark.merge.snapshot import Snapshot
from lance_spark.refs.model import Branch, PinnedVersion
from lance_spark.refs.names import MAIN
from lance_spark.refs.resolve import newest_at
from lance_spark.runner.interface import Frame, Runner
from lance_spark.schema.projection import unknown_column
from lance_spark.schema.width import row_width
from lance_spark.store import refs
from lance_spark.store.datasets import list_versions, pin_version
from lance_spark.store.feed_rows import came_rows, gone_rows, rewritten_rows
from lance_spark.store.scanning import blob_columns, schema_of
from lance_spark.store.version_reader import read_contents

Point = int | str | datetime
"""A version: by its number on the branch, as a ref (tag, branch, ``branch@7``), or as the last one at a moment."""

_USUAL_ROW = 500
"""Bytes of a row as a runner expects them; of wider rows it has to hold fewer at once."""


class FeedEnds(NamedTuple):
    """From where to where."""

    since: PinnedVersion
    until: PinnedVersion


def find_ends(location: DatasetLocation, at: PinnedVersion, since: Point, until: Point | None) -> FeedEnds:
    """The versions that were named, on the line of ``at``, which is also the end if none was named.

    Raises NotFound, InvalidOption and Refused.
    """
    return FeedEnds(_find(location, at, since), at if until is None else _find(location, at, until))


def _find(location: DatasetLocation, at: PinnedVersion, point: Point) -> PinnedVersion:
    if isinstance(point, datetime):
        return find_moment(location, at.branch, point)
    if isinstance(point, str):
        return resolve_expression(location, point, at.branch)
    if type(point) is not int or point < 1:
        raise InvalidOption(
            f"{point!r} is no version.", hint="Give a number from 1, a tag, a branch, 'branch@7' or a datetime."
        )
    pin = at_or_before(PinnedVersion(at.branch, point), _branches(location, at.branch))
    return pin_version(location, pin.branch, pin.version)


def find_moment(location: DatasetLocation, branch: str | None, point: datetime) -> PinnedVersion:
    """The last version at a moment; of the parent where the branch had none yet. A moment without a zone is UTC."""
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


def plan_changes(location: DatasetLocation, ends: FeedEnds, options: FeedOptions) -> FeedPlan:
    """Which fragments to read, and what for; no row is read.

    What leads from the last version that both ends have in common to ``until`` is told version by version. What
    ``since`` has beyond that is taken back, as one step that bears the common version. Raises NotFound for a version
    or a column that is gone, Refused, InvalidOption and CorruptData.
    """
    path = path_between(ends.since, ends.until, refs.read_branches(location).branches)
    versions = VersionsOfPath(location, path)
    end = read_contents(location, ends.until)
    columns = feed_columns(location, ends.until, end, options)
    walk = _FeedWalk(versions, StepReader(end.fields, columns.schema.names), end.has_stable_row_ids)
    onwards = [*walk.forward()]
    told = [walk.back(), *reversed(onwards)]
    below = versions.common.contents.next_row_id if path.back and path.forward and options.net else None
    return arrange(FeedReading(location, columns, options, walk.stable and not columns.key, below), told)


class _FeedWalk:
    """Goes through versions; ``stable`` is whether all of them have stable row ids."""

    def __init__(self, versions: VersionsOfPath, steps: StepReader, stable: bool) -> None:
        self.stable = stable
        self._versions = versions
        self._steps = steps

    def forward(self) -> Iterator[VersionPieces]:
        """What each version after the common one did, newest first."""
        for step in self._seen(forward=True):
            commit = commit_of(step.after, step.after.pin.branch)
            yield self._steps.forward(step.before, step.after, commit, step.transaction)

    def back(self) -> VersionPieces:
        """What takes back everything that was done after the common version, as one."""
        if not self._versions.path.back:
            return VersionPieces(())
        commit = commit_of(self._versions.common, self._versions.path.common.branch)
        steps = self._seen(forward=False)
        found = [self._steps.back(step.before, step.after, commit, step.transaction).pieces for step in steps]
        pieces = tuple(piece for each in found for piece in each)
        return VersionPieces(pieces, net=sum(map(bool, found)) > 1)

    def _seen(self, forward: bool) -> Iterator[FeedStep]:
        for step in self._versions.steps(forward):
            self.stable &= step.before.contents.has_stable_row_ids and step.after.contents.has_stable_row_ids
            yield step


def commit_of(snapshot: Snapshot, branch: str | None) -> Commit:
    """What a feed tells of a version."""
    head = snapshot.contents.head
    return Commit(head.version, head.timestamp_ns // 1000, branch or MAIN)


def feed_columns(location: DatasetLocation, until: PinnedVersion, end: Contents, options: FeedOptions) -> FeedColumns:
    """The columns to read. Of blobs only the size is read, which tells most changes of them."""
    schema, blobs = schema_of(location, until), blob_columns(location, until)
    chosen = [name for name in schema.names if name not in blobs] if options.columns is None else list(options.columns)
    key = options.key or (() if end.has_stable_row_ids else key_columns(end.fields))
    for name in (*chosen, *key):
        if name not in schema.names:
            raise unknown_column(name, schema.names)
        if name in blobs:
            raise Refused(
                f"Column '{name}' holds blobs, which the change feed does not show.",
                hint="Leave it out, and read the blobs of the rows that changed by their key.",
            )
    taken = {field.name for field in FEED_FIELDS}
    clash = next((name for name in chosen if name.lower() in taken), None)
    if clash is not None:
        raise InvalidOption(f"The change feed has a column '{clash}' itself.", hint="Leave it out with columns=[...].")
    hidden = [name for name in key if name not in chosen]
    sizes = [] if options.columns is not None else [name for name in schema.names if name in blobs]
    fields = [schema.field(name).with_nullable(True) for name in (*chosen, *hidden)]
    fields += [pa.field(name, pa.int64()) for name in sizes]
    return FeedColumns(pa.schema(fields), len(chosen), tuple(key), frozenset(sizes))


def feed_frame(runner: Runner, plan: FeedPlan) -> Frame:
    """The changes, as a frame of the runner; its columns are those of ``plan.reading.columns.rows``."""
    reading = plan.reading
    columns = reading.columns
    frames = []
    if plan.direct or not plan.to_pair:
        read = partial(direct_changes, reading)
        frames.append(runner.flat_map("read changes", in_tasks(plan.direct), read, columns.rows))
    if plan.to_pair:
        sides = tuple(
            runner.flat_map(
                stage, in_tasks(pieces), partial(rows_to_pair, reading, plan.unrecognizable, old), columns.unpaired
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


def direct_changes(reading: FeedReading, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
    """The changes of pieces whose rows need no comparison with those of others."""
    for piece in pieces:
        for kind, rows in ((DELETE, gone_rows(reading, piece)), (INSERT, came_rows(reading, piece))):
            for batch in rows:
                yield changes(batch, kind, piece.commit, reading.columns)
        for before, after in rewritten_rows(reading, piece):
            yield from updates(before, after, piece.commit, reading)


def rows_to_pair(
    reading: FeedReading, unrecognizable: frozenset[int], old: bool, pieces: Sequence[Piece]
) -> Iterator[pa.RecordBatch]:
    """The rows of one side, with what tells which rows of the other side they belong to."""
    for piece in pieces:
        rows = gone_rows(reading, piece) if old else came_rows(reading, piece)
        changed = (pair[0 if old else 1] for pair in rewritten_rows(reading, piece))
        recognizable = reading.options.net or piece.commit.version not in unrecognizable
        for batch in chain(rows, changed):
            yield unpaired(batch, piece.commit, reading, recognizable)
