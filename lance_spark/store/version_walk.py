"""The versions of a branch one by one, newest first: listed as far as they are asked for, read ahead a little."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count, islice, repeat, tee
from typing import NamedTuple

from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import files
from lance_spark.store.version_listing import has_version, newest_first
from lance_spark.store.version_reader import read_manifests

_PAGE = 1000
"""S3 lists as many keys in one answer."""


class StoredVersion(NamedTuple):
    """One version of a branch."""

    version: int
    content: bytes
    """Its manifest."""
    below: int | None
    """The next lower version that is there; None where there is none."""


class BranchVersions:
    """The versions that a branch has, newest first. They are listed once, and on S3 as far as they are asked for."""

    def __init__(self, location: DatasetLocation, branch: str | None) -> None:
        self.location = location
        self.branch = branch
        self._listed: list[tuple[int, str]] = []
        self._known: set[int] = set()
        self._coming = newest_first(location, branch)
        self._read: dict[str, bytes | None] = {}

    @property
    def newest(self) -> int | None:
        """Number of the newest version; None where there is none."""
        return next((version for version, _ in self._all()), None)

    def paths(self, newest: int) -> Iterator[tuple[int, str]]:
        """(version, path of its manifest) from a version on, newest first."""
        if not self.location.is_local and (self.newest or 0) - newest >= _PAGE:
            return newest_first(self.location, self.branch, newest)
        return ((version, path) for version, path in self._all() if version <= newest)

    def has(self, version: int) -> bool:
        """Whether a version is there. What is not on the first page of the listing is asked for by its name."""
        if version in self._known:
            return True
        first_page = self._all() if self.location.is_local else islice(self._all(), _PAGE)
        lowest = next((listed for listed, _ in first_page if listed <= version), None)
        if lowest is not None:
            return lowest == version
        return has_version(self.location, PinnedVersion(self.branch, version))

    def read_newest(self) -> None:
        """Read the newest manifest, for whoever takes it first."""
        for _, path in islice(self._all(), 1):
            self._read[path] = files.read(self.location, path)

    def read(self, paths: Sequence[str]) -> Iterator[bytes | None]:
        """The contents of manifests; None for one that is gone."""
        if len(paths) == 1 and paths[0] in self._read:
            return iter((self._read.pop(paths[0]),))
        return read_manifests(self.location, paths)

    def _all(self) -> Iterator[tuple[int, str]]:
        """Several may go through them at once: what one has listed the others find."""
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
    """Versions of a branch, newest first, as they are listed in ``paths``. Those that are gone are left out.

    A manifest is read when it is taken. On an object store others are asked for meanwhile: ``ahead`` says how many are
    going to be taken, at first and whenever so many were taken.
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
