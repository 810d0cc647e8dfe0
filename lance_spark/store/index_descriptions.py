"""Describes the indexes of a version through pylance."""

from __future__ import annotations

from collections.abc import Iterator

from lance_spark.location import DatasetLocation
from lance_spark.metadata.indexes import Segment
from lance_spark.refs.model import PinnedVersion
from lance_spark.store.datasets import open_pinned
from lance_spark.store.failures import translated


def describe_segments(location: DatasetLocation, pin: PinnedVersion) -> Iterator[Segment]:
    """All segments of all indexes."""
    dataset = open_pinned(location, pin)
    with translated(location, "describing the indexes"):
        described = dataset.describe_indices()
    for index in described:
        for segment in index.segments:
            yield Segment(
                name=index.name,
                index_type=index.index_type,
                columns=list(index.field_names),
                uuid=str(segment.uuid),
                fragments=frozenset(segment.fragment_ids),
                size_bytes=segment.size_bytes,
                created_at=segment.created_at,
                dataset_version=segment.dataset_version_at_last_update,
                inherited=segment.base_id is not None,
            )
