"""Divides the parts of a batch into tasks, and reads a task on an executor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import ceil

import numpy as np
import pyarrow as pa

from lance_spark.changes.changes import direct_changes, rows_to_pair
from lance_spark.changes.feed_rules import LOCAL, FeedReading, Piece, Side, in_tasks
from lance_spark.changes.image_rules import pair
from lance_spark.core.refs import PinnedVersion
from lance_spark.format.schema import ROW_ADDRESS, ROW_COLUMNS, ROW_ID, conform, row_width
from lance_spark.scan import partition_rules
from lance_spark.scan.fragment_reads import Scan, ScanColumns, fragment_sizes, read_batches, takes_row_addresses
from lance_spark.scan.partition_rules import FragmentSize, ScanPartition, ScanRequest
from lance_spark.scan.read import PinnedRead
from lance_spark.streams.source import Part
from lance_spark.streams.source_rules import NewRows, Range

_ROWS_IN_MEMORY = 2_000_000
"""Approximate number of rows that one task compares. If a version has more, each task reads all and keeps its share."""
_MOST_RANGES = 64
"""Maximum number of row ranges that are read one by one: each is a separate scan."""
_OFFSET = 2**32 - 1


@dataclass(frozen=True)
class RowsOf:
    """Fragments of one version, or a range of its rows."""

    scan: Scan
    part: ScanPartition
    names: tuple[str | None, ...]
    """The version's name for each column of the stream; None for a column that it lacks."""
    only: tuple[Range, ...] | None = None
    """The rows to keep, by position in the fragment, if the scan cannot be limited to them; None for all."""

    @property
    def is_whole(self) -> bool:
        """Whether it covers all rows of its fragments."""
        return self.only is None and self.part.row_count is None


@dataclass(frozen=True)
class RowsTask:
    parts: tuple[RowsOf, ...]


@dataclass(frozen=True)
class FeedTask:
    reading: FeedReading
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class PairTask:
    """Changes of one version whose rows must be compared; several such tasks share the rows."""

    reading: FeedReading
    pieces: tuple[Piece, ...]
    recognizable: bool
    share: int
    shares: int


StreamTask = RowsTask | FeedTask | PairTask


def divide(parts: Sequence[Part], read: PinnedRead, schema: pa.Schema, cores: int) -> list[StreamTask]:
    """The tasks of a batch. ``schema`` is that of the output; ``cores`` is the number of cores to keep busy."""
    if not parts or parts[0].reading is not None:
        return list(_feed_tasks(parts, read.options.split_size))
    return list(_row_tasks(parts, read, schema, cores))


