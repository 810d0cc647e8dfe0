"""What a replay is asked for: which versions to compare, and on top of which one to commit."""

from __future__ import annotations

from dataclasses import dataclass, field

from lance_spark.location import DatasetLocation
from lance_spark.merge.placement import InPlacePolicy
from lance_spark.merge.steps import VersionSpan
from lance_spark.merge.trace import Trace
from lance_spark.refs.model import PinnedVersion
from lance_spark.store.version_cache import VersionCache


@dataclass(frozen=True)
class Request:
    """Take over to ``ours`` what ``theirs`` changed since the base. Both sides see the base in a chain of their own."""

    location: DatasetLocation
    ours: PinnedVersion
    theirs: PinnedVersion
    base_ours: PinnedVersion
    base_theirs: PinnedVersion
    trace: Trace
    message: str | None = None
    reference: InPlacePolicy = field(default_factory=InPlacePolicy)
    """Which data files stay where they are."""
    our_path: tuple[VersionSpan, ...] | None = None
    """The versions of ours that the base does not have; None to find them by the base's branch."""
    their_path: tuple[VersionSpan, ...] | None = None
    numbering: PinnedVersion | None = None
    """A version of theirs that has the rows of the base, if the base itself numbers rows in another way."""
    remote: DatasetLocation | None = None
    """Where theirs is, if that is another dataset."""
    with_indexes: bool = True
    """Whether to copy indexes of theirs that are valid in ours."""
    reader: VersionCache = field(default_factory=VersionCache)
    """What was read of the two sides before, in the same attempt."""
    shares: bool = False
    """Whether ours has versions that theirs has and the base has not."""
    earlier_path: tuple[VersionSpan, ...] | None = ()
    """Versions of theirs before the base that ours does not have: they may have compacted what ours still has. None if
    they are not known."""

    @property
    def their_location(self) -> DatasetLocation:
        """Where theirs is."""
        return self.remote or self.location


def open_root(request: Request, uri: str) -> DatasetLocation:
    """A root with the storage options that open it: those of whichever side is in the same store."""
    there = request.their_location
    location = DatasetLocation(uri, there.options)
    return location if location.store == there.store else DatasetLocation(uri, request.location.options)
