"""The versions of a branch: listed by the names of their manifests, read, and cached."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, count, islice, repeat, tee
from typing import NamedTuple

from lance_spark.core import layout
from lance_spark.core.location import DatasetLocation, canonical_uri
from lance_spark.core.ref_names import missing_version
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.services import keeps_versions
from lance_spark.errors import CorruptData
from lance_spark.format.contents import Contents, decode_contents
from lance_spark.format.manifest import decode_head
from lance_spark.format.transactions import Transaction, decode_transaction, inline_transaction
from lance_spark.format.versions import Root, Snapshot
from lance_spark.storage import files
from lance_spark.storage.datasets import open_latest, settle


def version_paths(location: DatasetLocation, branch: str | None) -> dict[int, str]:
    """The versions of a branch, ascending, with the paths of their manifests. One listing, or two if some are missing.

    A directory of more than some hundred entries that changes while it is listed may show a version and not the one
    before it, as if that one had been cleaned up: a retry would not find its own commit, and apply it twice. All
    versions up to the newest one of a listing existed when that listing ended. So a second one has them all.
    """
    found = _listed_versions(location, branch)
    newest = max(found, default=0)
    if not found or newest - min(found) + 1 == len(found):
        return found
    return {version: path for version, path in _listed_versions(location, branch).items() if version <= newest}


def _listed_versions(location: DatasetLocation, branch: str | None) -> dict[int, str]:
    settle(location, branch)
    directory = layout.versions_directory(branch)
    names = files.list_names(location, directory)
    return dict(sorted(_versions(f"{directory}/{name}" for name in names)))


def version_numbers(location: DatasetLocation, branch: str | None) -> list[int]:
    """The versions of a branch, ascending. Listed like :func:`version_paths`."""
    return list(version_paths(location, branch))


def has_version(location: DatasetLocation, pin: PinnedVersion) -> bool:
    """Whether a version exists. No listing: one request in all but the oldest datasets."""
    settle(location, pin.branch, pin.version - 1)
    return any(files.exists(location, path) for path in layout.manifest_paths(pin.branch, pin.version))


def newest_first(
    location: DatasetLocation, branch: str | None, newest: int | None = None, above: int | None = None
) -> Iterator[tuple[int, str]]:
    """(version, path of its manifest) of a branch, descending, from ``newest`` or the newest one, down to ``above``.

    S3 gets a request for a page of names when the first path of that page is taken, and none beyond the bounds.
    Elsewhere, and with names of the older scheme, which do not sort by version, all versions are listed.
    """
    if location.uri.startswith("s3://"):
        from lance_spark.storage.listing import list_paths  # imports pyarrow, which commands do not wait for

        settle(location, branch, above or 0)
        directory = layout.versions_directory(branch)
        after = (
            f"{directory}/" if newest is None else layout.manifest_paths(branch, newest)[0].removesuffix(".manifest")
        )
        until = f"{directory}0" if above is None else layout.manifest_paths(branch, above)[0]
        listed = _versions(list_paths(location, layout.KeyRange(after, until)))
        first = next(listed, None)
        if first is not None and layout.sorts_newest_first(first[1].rpartition("/")[2]):
            yield from _between(chain([first], listed), newest, above)
            return
    yield from _between(reversed(version_paths(location, branch).items()), newest, above)


def _between(versions: Iterable[tuple[int, str]], newest: int | None, above: int | None) -> Iterator[tuple[int, str]]:
    for version, path in versions:
        if (newest is None or version <= newest) and (above is None or version > above):
            yield version, path


def _versions(paths: Iterable[str]) -> Iterator[tuple[int, str]]:
    for path in paths:
        name = layout.read_manifest_name(path.rpartition("/")[2])
        if name is not None and not name.detached:
            yield name.version, path


def newest_manifest(location: DatasetLocation) -> tuple[int, int] | None:
    """The newest version of main and the bytes of its manifest; None without data. One request on S3."""
    from lance_spark.storage.listing import list_sizes  # imports pyarrow, which commands do not wait for

    newest: tuple[int, int] | None = None
    settle(location, None)
    for path, size in list_sizes(location, layout.KeyRange.below(layout.VERSIONS)):
        name = layout.read_manifest_name(path.rpartition("/")[2])
        if name is None or name.detached:
            continue
        newest = max(newest or (0, 0), (name.version, size))
        if location.uri.startswith("s3://") and layout.sorts_newest_first(path.rpartition("/")[2]):
            break
    return newest


# --- Manifests, and transactions without the fragments

_AT_ONCE = 16
"""Maximum number of concurrent requests for manifests: a store answers each only after tens of milliseconds."""


def find_manifest(location: DatasetLocation, pin: PinnedVersion) -> bytes | None:
    """A version's manifest file; None if there is none. One request in all but the oldest datasets."""
    for _ in range(2 if keeps_versions(location) else 1):
        contents = (files.read(location, path) for path in layout.manifest_paths(pin.branch, pin.version))
        content = next((content for content in contents if content is not None), None)
        if content is not None:
            return content
        settle(location, pin.branch, pin.version - 1)
    return None