def read_task(task: StreamTask, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a task in exactly the given schema."""
    if isinstance(task, RowsTask):
        for part in task.parts:
            for batch in read_batches(part.scan, part.part):
                chosen = batch if part.only is None else _chosen(batch, part.only)
                yield conform(_named(chosen, part.names, schema), schema)
        return
    changes = direct_changes(task.reading, task.pieces) if isinstance(task, FeedTask) else _paired(task)
    for batch in changes:
        yield conform(batch, schema)


def _feed_tasks(parts: Sequence[Part], split_size: int) -> Iterator[StreamTask]:
    direct: dict[FeedReading, list[Piece]] = {}
    for part in parts:
        if part.reading is None:
            continue
        if not part.pairing:
            direct.setdefault(part.reading, []).extend(part.pieces)
            continue
        shares = 1 + sum(piece.rows for piece in part.pieces) // _ROWS_IN_MEMORY
        for share in range(shares):
            yield PairTask(part.reading, part.pieces, part.recognizable, share, shares)
    for reading, pieces in direct.items():
        for group in in_tasks(pieces, min(split_size, _FEED_BYTES)):
            yield FeedTask(reading, group)


_FEED_BYTES = 32 * 2**20


def _row_tasks(parts: Sequence[Part], read: PinnedRead, schema: pa.Schema, cores: int) -> Iterator[StreamTask]:
    """Neighboring fragments of any version share a task; a large fragment is split into several."""
    width = row_width(schema)
    pieces = [part.pieces[0] for part in parts]
    weights = [partition_rules.FRAGMENT_COST + max(piece.size, int(piece.rows * width)) for piece in pieces]
    target = min(read.options.split_size, max(partition_rules.MIN_SPLIT, sum(weights) // max(1, cores)))
    group: list[RowsOf] = []
    filled = 0
    for part, piece, weight in zip(parts, pieces, weights, strict=True):
        side = _after(piece)
        rows = _rows_of(side, read, schema, width)
        large = weight > 1.5 * target
        if part.rows is not None:
            divided = list(_chosen_rows(rows, part.rows, ceil(weight / target) if large else 1))
        else:
            divided = list(_ranges(side, rows, target, width)) if large else [rows]
        if large:
            yield from (RowsTask((each,)) for each in divided)
            continue
        if group and filled + weight > target:
            yield RowsTask(tuple(group))
            group, filled = [], 0
        filled += weight
        for each in divided:
            _join(group, each)
    if group:
        yield RowsTask(tuple(group))


def _join(group: list[RowsOf], rows: RowsOf) -> None:
    """Add to the reads of one task. Whole fragments of one version share a scan."""
    last = group[-1] if group else None
    if last is not None and last.scan == rows.scan and last.is_whole and rows.is_whole:
        rows = RowsOf(rows.scan, ScanPartition((*last.part.fragment_ids, *rows.part.fragment_ids)), rows.names)
        group.pop()
    group.append(rows)


def _ranges(side: Side, rows: RowsOf, target: int, width: float) -> Iterator[RowsOf]:
    scan = rows.scan
    known = {size.fragment_id: size for size in fragment_sizes(scan.location, scan.pin)}
    size: FragmentSize = known[side.fragment]
    request = ScanRequest(
        width,
        split_size=target,
        filtered=scan.filter is not None,
        splittable=takes_row_addresses(scan.location, scan.pin),
    )
    for part in partition_rules.plan_scan([size], request):
        yield RowsOf(scan, part, rows.names)


def _chosen_rows(rows: RowsOf, new: NewRows, tasks: int) -> Iterator[RowsOf]:
    """Some rows of a fragment: read by ranges, or filtered from all its rows if a scan cannot be limited to them."""
    scan = rows.scan
    addressed = scan.filter is not None
    if len(new.ranks) > _MOST_RANGES or (addressed and not takes_row_addresses(scan.location, scan.pin)):
        columns = replace(scan.columns, with_row_address=True)
        yield RowsOf(replace(scan, columns=columns), rows.part, rows.names, new.offsets)
        return
    most = ceil(new.total / tasks)
    for first, end in new.offsets if addressed else new.ranks:
        for start in range(first, end, most):
            part = ScanPartition(rows.part.fragment_ids, start, min(most, end - start))
            yield RowsOf(scan, part, rows.names)


def _chosen(batch: pa.RecordBatch, only: Sequence[Range]) -> pa.RecordBatch:
    addresses = batch.column(batch.schema.get_field_index(ROW_ADDRESS)).cast(pa.uint64()).to_numpy()
    places = (addresses & np.uint64(_OFFSET)).astype(np.int64)
    firsts, ends = np.array(only, np.int64).T
    at = np.searchsorted(firsts, places, "right") - 1
    return batch.filter(pa.array((at >= 0) & (places < ends[at])))


def _rows_of(side: Side, read: PinnedRead, schema: pa.Schema, width: float) -> RowsOf:
    known = iter(side.columns)
    names = tuple(field.name if field.name in ROW_COLUMNS else next(known) for field in schema)
    stored = tuple(dict.fromkeys(name for name in names if name is not None and name not in ROW_COLUMNS))
    columns = ScanColumns(
        stored,
        with_row_id=ROW_ID in names,
        # A scan without columns reports its row count only with a column that pylance generates.
        with_row_address=ROW_ADDRESS in names or not stored,
        blobs="all_binary" if read.options.blob_handling == "bytes" else "blobs_descriptions",
    )
    pin = PinnedVersion(side.pin.branch, side.pin.version, side.pin.stamp)
    size = read.options.batch_size or partition_rules.batch_rows(width)
    return RowsOf(Scan(read.location, pin, columns, read.options.filter, size), ScanPartition((side.fragment,)), names)


def _after(piece: Piece) -> Side:
    if piece.after is None:
        raise AssertionError("a part of appended rows is a fragment that was added")
    return piece.after


def _named(batch: pa.RecordBatch, names: Sequence[str | None], schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the stream's column names; columns that the version lacks are null."""
    columns = [
        pa.nulls(batch.num_rows, field.type) if name is None else batch.column(batch.schema.get_field_index(name))
        for name, field in zip(names, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def _paired(task: PairTask) -> Iterator[pa.RecordBatch]:
    reading, columns = task.reading, task.reading.columns
    unknown = frozenset() if task.recognizable else frozenset(piece.commit.version for piece in task.pieces)
    read = partial(rows_to_pair, reading, unknown)
    gone = read(True, [piece for piece in task.pieces if piece.deletes or piece.rewritten])
    came = read(False, [piece for piece in task.pieces if piece.inserts or piece.rewritten])
    tables = [
        pa.Table.from_batches(chain.from_iterable(_share(batch, task) for batch in side), columns.unpaired)
        for side in (gone, came)
    ]
    yield from pair(tables[0], tables[1], reading.options.images, columns.rows).combine_chunks().to_batches()


def _share(batch: pa.RecordBatch, task: PairTask) -> Iterator[pa.RecordBatch]:
    if task.shares == 1:
        yield batch
        return
    numbers = batch.column(batch.schema.get_field_index(LOCAL)).to_numpy().view(np.uint64)
    yield batch.filter(pa.array(numbers % np.uint64(task.shares) == np.uint64(task.share)))
