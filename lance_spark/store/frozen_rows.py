"""Rows of a version for frozen sets: what a plan is made from, and rows by their ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptData
from lance_spark.freezing.planning import draw, live_offsets
from lance_spark.freezing.spec import FreezeSpec
from lance_spark.location import DatasetLocation
from lance_spark.merge.snapshot import Deletions
from lance_spark.refs.model import PinnedVersion
from lance_spark.scan.plan import ScanPartition
from lance_spark.schema.blobs import is_blob
from lance_spark.schema.projection import ROW_ADDRESS, ROW_ID
from lance_spark.store.datasets import open_pinned
from lance_spark.store.deletions import read_deletions
from lance_spark.store.failures import translated
from lance_spark.store.scanning import Scan, read_batches


@dataclass(frozen=True)
class DrawTask:
    """What one task draws: a part of a scan, and of its fragments the first row's number and the deleted rows."""

    part: ScanPartition
    firsts: Mapping[int, int]
    deletions: Mapping[int, Deletions | None]


def draw_rows(scan: Scan, spec: FreezeSpec, task: DrawTask) -> Iterator[pa.RecordBatch]:
    """The rows of a part that pass the filter, with the hashes that decide about them."""
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
    """The rows with these ids, in their order; blobs as bytes. Raises CorruptData if one is not there."""
    dataset = open_pinned(location, pin)
    blobs = {field.name for field in dataset.schema if is_blob(field)}
    with translated(location, "reading rows"):
        # pylance's public take() knows the numbers of live rows, and has to find those deleted before each of them.
        # One column at least: without any, it returns no rows either.
        rows: pa.Table = dataset._take_rows(row_ids, columns=names or dataset.schema.names[:1])
        if rows.num_rows != len(row_ids):
            raise CorruptData(f"Of {len(row_ids)} frozen rows {rows.num_rows} are in version {pin}.")
        for name in names:
            if name in blobs:
                values = _blobs(location, pin, name, row_ids)
                rows = rows.set_column(rows.schema.get_field_index(name), pa.field(name, pa.large_binary()), values)
    return rows.select(names)


def _blobs(location: DatasetLocation, pin: PinnedVersion, name: str, row_ids: list[int]) -> pa.Array:
    """The bytes of a blob column; null where there are none."""
    found = open_pinned(location, pin).read_blobs(name, ids=row_ids, preserve_order=True)
    return pa.array([value for _, value in found], pa.large_binary())
