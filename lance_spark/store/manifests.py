"""Reads manifest files whole, many at a time, in the order they were asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from lance_spark.location import DatasetLocation
from lance_spark.store import files

_AHEAD = 16
"""How many manifests are on their way at once: a store answers each only after tens of milliseconds."""


def read_manifests(location: DatasetLocation, paths: Sequence[str]) -> Iterator[bytes | None]:
    """The contents of manifests, by paths relative to the dataset; None for one that the store says is not there."""
    if location.is_local or len(paths) == 1:
        yield from (files.read(location, path) for path in paths)
        return
    with ThreadPoolExecutor(_AHEAD) as pool:
        coming: deque[Future[bytes | None]] = deque()
        for path in paths:
            coming.append(pool.submit(files.read, location, path))
            if len(coming) == _AHEAD:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()
