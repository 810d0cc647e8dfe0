"""Turns removed and added rows into changes: pairs those that are the same row and drops equal pairs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.changes import feed_rules
from lance_spark.format.row_values import HASHED, Hashes, compare_hashed, hash_rows
from lance_spark.format.schema import ROW_ID

Places = npt.NDArray[np.int64]
_GOLDEN, _WORD = 0x9E37_79B9_7F4A_7C15, 2**64


def changes(
    batch: pa.RecordBatch, kind: str, commit: feed_rules.Commit, columns: feed_rules.FeedColumns
) -> pa.RecordBatch:
    """Rows as changes of one kind. ``batch`` has all columns of the feed, and possibly more."""
    shown = [batch.column(place) for place in range(columns.shown)]
    kinds = pa.array([kind]).take(pa.array(np.zeros(batch.num_rows, np.int64)))
    return pa.RecordBatch.from_arrays([*shown, kinds, *_told(commit, batch.num_rows)], schema=columns.rows)


def updates(
    before: pa.RecordBatch, after: pa.RecordBatch, commit: feed_rules.Commit, reading: feed_rules.FeedReading
) -> tuple[pa.RecordBatch, ...]:
    """Rows paired one by one, as changes; with both images, each row is followed by the row that replaced it."""
    columns, images = reading.columns, reading.options.images
    if images == "post":
        return (changes(after, feed_rules.UPDATE_POSTIMAGE, commit, columns),)
    if images == "none":
        return changes(before, feed_rules.DELETE, commit, columns), changes(after, feed_rules.INSERT, commit, columns)
    both = pa.Table.from_batches(
        [
            changes(before, feed_rules.UPDATE_PREIMAGE, commit, columns),
            changes(after, feed_rules.UPDATE_POSTIMAGE, commit, columns),
        ]
    )
    order = np.arange(2 * before.num_rows).reshape(2, -1).T.reshape(-1)
    return tuple(both.take(pa.array(order)).combine_chunks().to_batches())


def unpaired(
    batch: pa.RecordBatch, commit: feed_rules.Commit, reading: feed_rules.FeedReading, recognizable: bool
) -> pa.RecordBatch:
    """Rows with the hashes that pair them. ``batch`` has all columns of the feed, and possibly row ids.

    Unless all versions are combined, the hashes differ from version to version.
    """
    columns, rows = reading.columns, batch.num_rows
    salt = np.uint64(0 if reading.options.net else commit.version * _GOLDEN % _WORD)
    content = hash_values(batch, columns) ^ salt
    identity, known = _identity(batch, reading, recognizable)
    identity ^= salt
    local = np.where(known, identity, content)
    hashes = [
        _signed(content),
        pa.array(identity.view(np.int64), mask=~known) if rows else pa.array([], pa.int64()),
        _signed(local),
    ]
    shown = [batch.column(place) for place in range(columns.shown)]
    return pa.RecordBatch.from_arrays([*shown, *_told(commit, rows), *hashes], schema=columns.unpaired)


def hash_values(batch: pa.RecordBatch, columns: feed_rules.FeedColumns, places: Sequence[int] | None = None) -> Hashes:
    """A hash of the values of each row: of the shown columns and the sizes of blobs, or of some columns."""
    names = columns.schema.names
    shown = range(columns.shown)
    chosen = places or [place for place, name in enumerate(names) if place in shown or name in columns.blobs]
    return hash_rows([batch.column(place) for place in chosen], batch.num_rows)


def pair(gone: pa.Table, came: pa.Table, images: feed_rules.Images, schema: pa.Schema) -> pa.Table:
    """The changes between removed and added rows: of whole versions, or of all rows that may belong together.

    Equal rows of one identity were only copied and are dropped. Any other two of one identity are an update.
    """
    gone, came = (table.sort_by(feed_rules.COMMIT_VERSION).combine_chunks() for table in (gone, came))
    found = compare_hashed(_hashed(gone), _hashed(came), renumbered=False)
    deleted, added, old, new = (
        column.to_numpy().astype(np.int64)
        for column in (found.deleted, found.added, found.changed_before, found.changed_after)
    )
    if images == "none":
        deleted, added, old, new = np.append(deleted, old), np.append(added, new), old[:0], new[:0]
    labels = _last_commits(gone, came, deleted)
    rows = pa.concat_tables([gone, came])
    shift = gone.num_rows
    images_of_updates = (new + shift)[:, None] if images == "post" else np.stack([old, new + shift], axis=1)
    kinds = (
        [feed_rules.UPDATE_POSTIMAGE] if images == "post" else [feed_rules.UPDATE_PREIMAGE, feed_rules.UPDATE_POSTIMAGE]
    )
    order = np.concatenate([deleted, added + shift, images_of_updates.reshape(-1)])
    told_by = np.concatenate([labels, added + shift, np.repeat(new + shift, len(kinds))])
    words = [*[feed_rules.DELETE] * len(deleted), *[feed_rules.INSERT] * len(added), *kinds * len(new)]
    told = rows.take(pa.array(told_by)).select([field.name for field in feed_rules.COMMIT_FIELDS])
    shown = rows.take(pa.array(order)).columns[: len(schema) - len(feed_rules.FEED_FIELDS)]
    return pa.table([*shown, pa.array(words, pa.string()), *told.columns], names=schema.names).cast(schema)


def _last_commits(gone: pa.Table, came: pa.Table, deleted: Places) -> Places:
    """For each deleted row, the place of the row with the last version that touched it.

    Places count the removed rows, then the added ones. A row that was changed and then deleted was removed by the
    version that deleted it.
    """
    versions = np.concatenate([_numbers(gone[feed_rules.COMMIT_VERSION]), _numbers(came[feed_rules.COMMIT_VERSION])])
    identity = pa.chunked_array([*gone[feed_rules.IDENTITY].chunks, *came[feed_rules.IDENTITY].chunks], pa.int64())
    known = np.asarray(pc.is_valid(identity), dtype=bool)
    ids = np.asarray(pc.fill_null(identity, 0), dtype=np.int64)
    places = np.flatnonzero(known)
    order = places[np.lexsort((versions[places], ids[places]))]
    last = np.append(np.flatnonzero(np.diff(ids[order])), len(order) - 1) if len(order) else order
    newest = order[last]
    result: Places = deleted.copy()
    mine = known[deleted]
    if mine.any():
        result[mine] = newest[np.searchsorted(ids[newest], ids[deleted[mine]])]
    return result


def _identity(
    batch: pa.RecordBatch, reading: feed_rules.FeedReading, recognizable: bool
) -> tuple[Hashes, npt.NDArray[np.bool_]]:
    """The identity of each row, and whether it has one."""
    rows = batch.num_rows
    nothing = np.zeros(rows, np.uint64), np.zeros(rows, dtype=bool)
    if reading.options.images == "none":
        return nothing
    if reading.columns.key:
        key = [batch.column(reading.columns.schema.get_field_index(name)) for name in reading.columns.key]
        known = np.ones(rows, dtype=bool)
        for column in key:
            known &= np.asarray(column.is_valid(), dtype=bool)
        return hash_rows(key, rows), known
    if not (reading.row_ids and recognizable):
        return nothing
    ids = batch.column(batch.schema.get_field_index(ROW_ID)).cast(pa.uint64())
    numbers: Hashes = ids.to_numpy()
    known = np.ones(rows, dtype=bool) if reading.below is None else numbers < np.uint64(reading.below)
    return hash_rows([ids], rows), known


def _hashed(table: pa.Table) -> pa.Table:
    """The rows of one side of a comparison, addressed by their places."""
    identity = table[feed_rules.IDENTITY]
    numbers = pa.array(np.asarray(pc.fill_null(identity, 0), dtype=np.int64).view(np.uint64))
    known = pc.if_else(pc.is_valid(identity).combine_chunks(), numbers, pa.scalar(None, pa.uint64()))
    content = pa.array(_numbers(table[feed_rules.CONTENT]).view(np.uint64))
    return pa.table([content, known, pa.array(np.arange(table.num_rows, dtype=np.uint64))], schema=HASHED)


def _told(commit: feed_rules.Commit, rows: int) -> list[pa.Array]:
    every = pa.array(np.zeros(rows, np.int64))
    return [
        pa.array([value], field.type).take(every) for value, field in zip(commit, feed_rules.COMMIT_FIELDS, strict=True)
    ]


def _signed(hashes: Hashes) -> pa.Array:
    return pa.array(hashes.view(np.int64))


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    numbers: npt.NDArray[Any] = column.to_numpy()
    return numbers
