"""Rows and bytes of all fragments of a version, from its manifest."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from lance_spark.location import DatasetLocation
from lance_spark.manifest.sizes import RecordedSize, recorded_sizes
from lance_spark.refs.model import PinnedVersion
from lance_spark.scan.plan import FragmentSize
from lance_spark.store.datasets import open_pinned
from lance_spark.store.failures import translated

if TYPE_CHECKING:
    import lance

OLDEST_FORMAT = "0.1"
"""Its writers recorded wrong numbers of rows."""


def fragment_sizes(location: DatasetLocation, pin: PinnedVersion) -> tuple[FragmentSize, ...]:
    """One entry per fragment, in the order rows are returned. Reads the manifest only, and that once."""
    return _list_fragments(location, pin) if pin.stamp is None else _kept_fragments(location, pin)


def _list_fragments(location: DatasetLocation, pin: PinnedVersion) -> tuple[FragmentSize, ...]:
    dataset = open_pinned(location, pin)
    with translated(location, "listing fragments"):
        # The public get_fragments() makes objects of every file of every fragment: of 100,000 that takes a second.
        message = dataset._ds.serialized_manifest()
        recorded = dataset.data_storage_version != OLDEST_FORMAT
        return tuple([_size(dataset, size, recorded) for size in recorded_sizes(message)])


_kept_fragments = lru_cache(maxsize=8)(_list_fragments)
"""A plan asks several times, and a session of queries asks again and again: 100,000 fragments take 0.3 seconds."""


def _size(dataset: lance.LanceDataset, size: RecordedSize, recorded: bool) -> FragmentSize:
    """``recorded`` says whether the manifest's row counts are reliable."""
    key, physical, deleted, stored = size
    if recorded and physical is not None and deleted is not None:
        return FragmentSize(key, physical, physical - deleted, stored)
    fragment = dataset.get_fragment(key)
    return FragmentSize(
        key, physical if recorded and physical else fragment.physical_rows, fragment.count_rows(), stored
    )
