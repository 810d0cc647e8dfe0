"""What is asked of a replay: which versions, which rows are the same, and whose value wins.

In: a verb's options and the history of both sides. Out: one value that everything from planning to the commit goes by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lance_spark import hints
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.engine.local import Engine
from lance_spark.format import versions as format_versions
from lance_spark.format.operations import VersionSpan
from lance_spark.merge.hint_rules import Again
from lance_spark.merge.option_rules import Prefer
from lance_spark.merge.placement_rules import InPlacePolicy
from lance_spark.merge.resolve_rules import Resolve
from lance_spark.merge.unshared import Unshared
from lance_spark.storage import versions
from lance_spark.storage.datasets import pin_version


@dataclass(frozen=True)
class Request:
    """Apply to ``ours`` what ``theirs`` changed since the base. Each side sees the base in its own chain."""

    location: DatasetLocation
    ours: PinnedVersion
    theirs: PinnedVersion
    base_ours: PinnedVersion
    base_theirs: PinnedVersion
    trace: format_versions.Trace
    message: str | None = None
    reference: InPlacePolicy = field(default_factory=InPlacePolicy)
    """Which data files stay where they are."""
    our_path: tuple[VersionSpan, ...] | None = None
    """The versions of ours that the base does not have; None to find them by the base's branch."""
    their_path: tuple[VersionSpan, ...] | None = None
    numbering: PinnedVersion | None = None
    """A version of theirs with the rows of the base, if the base itself numbers rows differently."""
    our_numbering: PinnedVersion | None = None
    """The version of ours that took the base in, if ours did not begin with it."""
    certain_ids: bool = False
    """Whether these two tell each version from which a side may have other field ids."""
    gains: tuple[PinnedVersion, ...] = ()
    """What theirs holds of other branches and ours lacks."""
    remote: DatasetLocation | None = None
    """Where theirs is, if that is another dataset."""
    with_indexes: bool = True
    """Whether to copy indexes of theirs that are valid in ours."""
    reader: versions.VersionCache = field(default_factory=versions.VersionCache)
    """What this attempt has already read of the two sides."""
    shares: bool = False
    """Whether ours has versions that theirs has and the base lacks."""
    alone: bool = False
    """Whether the commit must follow ours directly, so that nothing is combined with what another process commits."""
    one_version: bool = False
    """Whether nothing may be committed to ours before the replay itself."""
    engine: Engine | None = None
    """Where rows are compared by their values; None to refuse instead."""
    by_cells: bool = False
    """Whether rows that both sides changed combine where they changed different columns."""
    settles_cells: bool = False
    """Whether a preference settles single cells, and not whole rows."""
    on: tuple[str, ...] = ()
    """Columns by which such rows are matched if they have no stable ids; by default those of the table's key."""
    prefer: Prefer = field(default_factory=Prefer)
    """Whose value is taken where both sides changed the same row or cell."""
    resolve: Resolve | None = None
    """A function of the caller that decides about the rows that this leaves open."""
    again: Again | None = None
    """The verb as it is typed with another preference, for hints."""
    row_numbering: PinnedVersion | None = None
    """A version with rows of the base under their stable ids in ours; None if there is none."""
    fork: PinnedVersion | None = None
    """The version that both chains were forked from: rows have the ids of that version in both."""
    their_fork: PinnedVersion | None = None
    """The same of theirs and its base, if that is another dataset's."""
    keeps_ids: bool = True
    """Whether rows that ours has keep their stable ids in new fragments."""
    unshared: Unshared | None = None
    """Tells whether what ours got since the base certainly never left the dataset; None if it may have."""
    earlier_path: tuple[VersionSpan, ...] | None = ()
    """Versions of theirs before the base that ours does not have: they may have compacted what ours still has. None if
    unknown."""

    @property
    def their_location(self) -> DatasetLocation:
        return self.remote or self.location


def open_root(request: Request, uri: str) -> DatasetLocation:
    """A root with the storage options of the side in the same store."""
    there = request.their_location
    location = DatasetLocation(uri, there.options)
    return location if location.store == there.store else DatasetLocation(uri, request.location.options)


def stamped(location: DatasetLocation, pin: PinnedVersion) -> PinnedVersion:
    return pin if pin.stamp is not None else pin_version(location, pin.branch, pin.version)


# --- The verb as it is typed again, for hints


def merge_again(source: str | None, into: str | None, prefer: str, on: Sequence[str]) -> hints.Hint:
    return hints.merge(source or MAIN, into, prefer, on)


def pick_again(pin: PinnedVersion, into: str | None, action: str, prefer: str, on: Sequence[str]) -> hints.Hint:
    """A cherry-pick or a revert as it is typed again."""
    if action == format_versions.CHERRY_PICK:
        return hints.cherry_pick(pin.branch or MAIN, pin.version, into, prefer, on)
    return hints.revert(pin.version, pin.branch, prefer, on)
