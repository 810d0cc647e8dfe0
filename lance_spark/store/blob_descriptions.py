"""Reads where the blobs of a fragment are, without reading the blobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lance_spark.errors import NotFound
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.store.datasets import open_pinned
from lance_spark.store.failures import translated


def read_descriptions(
    location: DatasetLocation, pin: PinnedVersion, fragment: int, columns: Sequence[str]
) -> Iterator[pa.StructArray]:
    """The descriptions of blob columns of the rows that are not deleted. Raises NotFound, CorruptData."""
    dataset = open_pinned(location, pin)
    found = dataset.get_fragment(fragment)
    if found is None:
        raise NotFound(f"There is no fragment {fragment} in {pin}.")
    with translated(location, "reading descriptions of blobs"):
        scanner = dataset.scanner(columns=list(columns), fragments=[found], blob_handling="blobs_descriptions")
        for batch in scanner.to_batches():
            yield from batch.columns
