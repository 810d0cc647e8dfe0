"""Reads the rows that a version changed: only the requested rows and columns of the fragments it changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.changes.feed_rules import FeedReading, Piece, Side
from lance_spark.changes.image_rules import hash_values
from lance_spark.errors import CorruptData
from lance_spark.format.blobs import is_blob_description, without_places
from lance_spark.format.row_values import ADDRESS, hash_rows
from lance_spark.format.schema import ROW_ID, conform_column
from lance_spark.scan.fragment_reads import read_deletions
from lance_spark.storage.datasets import open_pinned
from lance_spark.storage.failures import translated

if TYPE_CHECKING:
    import lance

Offsets = npt.NDArray[np.uint32]
_FEW = 16
"""Rows are fetched one by one if fewer than one in this many is needed."""
_AT_ONCE = 20_000
"""How many rows are fetched at once."""
_OFFSET = 2**32 - 1


def gone_rows(reading: FeedReading, piece: Piece) -> Iterator[pa.RecordBatch]:
    """The rows that only the older version has, with all columns of the feed and, if they identify rows, their ids."""
    if piece.before is not None and piece.deletes:
        yield from _one_sided(reading, piece.before, piece.after)


def came_rows(reading: FeedReading, piece: Piece) -> Iterator[pa.RecordBatch]:
    """The rows that only the newer version has, in the same way."""
    if piece.after is not None and piece.inserts:
        yield from _one_sided(reading, piece.after, piece.before)


def rewritten_rows(reading: FeedReading, piece: Piece) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Rows whose values were changed in place: as they were and as they are, row by row."""
    before, after = piece.before, piece.after
    if not piece.rewritten or before is None or after is None:
        return
    old, new = (_hashes(reading, side, piece.rewritten) for side in (before, after))
    both, mine, theirs = np.intersect1d(old[0], new[0], assume_unique=True, return_indices=True)
    offsets = both[old[1][mine] != new[1][theirs]].astype(np.uint32)
    yield from _side_by_side(*(_selected(reading, side, offsets) for side in (before, after)))


def _one_sided(reading: FeedReading, side: Side, other: Side | None) -> Iterator[pa.RecordBatch]:
    """Rows of a side that the other side deletes or does not contain."""
    if other is None:
        yield from (_conformed(reading, side, batch) for batch in _batches(reading, side) if batch.num_rows)
        return
    mine, theirs = (read_deletions(reading.location, each.pin, each.deletions) for each in (side, other))
    yield from _selected(reading, side, np.setdiff1d(theirs.to_numpy(), mine.to_numpy()))


def _hashes(reading: FeedReading, side: Side, places: Sequence[int]) -> tuple[Offsets, npt.NDArray[np.uint64]]:
    """The offset of each live row, and a hash of its values in some columns."""
    offsets, hashes = [np.zeros(0, np.uint32)], [np.zeros(0, np.uint64)]
    for batch in _batches(reading, side, places):
        offsets.append(_offsets(batch))
        hashes.append(hash_values(_conformed(reading, side, batch, places), reading.columns, places))
    return np.concatenate(offsets), np.concatenate(hashes)


def _selected(reading: FeedReading, side: Side, offsets: Offsets) -> Iterator[pa.RecordBatch]:
    """The rows at some offsets, ascending: fetched one by one, or filtered from a scan if there are many or blobs."""
    if not len(offsets):
        return
    _, fragment = _open(reading, side)
    if not reading.columns.blobs and len(offsets) * _FEW < fragment.count_rows():
        yield from _fetched(reading, side, offsets)
        return
    for batch in _batches(reading, side):
        chosen = batch.filter(pa.array(np.isin(_offsets(batch), offsets)))
        if chosen.num_rows:
            yield _conformed(reading, side, chosen)


