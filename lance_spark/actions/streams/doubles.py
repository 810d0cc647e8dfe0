"""Takes a batch back that came twice: two drivers ran one query at the same moment.

A paused driver may go on after another one took over the query. Both have looked before either committed, and pylance
combines appends. So after each commit what others committed since the look is looked at as well: the later of two
versions with one batch is taken back, by whoever sees it first.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace

from lance_spark.actions.attempts import attempts
from lance_spark.errors import Conflict, Refused
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import version_reader
from lance_spark.store.datasets import pin_latest
from lance_spark.store.stream_sink import commit_removal, look_for
from lance_spark.streams.names import TAKEN_BACK
from lance_spark.streams.sink import Batch, BranchLook, doubled, last_batch

_LOG = logging.getLogger("lance_spark.streams")


def take_back(location: DatasetLocation, batch: Batch) -> int | None:
    """Delete the rows of every batch that is in twice; returns the version that did, None if there is none.

    Raises Refused where they were changed since, and Conflict.
    """
    for _ in attempts():
        head = pin_latest(location, batch.branch)
        look = look_for(location, batch, head.version)
        twice = doubled(look, batch.query)
        if twice is None:
            return None
        # The batch that came late may be an older one: what is in is told by the newest.
        properties = replace(batch, number=last_batch(look, batch.query)).properties
        properties |= {TAKEN_BACK: str(twice[1])}
        try:
            made = commit_removal(location, head, _rows_of(location, batch, look, twice), properties)
        except Conflict:
            continue
        _LOG.warning("Version %s of %s held a batch for the second time, and was taken back.", twice[1], batch.uri)
        return made.version
    raise Conflict(f"Others commit to {batch.uri} again and again.", hint="Start the query again.")


def _rows_of(location: DatasetLocation, batch: Batch, look: BranchLook, twice: tuple[int, int]) -> list[int]:
    """The fragments of the second one. Raises Refused if one of them is not there any more."""
    first, second = twice
    noted, said = look.noted.get(second), look.newer[second]
    is_noted = noted is not None and said is not None and noted.uuid == said.uuid
    added = noted.added if noted is not None and is_noted else _added(location, batch.branch, second)
    if added is None or not frozenset(added) <= _fragments(location, batch.branch, look.newest):
        raise Refused(
            f"A batch of query {batch.query} is in twice, in version {first} and {second} of {batch.uri}: two "
            "drivers ran the query at the same moment. Its rows were changed since.",
            hint=f"Delete those of version {second} by hand, and let only one driver run the query.",
        )
    return sorted(added)


def _added(location: DatasetLocation, branch: str | None, version: int) -> Collection[int]:
    return _fragments(location, branch, version) - _fragments(location, branch, version - 1)


def _fragments(location: DatasetLocation, branch: str | None, version: int) -> frozenset[int]:
    contents = version_reader.read_contents(location, PinnedVersion(branch, version))
    return frozenset(fragment.id for fragment in contents.fragments())