def read_manifest(location: DatasetLocation, pin: PinnedVersion) -> bytes:
    """A version's manifest file. Raises NotFound, with the nearest versions, if there is none."""
    content = find_manifest(location, pin)
    if content is None:
        open_latest(location)
        raise missing_version(pin.version, pin.branch, version_numbers(location, pin.branch))
    return content


def read_manifests(location: DatasetLocation, paths: Sequence[str]) -> Iterator[bytes | None]:
    """The contents of manifests, by paths relative to the dataset; None for a missing manifest."""
    if location.is_local:
        yield from (files.read(location, path) for path in paths)
        return
    for first in range(0, len(paths), _AT_ONCE):
        yield from files.read_many(location, paths[first : first + _AT_ONCE])


def read_contents(location: DatasetLocation, pin: PinnedVersion) -> Contents:
    """A version, decoded. Raises NotFound, CorruptData, and Refused for a version in an unknown format."""
    return contents_of(location, pin, read_manifest(location, pin))


def contents_of(location: DatasetLocation, pin: PinnedVersion, manifest: bytes) -> Contents:
    """A version, decoded from a manifest that was already read. Raises in the same way."""
    contents = decode_contents(manifest)
    if contents.head.version != pin.version:
        raise CorruptData(f"The manifest of version {pin} of {location.uri} holds version {contents.head.version}.")
    return contents


def read_snapshot(location: DatasetLocation, pin: PinnedVersion) -> Snapshot:
    """A version with the canonical URIs of all places that hold its files."""
    return snapshot_of(location, pin, read_contents(location, pin))


def snapshot_of(location: DatasetLocation, pin: PinnedVersion, contents: Contents) -> Snapshot:
    """A version that was already read, in the same way."""
    bases: dict[int | None, Root] = {None: Root(location.branch_uri(pin.branch))}
    for key, base in contents.head.bases.items():
        bases[key] = Root(canonical_uri(base.path, os.path.realpath), base.is_dataset_root)
    return Snapshot(pin, contents, bases)


def read_transactions(
    location: DatasetLocation, branch: str | None, versions: Iterable[int]
) -> dict[int, Transaction | None]:
    """The transactions of versions; None for one that is missing everywhere. Versions that are gone are omitted."""

    def transaction(version: int) -> tuple[int, Transaction | None] | None:
        content = find_manifest(location, PinnedVersion(branch, version))
        return None if content is None else (version, transaction_of(location, branch, content))

    return dict(filter(None, files.each(location, transaction, versions)))


def read_transaction(location: DatasetLocation, pin: PinnedVersion) -> Transaction | None:
    """The transaction of one version; None if it, or the version, is missing everywhere."""
    content = find_manifest(location, pin)
    return None if content is None else transaction_of(location, pin.branch, content)


