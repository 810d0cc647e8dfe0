"""The plan of a frozen set, a version of a branch of its own: writes and reads it, and reads the rows it names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import CorruptData
from lance_spark.format.blobs import holds_blobs, is_blob
from lance_spark.format.schema import ROW_ADDRESS, ROW_ID
from lance_spark.format.transactions import MESSAGE
from lance_spark.format.versions import Deletions
from lance_spark.frozen.draw_rules import LINEAGE, PLAN_SCHEMA, FreezeSpec, Layout, Lineage, draw, live_offsets, unpack
from lance_spark.scan.fragment_reads import Scan, read_batches, read_deletions
from lance_spark.scan.partition_rules import ScanPartition
from lance_spark.storage.commits import check_written, commit_on, data_paths
from lance_spark.storage.credentials import for_pylance
from lance_spark.storage.datasets import open_pinned, pin_latest
from lance_spark.storage.failures import translated

WRITTEN = pa.schema([("slice", pa.int64()), ("rows", pa.int64()), ("fragments", pa.list_(pa.string()))])
"""A slice of a plan that was written, with its fragments as pylance's JSON."""


@dataclass(frozen=True)
class PlanJob:
    """Everything tasks need to write the plan of a set."""

    location: DatasetLocation
    branch: str
    layout: Layout


def write_slice(job: PlanJob, pieces: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    """WRITTEN of one slice, whose rows are all in memory: files of the branch that no version references yet."""
    from lance.fragment import write_fragments

    number, drawn = unpack(pieces, job.layout)
    with translated(job.location, "writing the plan"):
        # With "append" the rows would have to fit the columns of the source.
        written: list[Any] = write_fragments(
            job.layout.ordered(number, drawn),
            job.location.branch_uri(job.branch),
            schema=PLAN_SCHEMA,
            mode="overwrite",
            **for_pylance(job.location),
        )
    found = {"slice": number, "rows": drawn.num_rows, "fragments": [json.dumps(each.to_json()) for each in written]}
    yield pa.RecordBatch.from_pylist([found], schema=WRITTEN)


def commit_plan(location: DatasetLocation, branch: str, fragments: Sequence[str], lineage: Lineage) -> PinnedVersion:
    """Commit the plan as the newest version of its branch, replacing the rows there. Raises Conflict.

    ``fragments`` are those of WRITTEN, in the order of the plan.
    """
    import lance

    known = [lance.FragmentMetadata.from_json(each) for each in fragments]
    schema = PLAN_SCHEMA.with_metadata({LINEAGE: lineage.to_json()})
    operation = lance.LanceOperation.Overwrite(schema, known)
    message = {MESSAGE: f"Freeze '{lineage.name}': {lineage.rows:,} rows of {lineage.source}"}
    check_written(location, branch, data_paths(fragments))
    return commit_on(location, pin_latest(location, branch), operation, message)


def read_lineage(location: DatasetLocation, plan: PinnedVersion) -> Lineage | None:
    """The lineage in a version; None if the version is not a plan. Raises NotFound, CorruptData."""
    text = (open_pinned(location, plan).schema.metadata or {}).get(LINEAGE.encode())
    return None if text is None else Lineage.from_json(text.decode())


def has_stable_row_ids(location: DatasetLocation, pin: PinnedVersion) -> bool:
    """Whether ``_rowid`` stays with a row when it is updated or compacted."""
    return bool(open_pinned(location, pin).has_stable_row_ids)


def read_range(
    location: DatasetLocation, plan: PinnedVersion, first: int, count: int, batch_size: int
) -> Iterator[pa.RecordBatch]:
    """Rows of a plan in its order, in batches of at most that size."""
    dataset = open_pinned(location, plan)
    with translated(location, "reading the plan"):
        # Slice by slice: a scanner's batches end where its pages do.
        for start in range(first, first + count, batch_size):
            rows = dataset.to_table(offset=start, limit=min(batch_size, first + count - start))
            yield from rows.combine_chunks().to_batches()


def read_places(location: DatasetLocation, plan: PinnedVersion, places: Sequence[int]) -> pa.Table:
    """Rows of a plan by their numbers in it, in the order of the numbers."""
    dataset = open_pinned(location, plan)
    with translated(location, "reading the plan"):
        rows: pa.Table = dataset.take(list(places))
        return rows


# --- Rows of a version for frozen sets: scanned to make a plan, and read by id


@dataclass(frozen=True)
class DrawTask:
    """The work of one task: a part of a scan and, for its fragments, the first row's number and the deleted rows."""

    part: ScanPartition
    firsts: Mapping[int, int]
    deletions: Mapping[int, Deletions | None]


def draw_rows(scan: Scan, spec: FreezeSpec, task: DrawTask) -> Iterator[pa.RecordBatch]:
    """The rows of a part that pass the filter, with the hashes that decide their split and order."""
    deleted = {
        key: read_deletions(scan.location, scan.pin, at).to_numpy(zero_copy_only=False).astype(np.int64)
        for key, at in task.deletions.items()
    }
    for batch in read_batches(scan, task.part):
        addresses = batch[ROW_ADDRESS].to_numpy(zero_copy_only=False).astype(np.uint64)
        fragments = (addresses >> np.uint64(32)).astype(np.int64)
        physical = (addresses & np.uint64(0xFFFFFFFF)).astype(np.int64)
        offsets = np.empty(len(addresses), np.int64)
        for key in np.unique(fragments).tolist():
            own = fragments == key
            offsets[own] = live_offsets(physical[own], deleted[key], task.firsts[key])
        row_ids = batch[ROW_ID].to_numpy(zero_copy_only=False).astype(np.uint64)
        yield from draw([batch[name] for name in spec.by], row_ids, offsets, spec).to_batches()


def take_frozen(location: DatasetLocation, pin: PinnedVersion, names: list[str], row_ids: list[int]) -> pa.Table:
    """The rows with these ids, in order; blobs as bytes. Raises CorruptData if one does not exist."""
    dataset = open_pinned(location, pin)
    blobs = {field.name for field in dataset.schema if holds_blobs(field)}
    with translated(location, "reading rows"):
        # pylance's public take() uses the numbers of live rows, and must find those deleted before each of them.
        # At least one column: without any, it returns no rows.
        rows: pa.Table = dataset._take_rows(row_ids, columns=names or dataset.schema.names[:1])
        if rows.num_rows != len(row_ids):
            raise CorruptData(f"Only {rows.num_rows} of {len(row_ids)} frozen rows are in version {pin}.")
        for name in blobs.intersection(names):
            rows = rows.set_column(rows.schema.get_field_index(name), name, _blobs(location, pin, name, row_ids))
    return rows.select(names)


def _blobs(location: DatasetLocation, pin: PinnedVersion, name: str, row_ids: list[int]) -> pa.Array | pa.ChunkedArray:
    """A column with the bytes of blobs; null if a row has none."""
    dataset = open_pinned(location, pin)
    if is_blob(dataset.schema.field(name)):
        found = dataset.read_blobs(name, ids=row_ids, preserve_order=True)
        return pa.array([value for _, value in found], pa.large_binary())
    # read_blobs() of pylance knows no blobs inside lists.
    wanted = f"{ROW_ID} IN ({', '.join(map(str, row_ids))})"
    inside = dataset.scanner(columns=[name], filter=wanted, with_row_id=True, blob_handling="all_binary").to_table()
    return inside[name].take(pc.index_in(pa.array(row_ids, pa.uint64()), inside[ROW_ID].combine_chunks()))
