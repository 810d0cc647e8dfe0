"""Tells the new rows of a version that brought compactions along from the older ones, by deletion files only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from lance_spark.actions.known_deletions import DeletionReader, Held, known_deletions
from lance_spark.feed.pieces import ColumnTrack
from lance_spark.history.fragments import match
from lance_spark.location import DatasetLocation
from lance_spark.manifest.transactions import Transaction
from lance_spark.merge.rewrites import read_rewrites
from lance_spark.merge.snapshot import Snapshot
from lance_spark.streams.source_merged import MergedStep, NewRows, new_rows


class TrackedVersion(NamedTuple):
    """A version, and where the columns of a stream are in it."""

    snapshot: Snapshot
    columns: ColumnTrack


def rows_of_merge(
    location: DatasetLocation, before: TrackedVersion, after: TrackedVersion, by: Transaction | None
) -> Mapping[int, NewRows] | None:
    """The new rows of each fragment that a version added, by its id; None if it is not certain that it only added rows.

    Raises NotFound and CorruptData for a deletion file of either version.
    """
    rewrites = () if by is None else read_rewrites(by.properties)
    if not rewrites:
        return None
    changes = match(before.snapshot.contents, after.snapshot.contents)
    paths = {path for each in rewrites for path in each.paths}
    old, new = (
        version.snapshot.contents.fragments_with(paths | {file.path for entry in fragments for file in entry.files})
        for version, fragments in ((before, changes.removed), (after, changes.added))
    )
    reader = DeletionReader(location, after.snapshot.pin, lambda uri: DatasetLocation(uri, location.options))
    deleted = known_deletions(reader, (Held(before.snapshot, old), Held(after.snapshot, new)), rewrites)
    step = MergedStep(tuple(old), tuple(new), rewrites, _compared(before.columns, after.columns))
    return new_rows(step, {entry.id for entry in changes.added}, deleted)


def _compared(old: ColumnTrack, new: ColumnTrack) -> frozenset[int]:
    """The fields of the columns that both versions have. Values of a column that is new are no change of rows."""
    same = [place for place, number in enumerate(new.ids) if number == old.ids[place]]
    return frozenset().union(*(old.fields[place] | new.fields[place] for place in same))
