"""The versions of one branch as a stream goes along them: back to the first one, through the branches it came from."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from lance_spark import hints
from lance_spark.actions.resolve import check_branch
from lance_spark.errors import CorruptData
from lance_spark.feed.path import at_or_before
from lance_spark.feed.pieces import begins_copy
from lance_spark.location import DatasetLocation
from lance_spark.manifest.decode import decode_head
from lance_spark.manifest.transactions import Transaction
from lance_spark.merge.snapshot import Snapshot
from lance_spark.refs.model import Branch, PinnedVersion
from lance_spark.store import refs
from lance_spark.store.datasets import pin_latest
from lance_spark.store.version_listing import newest_first, version_numbers
from lance_spark.store.version_reader import contents_of, find_manifest, snapshot_of, transaction_of

_KEPT = 4
"""Versions that are kept: neighbours are compared, and manifests may be large."""


class LineVersion(NamedTuple):
    """One version of the line."""

    pin: PinnedVersion
    """Stamped."""
    content: bytes
    transaction: Transaction | None


class StreamLine:
    """A branch by its name. Which branch that is, and which version is its newest, is looked up by :meth:`look`."""

    def __init__(self, location: DatasetLocation, branch: str | None) -> None:
        self.location = location
        self.branch = branch
        self.identity = ""
        """Of the branch that :meth:`look` found; "" for main."""
        self._branches: Mapping[str, Branch] = {}
        self._known: OrderedDict[int, LineVersion] = OrderedDict()
        self._snapshots: OrderedDict[PinnedVersion, Snapshot] = OrderedDict()

    def look(self) -> int:
        """The newest version. Raises NotFound where the branch is gone."""
        if self.branch is not None:
            entry = refs.read_branch(self.location, self.branch)
            if entry is None:
                check_branch(self.location, self.branch)
            elif entry.identity != self.identity:
                self.forget()
                self.identity = entry.identity
                self._branches = refs.read_branches(self.location).branches
        newest = next(newest_first(self.location, self.branch), None)
        return pin_latest(self.location, self.branch).version if newest is None else newest[0]

    def forget(self) -> None:
        """Read everything again: the dataset is not the one it was."""
        self._known.clear()
        self._snapshots.clear()

    def pins(self, version: int) -> tuple[PinnedVersion, ...]:
        """Where a version is: on the branch, or on one it came from. The version it was made from is on both."""
        own = at_or_before(PinnedVersion(self.branch, version), self._branches)
        entry = self._branches.get(own.branch or "")
        fork = None if entry is None else entry.fork
        return (fork, own) if fork is not None and fork.version == version else (own,)

    def find(self, version: int) -> LineVersion | None:
        """A version; None where it is gone, and before the first."""
        if version < 1:
            return None
        known = self._known.get(version)
        if known is not None:
            return known
        for pin in self.pins(version):
            content = find_manifest(self.location, pin)
            if content is not None:
                return self._keep(pin, content)
        return None

    def stamp(self, version: int) -> int:
        """Commit time in nanoseconds; 0 before the first version, and of one that is gone."""
        found = self.find(version)
        return 0 if found is None else found.pin.stamp or 0

    def stamp_now(self, version: int) -> int:
        """As :meth:`stamp`, of the version that is there now, whatever was read before."""
        self._known.pop(version, None)
        return self.stamp(version)

    def snapshot(self, found: LineVersion) -> Snapshot:
        """A version with the places of its files."""
        known = self._snapshots.get(found.pin)
        if known is None:
            contents = contents_of(self.location, found.pin, found.content)
            known = self._snapshots[found.pin] = snapshot_of(self.location, found.pin, contents)
            while len(self._snapshots) > _KEPT:
                self._snapshots.popitem(last=False)
        return known

    def before(self, version: int) -> LineVersion | None:
        """The version that one is compared with; None if there is none, or it is gone."""
        while True:
            version -= 1
            found = self.find(version)
            # The first half of a version that was copied from another dataset has no rows; the next one brings them.
            if found is None or not begins_copy(found.transaction):
                return found

    def oldest(self, newest: int) -> int:
        """The oldest version from which on none is missing, of those that the branch itself has."""
        known = {*version_numbers(self.location, self.branch)}
        oldest = newest
        while oldest - 1 in known:
            oldest -= 1
        return oldest

    def _keep(self, pin: PinnedVersion, content: bytes) -> LineVersion:
        head = decode_head(content)
        if head.version != pin.version:
            raise CorruptData(
                f"The manifest of version {pin} of {self.location.uri} holds version {head.version}.",
                hint=hints.of(hints.FSCK, " says more."),
            )
        stamped = PinnedVersion(pin.branch, pin.version, head.timestamp_ns)
        found = LineVersion(stamped, content, transaction_of(self.location, pin.branch, content))
        self._known[pin.version] = found
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return found
