"""Keeps the versions that one action reads: it needs the same ones again and again, and each is requested once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Contents
from lance_spark.manifest.transactions import Transaction
from lance_spark.merge.snapshot import Snapshot
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import version_reader
from lance_spark.store.parallel import each
from lance_spark.store.version_listing import version_numbers

_FEW = 8
"""So many versions are requested by number, without a listing, which takes a request or, with a long history, many."""
_KEPT = 32 * 1024 * 1024
"""Bytes of manifests to keep; others are read again. A table with many fragments has large manifests."""

_Chain = tuple[DatasetLocation, str | None]


class VersionCache:
    """Versions as they were read first. A version never changes. Which version is the newest does, and is never kept.

    Each attempt of an action needs its own cache: a dataset may be deleted and created again at the same place.
    """

    def __init__(self) -> None:
        self._manifests: dict[tuple[_Chain, int], bytes] = {}
        self._transactions: dict[tuple[_Chain, int], Transaction | None] = {}
        self._versions: dict[_Chain, list[int]] = {}
        self._free = _KEPT

    def versions(self, location: DatasetLocation, branch: str | None, after: int, until: int) -> Sequence[int]:
        """The versions of a chain after one, up to another one, ascending. Of a few, some may be gone."""
        first = max(0, after) + 1
        if until - first < _FEW:
            return range(first, until + 1)
        chain = (location, branch)
        if self._versions.get(chain, [0])[-1:] < [until]:
            self._versions[chain] = version_numbers(location, branch)
        return [version for version in self._versions[chain] if first <= version <= until]

    def has(self, location: DatasetLocation, pin: PinnedVersion) -> bool:
        """Whether a version is there."""
        return self._manifest(location, pin) is not None

    def read_ahead(self, location: DatasetLocation, pins: Iterable[PinnedVersion]) -> None:
        """Request several versions at once that are going to be needed one after another; some may be gone."""
        if not location.is_local:
            each(location, partial(self.has, location), pins)

    def contents(self, location: DatasetLocation, pin: PinnedVersion) -> Contents:
        """As :func:`version_reader.read_contents`."""
        kept = self._manifests.get(((location, pin.branch), pin.version))
        if kept is not None:
            contents = version_reader.contents_of(location, pin, kept)
            if pin.stamp in (None, contents.head.timestamp_ns):
                return contents
        content = version_reader.read_manifest(location, pin)
        self._keep(location, pin, content)
        return version_reader.contents_of(location, pin, content)

    def snapshot(self, location: DatasetLocation, pin: PinnedVersion) -> Snapshot:
        """As :func:`version_reader.read_snapshot`."""
        return version_reader.snapshot_of(location, pin, self.contents(location, pin))

    def transactions(
        self, location: DatasetLocation, branch: str | None, versions: Sequence[int]
    ) -> dict[int, Transaction | None]:
        """As :func:`version_reader.read_transactions`."""
        chain = (location, branch)

        def read(version: int) -> None:
            content = self._manifest(location, PinnedVersion(branch, version))
            if content is not None:
                self._transactions[chain, version] = version_reader.transaction_of(location, branch, content)

        unknown = [version for version in versions if (chain, version) not in self._transactions]
        each(location, read, unknown)
        known = [version for version in versions if (chain, version) in self._transactions]
        return {version: self._transactions[chain, version] for version in known}

    def _manifest(self, location: DatasetLocation, pin: PinnedVersion) -> bytes | None:
        content = self._manifests.get(((location, pin.branch), pin.version))
        if content is None:
            content = version_reader.find_manifest(location, pin)
            if content is not None:
                self._keep(location, pin, content)
        return content

    def _keep(self, location: DatasetLocation, pin: PinnedVersion, content: bytes) -> None:
        """Several threads may run this at once; at worst a little more is kept."""
        key = ((location, pin.branch), pin.version)
        room = self._free + len(self._manifests.get(key, b""))
        if len(content) <= room:
            self._manifests[key] = content
            self._free = room - len(content)
