"""Reads versions for one action, which looks at the same ones again and again: each is asked for once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Contents
from lance_spark.manifest.transactions import Transaction
from lance_spark.merge.snapshot import Snapshot
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import chains
from lance_spark.store.parallel import THREADS

_FEW = 8
"""Versions that are asked for by their numbers: a listing is a request of its own, and of a long history many."""
_KEPT = 32 * 1024 * 1024
"""Bytes of manifests to keep; what is beyond that is read again. A table with many fragments has large ones."""

_Chain = tuple[DatasetLocation, str | None]


class Reader:
    """Versions as they were read first. A version never changes, but what is newest does: that is never kept.

    One is for one action, and for one attempt of it: a dataset may be deleted and made anew at the same place.
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
            self._versions[chain] = list(chains.version_names(location, branch))
        return [version for version in self._versions[chain] if first <= version <= until]

    def has(self, location: DatasetLocation, pin: PinnedVersion) -> bool:
        """Whether a version is there."""
        return self._manifest(location, pin.branch, pin.version) is not None

    def read_ahead(self, location: DatasetLocation, pins: Iterable[PinnedVersion]) -> None:
        """Ask at once for versions that are going to be wanted one after the other; some may be gone."""
        if not location.is_local:
            with ThreadPoolExecutor(THREADS) as pool:
                wanted = [pool.submit(self.has, location, pin) for pin in pins]
            for found in wanted:
                found.result()

    def contents(self, location: DatasetLocation, pin: PinnedVersion) -> Contents:
        """As :func:`chains.read_contents`."""
        kept = self._manifests.get(((location, pin.branch), pin.version))
        if kept is not None:
            contents = chains.contents_of(location, pin, kept)
            if pin.stamp in (None, contents.head.timestamp_ns):
                return contents
        content = chains.read_manifest(location, pin)
        self._keep(location, pin.branch, pin.version, content)
        return chains.contents_of(location, pin, content)

    def snapshot(self, location: DatasetLocation, pin: PinnedVersion) -> Snapshot:
        """As :func:`chains.read_snapshot`."""
        return chains.snapshot_of(location, pin, self.contents(location, pin))

    def transactions(
        self, location: DatasetLocation, branch: str | None, versions: Sequence[int]
    ) -> dict[int, Transaction | None]:
        """As :func:`chains.read_transactions`."""
        chain = (location, branch)

        def read(version: int) -> bool:
            content = self._manifest(location, branch, version)
            if content is None:
                return False
            self._transactions[chain, version] = chains.transaction_of(location, branch, content)
            return True

        unknown = [version for version in versions if (chain, version) not in self._transactions]
        gone = {version for version, found in chains.each_version(location, unknown, read) if not found}
        return {version: self._transactions[chain, version] for version in versions if version not in gone}

    def _manifest(self, location: DatasetLocation, branch: str | None, version: int) -> bytes | None:
        content = self._manifests.get(((location, branch), version))
        if content is None:
            content = chains.find_manifest(location, branch, version)
            if content is not None:
                self._keep(location, branch, version, content)
        return content

    def _keep(self, location: DatasetLocation, branch: str | None, version: int, content: bytes) -> None:
        """Several threads come by here; at worst a little more is kept."""
        key = ((location, branch), version)
        room = self._free + len(self._manifests.get(key, b""))
        if len(content) <= room:
            self._manifests[key] = content
            self._free = room - len(content)