def transaction_of(location: DatasetLocation, branch: str | None, manifest: bytes) -> Transaction | None:
    """The transaction of a version whose manifest was already read; None if it is missing everywhere."""
    inline = inline_transaction(manifest)
    if inline is not None:
        return inline
    name = decode_head(manifest).transaction_file
    content = files.read(location, layout.transaction_path(branch, name)) if name else None
    return None if content is None else decode_transaction(content)


# --- The versions of a branch, newest first: listed lazily, read slightly ahead

_PAGE = 1000
"""Number of keys in one answer of S3."""


class StoredVersion(NamedTuple):
    version: int
    content: bytes
    below: int | None
    """The next lower existing version; None if there is none."""


class BranchVersions:
    """The versions of a branch, newest first. They are listed once, and on S3 only as far as needed."""

    def __init__(self, location: DatasetLocation, branch: str | None) -> None:
        self.location = location
        self.branch = branch
        self._listed: list[tuple[int, str]] = []
        self._known: set[int] = set()
        self._coming = newest_first(location, branch)
        self._read: dict[str, bytes | None] = {}

    @property
    def newest(self) -> int | None:
        return next((version for version, _ in self._all()), None)

    def paths(self, newest: int) -> Iterator[tuple[int, str]]:
        """(version, path of its manifest) from a version on, newest first."""
        if not self.location.is_local and (self.newest or 0) - newest >= _PAGE:
            return newest_first(self.location, self.branch, newest)
        return ((version, path) for version, path in self._all() if version <= newest)

    def has(self, version: int) -> bool:
        """Whether a version exists. One that is not on the first page of the listing is requested by name."""
        if version in self._known:
            return True
        first_page = self._all() if self.location.is_local else islice(self._all(), _PAGE)
        lowest = next((listed for listed, _ in first_page if listed <= version), None)
        if lowest is not None:
            return lowest == version
        return has_version(self.location, PinnedVersion(self.branch, version))

    def read_newest(self) -> None:
        """Read the newest manifest, for the first reader that takes it."""
        for _, path in islice(self._all(), 1):
            self._read[path] = files.read(self.location, path)

    def read(self, paths: Sequence[str]) -> Iterator[bytes | None]:
        """The contents of manifests; None for a missing one."""
        if len(paths) == 1 and paths[0] in self._read:
            return iter((self._read.pop(paths[0]),))
        return read_manifests(self.location, paths)

    def _all(self) -> Iterator[tuple[int, str]]:
        """Several iterators can run at once: they share what any of them has listed."""
        for at in count():
            if at == len(self._listed):
                listed = next(self._coming, None)
                if listed is None:
                    return
                self._listed.append(listed)
                self._known.add(listed[0])
            yield self._listed[at]


def read_versions(
    versions: BranchVersions, paths: Iterator[tuple[int, str]], ahead: Iterable[int]
) -> Iterator[StoredVersion]:
    """Versions of a branch, newest first, as listed in ``paths``. Versions that are gone are omitted.

    A manifest is read when it is taken. An object store gets requests for others meanwhile: ``ahead`` is how many will
    be taken, first and each time that many were taken.
    """
    to_read, here, next_ones = tee(paths, 3)
    below = chain((version for version, _ in islice(next_ones, 1, None)), repeat(None))
    contents = chain.from_iterable(_in_blocks(versions, to_read, ahead))
    for content, (version, _), lower in zip(contents, here, below, strict=False):
        if content is not None:
            yield StoredVersion(version, content, lower)


def _in_blocks(
    versions: BranchVersions, paths: Iterator[tuple[int, str]], sizes: Iterable[int]
) -> Iterator[Iterator[bytes | None]]:
    for size in sizes:
        block = [path for _, path in islice(paths, min(max(1, size), _PAGE))]
        if not block:
            return
        yield versions.read(block)


