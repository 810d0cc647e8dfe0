"""Reads manifest files whole, many at a time, in the order they were asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lance_spark.location import DatasetLocation
from lance_spark.store import files
from lance_spark.store.parallel import THREADS


def read_manifests(location: DatasetLocation, paths: Sequence[str]) -> Iterator[bytes | None]:
    """The contents of manifests, by paths relative to the dataset; None for a manifest that is not there."""
    if location.is_local:
        yield from (files.read(location, path) for path in paths)
        return
    for first in range(0, len(paths), THREADS):
        yield from files.read_many(location, paths[first : first + THREADS])
