"""Reads the rows of single fragments, or some of their rows, through pylance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.history.rows import ADDRESS
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.store.datasets import open_pinned
from lance_spark.store.failures import translated

ROW_ID, UPDATED = "_rowid", "_row_last_updated_at_version"


class FragmentRows(NamedTuple):
    """Rows of one fragment."""

    fragment: int
    offsets: pa.Array | None = None
    """Physical offsets (uint32); None for all rows that are not deleted."""


@dataclass(frozen=True)
class RowSource:
    """A version and which of its rows to read."""

    location: DatasetLocation
    pin: PinnedVersion
    rows: tuple[FragmentRows, ...]


def read_rows(source: RowSource, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows, with ``_rowaddr``; with ``_rowid`` if that is among the columns. Blobs come as descriptions."""
    dataset = open_pinned(source.location, source.pin)
    arguments = {
        "columns": [name for name in columns if name != ROW_ID],
        "with_row_address": True,
        "with_row_id": ROW_ID in columns,
        "blob_handling": "blobs_descriptions",
    }
    with translated(source.location, f"reading rows of {source.pin}"):
        for part in source.rows:
            if part.offsets is not None and not len(part.offsets):
                continue
            fragment = dataset.get_fragment(part.fragment)
            for batch in dataset.scanner(fragments=[fragment], **arguments).to_batches():
                chosen = batch if part.offsets is None else _chosen(batch, part.fragment, part.offsets)
                if chosen.num_rows:
                    yield chosen


def _chosen(batch: pa.RecordBatch, fragment: int, offsets: pa.Array) -> pa.RecordBatch:
    addresses = pc.add(offsets.cast(pa.uint64()), pa.scalar(fragment << 32, pa.uint64()))
    return batch.filter(pc.is_in(batch.column(ADDRESS).cast(pa.uint64()), value_set=addresses))


def read_columns(
    location: DatasetLocation, pin: PinnedVersion, columns: Sequence[str], fragments: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Some columns of all rows of some fragments, in any order."""
    dataset = open_pinned(location, pin)
    with translated(location, f"reading rows of {pin}"):
        selected = [dataset.get_fragment(number) for number in fragments]
        yield from dataset.scanner(columns=list(columns), fragments=selected).to_batches()


def live_rows(location: DatasetLocation, pin: PinnedVersion, fragments: Sequence[int]) -> dict[int, int]:
    """How many rows of fragments are not deleted, where the manifest does not say it."""
    dataset = open_pinned(location, pin)
    with translated(location, f"counting rows of {pin}"):
        return {number: int(dataset.get_fragment(number).count_rows()) for number in fragments}


def stored_schema(location: DatasetLocation, pin: PinnedVersion) -> pa.Schema:
    """The Arrow schema of a version, with blobs as they are stored."""
    schema: pa.Schema = open_pinned(location, pin).schema
    return schema
