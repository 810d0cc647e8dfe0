"""Compacts what a stream's batches left behind, between two batches, in the process that commits."""

from __future__ import annotations

import logging
from itertools import takewhile

from lance_spark.actions.optimize import optimize
from lance_spark.compaction.model import OptimizeOptions
from lance_spark.errors import LanceSparkError
from lance_spark.location import DatasetLocation
from lance_spark.runner.local import LocalRunner
from lance_spark.store import version_reader
from lance_spark.store.datasets import pin_latest

_LOG = logging.getLogger("lance_spark.streams")
_MOST = 1 << 30
"""Bytes that are rewritten at most: the next batch waits for it."""


def is_due(every: int | None, number: int) -> bool:
    """Whether a batch comes after as many others as are to be compacted together.

    It is done before the batch, not after the last one of them. A compaction makes several versions, which come after
    the query's tag: a query that waited for new rows would be refused once another tool's cleanup took one of them.
    """
    return every is not None and number > 0 and number % every == 0


def tidy(location: DatasetLocation, branch: str | None, options: OptimizeOptions | None = None) -> None:
    """Compact the small fragments at the end of a branch, those that came last.

    An error here must not fail the query: the next turn tries again.
    """
    options = options or OptimizeOptions(partial_progress=1)
    try:
        small = _small(location, branch, options.target_rows)
        if len(small) > 1:
            optimize(location, branch, options, LocalRunner(), small)
    except LanceSparkError as problem:
        _LOG.warning("Small fragments of %s were not compacted: %s", location.uri, problem.message)


def _small(location: DatasetLocation, branch: str | None, target: int) -> frozenset[int]:
    """The last fragments, as long as each is less than half of what it should be, and all of them are not too much."""
    contents = version_reader.read_contents(location, pin_latest(location, branch))
    newest = takewhile(lambda fragment: 2 * fragment.rows < target, reversed([*contents.fragments()]))
    found, size = [], 0
    for fragment in newest:
        size += fragment.size
        if size > _MOST:
            break
        found.append(fragment.id)
    return frozenset(found)