# --- A cache of the versions that one action reads, so that each is requested only once

_FEW = 8
"""Up to this many versions are requested by number, without a listing, which takes one or, with a long history, many
requests."""
_KEPT = 32 * 1024 * 1024
"""Bytes of manifests to keep; others are read again. A table with many fragments has large manifests."""

_Chain = tuple[DatasetLocation, str | None]


class VersionCache:
    """Versions as first read. A version never changes. The number of the newest version does, and is never cached.

    Each attempt of an action needs its own cache: a dataset might be deleted and recreated at the same place.
    """

    def __init__(self) -> None:
        self._manifests: dict[tuple[_Chain, int], bytes] = {}
        self._transactions: dict[tuple[_Chain, int], Transaction | None] = {}
        self._versions: dict[_Chain, list[int]] = {}
        self._free = _KEPT

    def versions(self, location: DatasetLocation, branch: str | None, after: int, until: int) -> Sequence[int]:
        """The versions of a chain after ``after`` up to ``until``, ascending. In a short range, some might be gone."""
        first = max(0, after) + 1
        if until - first < _FEW:
            return range(first, until + 1)
        chain = (location, branch)
        if self._versions.get(chain, [0])[-1:] < [until]:
            self._versions[chain] = version_numbers(location, branch)
        return [version for version in self._versions[chain] if first <= version <= until]

    def holds(self, location: DatasetLocation, pin: PinnedVersion) -> bool:
        """Whether the version's manifest is here, so that it costs no request."""
        return ((location, pin.branch), pin.version) in self._manifests

    def has(self, location: DatasetLocation, pin: PinnedVersion) -> bool:
        return self.manifest(location, pin) is not None

    def read_ahead(self, location: DatasetLocation, pins: Iterable[PinnedVersion]) -> None:
        """Request several versions at once that will be needed one after another; some might be gone."""
        if not location.is_local:
            files.each(location, partial(self.has, location), pins)

    def contents(self, location: DatasetLocation, pin: PinnedVersion) -> Contents:
        """Like :func:`read_contents`."""
        kept = self._manifests.get(((location, pin.branch), pin.version))
        if kept is not None:
            contents = contents_of(location, pin, kept)
            if pin.stamp in (None, contents.head.timestamp_ns):
                return contents
        content = read_manifest(location, pin)
        self._keep(location, pin, content)
        return contents_of(location, pin, content)

    def snapshot(self, location: DatasetLocation, pin: PinnedVersion) -> Snapshot:
        """Like :func:`read_snapshot`."""
        return snapshot_of(location, pin, self.contents(location, pin))

    def transactions(
        self, location: DatasetLocation, branch: str | None, versions: Sequence[int]
    ) -> dict[int, Transaction | None]:
        """Like :func:`read_transactions`."""
        chain = (location, branch)

        def read(version: int) -> None:
            content = self.manifest(location, PinnedVersion(branch, version))
            if content is not None:
                self._transactions[chain, version] = transaction_of(location, branch, content)

        unknown = [version for version in versions if (chain, version) not in self._transactions]
        files.each(location, read, unknown)
        known = [version for version in versions if (chain, version) in self._transactions]
        return {version: self._transactions[chain, version] for version in known}

    def manifest(self, location: DatasetLocation, pin: PinnedVersion) -> bytes | None:
        """Like :func:`find_manifest`."""
        content = self._manifests.get(((location, pin.branch), pin.version))
        if content is None:
            content = find_manifest(location, pin)
            if content is not None:
                self._keep(location, pin, content)
        return content

    def _keep(self, location: DatasetLocation, pin: PinnedVersion, content: bytes) -> None:
        """Several threads can run this at once; at worst slightly more is kept."""
        key = ((location, pin.branch), pin.version)
        room = self._free + len(self._manifests.get(key, b""))
        if len(content) <= room:
            self._manifests[key] = content
            self._free = room - len(content)
