"""Describes the indexes of a version through pylance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lance_spark.location import DatasetLocation
from lance_spark.metadata.indexes import Segment
from lance_spark.refs.model import PinnedVersion
from lance_spark.store.datasets import open_pinned
from lance_spark.store.failures import translated


def describe_segments(location: DatasetLocation, pin: PinnedVersion) -> Iterator[Segment]:
    """All segments of all indexes."""
    for index in _described(location, pin):
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


def all_details(location: DatasetLocation, pin: PinnedVersion) -> dict[str, Mapping[str, Any]]:
    """What each index was made with, by its name, in pylance's words."""
    return {index.name: dict(index.details or {}) for index in _described(location, pin)}


def index_details(location: DatasetLocation, pin: PinnedVersion, name: str) -> Mapping[str, Any]:
    """What an index was made with, in pylance's words; empty where it does not tell."""
    return all_details(location, pin).get(name, {})


def _described(location: DatasetLocation, pin: PinnedVersion) -> Any:
    dataset = open_pinned(location, pin)
    with translated(location, "describing the indexes"):
        return dataset.describe_indices()
