"""Reads and writes for a rewrite in another order; runs on executors.

Rows cross from the tasks that read to those that write as Arrow's own stream format, in cells of bytes: so no type is
changed on the way, whatever engine carries them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark.compaction.clustering import FragmentKeys, ends_of
from lance_spark.compaction.ordering import Ordering, Scale, divided, positions, ranks
from lance_spark.location import DatasetLocation
from lance_spark.options.write import FileOptions, WriteOptions
from lance_spark.refs.model import PinnedVersion
from lance_spark.scan.plan import batch_rows
from lance_spark.schema.projection import ROW_ADDRESS, ROW_ID
from lance_spark.schema.width import row_width
from lance_spark.store.datasets import open_pinned
from lance_spark.store.failures import translated
from lance_spark.store.row_values import with_row_ids
from lance_spark.store.writing import write_rows
from lance_spark.write.plan import WriteJob, WritePlan, WriteTarget

KEYS = pa.schema(
    [
        ("fragment", pa.int64()),
        ("rows", pa.int64()),
        ("sorted", pa.bool_()),
        ("ends", pa.binary()),
        ("sample", pa.binary()),
    ]
)
PIECES = pa.schema([("part", pa.int64()), ("rows", pa.binary())])
"""Rows of one part that one task read."""
WRITTEN = pa.schema(
    [
        ("fragments", pa.list_(pa.string())),
        ("rows", pa.int64()),
        ("ends", pa.binary()),
    ]
)
"""New fragments as pylance's JSON."""
_HELD = 64 * 2**20
"""Bytes of rows that a task reads before it hands them on."""


class KeysItem(NamedTuple):
    """Fragments whose keys are to be read."""

    location: DatasetLocation
    pin: PinnedVersion
    ordering: Ordering
    fragments: tuple[tuple[int, int], ...]
    """Each with the number of rows that the fragments before it have."""
    step: int
    """One row in so many is for the sample."""


class ReadItem(NamedTuple):
    """Fragments whose rows are to be divided among the parts."""

    location: DatasetLocation
    pin: PinnedVersion
    fragments: tuple[int, ...]
    scale: Scale
    bounds: pa.Table


class PartJob(NamedTuple):
    """What a task needs to write the fragments of a part."""

    location: DatasetLocation
    pin: PinnedVersion
    target: WriteTarget
    scale: Scale


def read_keys(item: KeysItem) -> Iterator[pa.RecordBatch]:
    """KEYS of fragments."""
    dataset = open_pinned(item.location, item.pin)
    for key, first in item.fragments:
        with translated(item.location, "reading keys"):
            fragment = dataset.get_fragment(key)
            rows = dataset.scanner(
                columns=list(item.ordering.columns), fragments=[fragment], with_row_address=True
            ).to_table()
        in_order, ends = ends_of(item.ordering, rows) if rows.num_rows else (True, rows)
        at = np.arange(-first % item.step, rows.num_rows, item.step)
        found = {
            "fragment": key,
            "rows": rows.num_rows,
            "sorted": in_order,
            "ends": _packed(ends),
            "sample": _packed(rows.take(pa.array(at, pa.int64()))),
        }
        yield pa.RecordBatch.from_pylist([found], schema=KEYS)


def fragment_keys(table: pa.Table) -> list[FragmentKeys]:
    """From KEYS."""
    return [
        FragmentKeys(row["fragment"], row["rows"], row["sorted"], _unpacked(row["ends"]), _unpacked(row["sample"]))
        for row in table.to_pylist()
    ]


def write_part(job: PartJob, pieces: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    """WRITTEN of one part, all rows of which are in memory."""
    rows = pa.concat_tables(_unpacked(piece) for piece in pieces).combine_chunks()
    rows = rows.take(pa.array(positions(job.scale.line(rows))))
    schema = job.target.schema
    options = WriteOptions(branch=job.pin.branch, files=FileOptions(max_rows_per_file=rows.num_rows))
    plan = WritePlan(job.location, options, "append", schema, job.pin)
    batches = rows.select(schema.names).to_batches(max_chunksize=batch_rows(row_width(schema)))
    written = [json.loads(entry) for entry in write_rows(WriteJob(plan, job.pin), batches)]
    if job.target.stable_row_ids:
        with_row_ids(job.location, written, rows[ROW_ID].to_numpy())
    ordering = job.scale.ordering
    found = {
        "fragments": [json.dumps(entry) for entry in written],
        "rows": rows.num_rows,
        "ends": _packed(ends_of(ordering, rows.select([*ordering.columns, ROW_ADDRESS]))[1]),
    }
    yield pa.RecordBatch.from_pylist([found], schema=WRITTEN)


def ends_from(table: pa.Table) -> pa.Table:
    """The ends of all parts, from WRITTEN."""
    return pa.concat_tables(_unpacked(ends) for ends in table["ends"].to_pylist())


def read_rows(item: ReadItem) -> Iterator[pa.RecordBatch]:
    """PIECES: the rows of fragments, divided among the parts."""
    dataset = open_pinned(item.location, item.pin)
    held: list[pa.RecordBatch] = []
    size = 0
    with translated(item.location, "reading rows"):
        for batch in dataset.scanner(
            columns=dataset.schema.names,
            fragments=[dataset.get_fragment(key) for key in item.fragments],
            with_row_address=True,
            with_row_id=bool(dataset.has_stable_row_ids),
            batch_size=batch_rows(row_width(dataset.schema)),
        ).to_batches():
            held.append(batch)
            size += batch.nbytes
            if size > _HELD:
                yield from _divided(item, pa.Table.from_batches(held))
                held, size = [], 0
    if held:
        yield from _divided(item, pa.Table.from_batches(held))


def _divided(item: ReadItem, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    rows = rows.combine_chunks()
    parts = ranks(item.bounds, item.scale.line(rows))
    for part, own in divided(parts):
        piece = _packed(rows.take(pa.array(own)))
        yield pa.record_batch([pa.array([part], pa.int64()), pa.array([piece], pa.binary())], schema=PIECES)


def _packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows.combine_chunks())
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _unpacked(piece: bytes) -> pa.Table:
    return pa.ipc.open_stream(piece).read_all()