def _fetched(reading: FeedReading, side: Side, offsets: Offsets) -> Iterator[pa.RecordBatch]:
    dataset, fragment = _open(reading, side)
    names = _names(reading, side)
    with translated(reading.location, f"reading rows of {side.pin}"):
        # pylance counts only live rows; the scan reads no column.
        places = dataset.scanner(
            columns=[], fragments=[fragment], with_row_address=True, with_row_id=reading.row_ids
        ).to_table()
        found = np.flatnonzero(np.isin(_offsets(places), offsets))
        for first in range(0, len(found), _AT_ONCE):
            part = found[first : first + _AT_ONCE]
            known = places.take(pa.array(part))
            rows = fragment.take(part.tolist(), columns=names) if names else known.select([ADDRESS])
            if reading.row_ids:
                rows = rows.append_column(ROW_ID, known[ROW_ID])
            for batch in rows.combine_chunks().to_batches():
                yield _conformed(reading, side, batch)


def _side_by_side(
    old: Iterator[pa.RecordBatch], new: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Two streams with the same number of rows, cut so that their batches have the same rows."""
    mine, theirs = next(old, None), next(new, None)
    while mine is not None and theirs is not None:
        rows = min(mine.num_rows, theirs.num_rows)
        yield mine.slice(0, rows), theirs.slice(0, rows)
        mine = mine.slice(rows) if rows < mine.num_rows else next(old, None)
        theirs = theirs.slice(rows) if rows < theirs.num_rows else next(new, None)
    if mine is not None or theirs is not None:
        raise CorruptData("A fragment returns different rows each time it is read.")


def _batches(reading: FeedReading, side: Side, places: Sequence[int] | None = None) -> Iterator[pa.RecordBatch]:
    """All live rows of a fragment, with their addresses, in the version's own types and names."""
    dataset, fragment = _open(reading, side)
    with translated(reading.location, f"reading rows of {side.pin}"):
        yield from dataset.scanner(
            columns=_names(reading, side, places),
            fragments=[fragment],
            with_row_address=True,
            with_row_id=reading.row_ids and places is None,
            blob_handling="blobs_descriptions",
        ).to_batches()


def _open(reading: FeedReading, side: Side) -> tuple[lance.LanceDataset, lance.LanceFragment]:
    dataset = open_pinned(reading.location, side.pin)
    fragment = dataset.get_fragment(side.fragment)
    if fragment is None:
        raise CorruptData(f"pylance does not find fragment {side.fragment}, which the manifest of {side.pin} names.")
    return dataset, fragment


def _names(reading: FeedReading, side: Side, places: Sequence[int] | None = None) -> list[str]:
    chosen = range(len(reading.columns.schema)) if places is None else places
    return list(dict.fromkeys(name for place in chosen if (name := side.columns[place]) is not None))


def _conformed(
    reading: FeedReading, side: Side, batch: pa.RecordBatch, places: Sequence[int] | None = None
) -> pa.RecordBatch:
    """The columns of the feed in its types, then row ids. Columns that were not requested are null."""
    columns = []
    schema = reading.columns.schema
    for place, field in enumerate(schema):
        name = side.columns[place]
        if name is None or not (places is None or place in places):
            columns.append(pa.nulls(batch.num_rows, field.type))
            continue
        column = batch.column(batch.schema.get_field_index(name))
        if field.name in reading.columns.blobs:
            column = _measured(column)
        columns.append(conform_column(column, field))
    if ROW_ID in batch.schema.names:
        columns.append(batch.column(batch.schema.get_field_index(ROW_ID)).cast(pa.int64()))
        schema = schema.append(pa.field(ROW_ID, pa.int64()))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _measured(column: pa.Array) -> pa.Array:
    """The size of blobs; of a column with blobs inside, a number for its values and their sizes."""
    if is_blob_description(column.type):
        return pc.struct_field(column, "size")
    return pa.array(hash_rows([without_places(column)], len(column)).view(np.int64))


def _offsets(batch: pa.RecordBatch | pa.Table) -> Offsets:
    addresses = batch.column(ADDRESS).cast(pa.uint64()).to_numpy()
    offsets: Offsets = (addresses & np.uint64(_OFFSET)).astype(np.uint32)
    return offsets
