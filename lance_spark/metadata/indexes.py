"""The metadata table ``indexes``: one row for each segment of an index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa

from lance_spark.metadata.batches import MOMENT, in_batches

INDEXES = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("index_type", pa.string(), nullable=False),
        pa.field("columns", pa.list_(pa.string()), nullable=False),
        pa.field("uuid", pa.string(), nullable=False),
        pa.field("num_fragments", pa.int64(), nullable=False),
        pa.field("num_unindexed_fragments", pa.int64(), nullable=False),
        pa.field("size_bytes", pa.int64()),
        pa.field("created_at", MOMENT),
        pa.field("dataset_version", pa.int64()),
        pa.field("inherited", pa.bool_(), nullable=False),
    ]
)
"""``num_unindexed_fragments`` counts those that no segment of the index covers; a segment is ``inherited`` when its
files are those of another branch or dataset."""


class Segment(NamedTuple):
    """One segment, as pylance describes it."""

    name: str
    index_type: str
    columns: list[str]
    uuid: str
    fragments: frozenset[int]
    size_bytes: int | None
    created_at: datetime | None
    dataset_version: int | None
    inherited: bool


def index_rows(segments: Iterable[Segment], fragments: frozenset[int]) -> Iterator[pa.RecordBatch]:
    """INDEXES of a version with these fragments, by name."""
    ordered = sorted(segments, key=lambda segment: (segment.name, segment.uuid))
    covered: dict[str, frozenset[int]] = {}
    for segment in ordered:
        covered[segment.name] = covered.get(segment.name, frozenset()) | segment.fragments
    return in_batches(
        (
            (
                found.name,
                found.index_type,
                found.columns,
                found.uuid,
                len(found.fragments & fragments),
                len(fragments - covered[found.name]),
                found.size_bytes,
                found.created_at,
                found.dataset_version,
                found.inherited,
            )
            for found in ordered
        ),
        INDEXES,
    )
