"""The tables that a statement names, each at one version for all of the statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lance_spark.actions.read import blob_names

if TYPE_CHECKING:
    from lance_spark.actions.read import PinnedRead
    from lance_spark.refs.model import PinnedVersion
    from lance_spark.spark.jvm.bridge import Bridge
    from lance_spark.spark.jvm.places import Place
    from lance_spark.spark.jvm.stored_table import StoredTable

Branch = tuple[str, "str | None"]
"""A dataset's URI and the name of a branch of it; None for main."""


@dataclass
class Lookups:
    """What Spark looked up while it analyzed a statement."""

    pins: dict[Branch, PinnedVersion] = field(default_factory=dict)
    """The version of each branch: of the first look at it, unless it was said before."""
    tables: dict[str, StoredTable] = field(default_factory=dict)
    """By their texts in Java."""

    def version(self, place: Place, resolve: Callable[[], PinnedVersion]) -> PinnedVersion:
        """The version of a place."""
        if not place.is_branch:
            return resolve()
        key = branch_of(place)
        if key not in self.pins:
            self.pins[key] = resolve()
        return self.pins[key]


_lookups: dict[int, Lookups] = {}
"""By Java's threads: Spark looks tables up in the one that analyzes the statement. Python's thread is another one."""


@contextmanager
def looking_up(bridge: Bridge, pins: dict[Branch, PinnedVersion]) -> Iterator[Lookups]:
    """Let what this thread analyzes find these versions of branches, and remember what it finds."""
    thread = bridge.thread()
    before, found = _lookups.get(thread), Lookups(dict(pins))
    _lookups[thread] = found
    try:
        yield found
    finally:
        if before is None:
            _lookups.pop(thread, None)
        else:
            _lookups[thread] = before


def current_lookups(bridge: Bridge) -> Lookups | None:
    """What the statement has found that asks for a table; None for all other statements."""
    return _lookups.get(bridge.thread()) if _lookups else None


def branch_of(place: Place) -> Branch:
    """The branch that a place is."""
    return place.location.uri, place.spec.branch


def with_blobs(read: PinnedRead) -> PinnedRead:
    """The read of a table that is changed: rows that are written again take the bytes of blobs along."""
    return replace(read, options=replace(read.options, blob_handling="bytes")) if blob_names(read) else read
