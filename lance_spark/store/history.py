"""Reads versions one by one, newest first, as bytes: their manifests, transactions and deletion files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, repeat, tee
from itertools import count as counting
from typing import NamedTuple

from lance_spark.errors import NotFound
from lance_spark.layout.file_kinds import manifest_names, read_manifest_name
from lance_spark.layout.key_ranges import KeyRange
from lance_spark.location import DatasetLocation
from lance_spark.manifest.transactions import Transaction, decode_transaction, inline_transaction
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.resolve import missing_version
from lance_spark.store import datasets, files
from lance_spark.store.filesystem import reachable
from lance_spark.store.listing import list_paths
from lance_spark.store.manifests import read_manifests

_PAGE = 1000
"""S3 lists as many keys in one answer."""
_INVERTED = "18446744073709551615.manifest"
"""As long as the names that sort the newest version first."""


class ChainVersion(NamedTuple):
    """One version of a branch."""

    version: int
    content: bytes
    """Its manifest."""
    below: int | None
    """The next lower version that is there; None where there is none."""


class Manifests:
    """The versions that a branch has, newest first. They are listed once, and on S3 as far as they are asked for."""

    def __init__(self, location: DatasetLocation, branch: str | None) -> None:
        self.location = location
        self.branch = branch
        self._listed: list[tuple[int, str]] = []
        self._known: set[int] = set()
        self._coming = _newest_first(location, branch)
        self._read: dict[str, bytes | None] = {}

    @property
    def newest(self) -> int | None:
        """Number of the newest version; None where there is none."""
        return next((version for version, _ in self._all()), None)

    def paths(self, newest: int) -> Iterator[tuple[int, str]]:
        """(version, path of its manifest) from a version on, newest first."""
        known = self._all()
        if not self.location.is_local and (self.newest or 0) - newest >= _PAGE:
            known = _newest_first(self.location, self.branch, newest)
        return ((version, path) for version, path in known if version <= newest)

    def has(self, version: int) -> bool:
        """Whether a version is there. What is not on the first page of the listing is asked for by its name."""
        if version in self._known:
            return True
        first_page = self._all() if self.location.is_local else islice(self._all(), _PAGE)
        lowest = next((found for found, _ in first_page if found <= version), None)
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
        for at in counting():
            if at == len(self._listed):
                found = next(self._coming, None)
                if found is None:
                    return
                self._listed.append(found)
                self._known.add(found[0])
            yield self._listed[at]


def _newest_first(
    location: DatasetLocation, branch: str | None, newest: int | None = None
) -> Iterator[tuple[int, str]]:
    """Manifests by version, from the newest or another one on. S3 is asked for a page when its first path is wanted."""
    directory = f"{_root(branch)}_versions"
    if location.is_local:
        yield from _sorted(_on_disk(location, directory))
        return
    after = f"{directory}/" if newest is None else f"{directory}/{manifest_names(newest)[0].removesuffix('.manifest')}"
    found = _versions(list_paths(location, KeyRange(after, f"{directory}0")))
    first = next(found, None)
    # The names of old writers tell nothing of their order, and only S3 has one.
    if first is not None and len(first[1]) == len(f"{directory}/{_INVERTED}") and location.uri.startswith("s3://"):
        yield first
        yield from found
    else:
        yield from _sorted(_versions(list_paths(location, KeyRange(f"{directory}/", f"{directory}0"))))


def _sorted(found: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    return sorted(dict(found).items(), reverse=True)


def _on_disk(location: DatasetLocation, directory: str) -> Iterator[tuple[int, str]]:
    """Only names are asked for: a walk from the root meets the directory of every branch."""
    with reachable(location):
        try:
            names = os.listdir(f"{location.uri}/{directory}")
        except (FileNotFoundError, NotADirectoryError):
            names = []
    return _versions(f"{directory}/{name}" for name in names)


def _versions(paths: Iterable[str]) -> Iterator[tuple[int, str]]:
    for path in paths:
        name = read_manifest_name(path.rpartition("/")[2])
        if name is not None and not name.detached:
            yield name.version, path


def read_chain(manifests: Manifests, paths: Iterator[tuple[int, str]], ahead: Iterable[int]) -> Iterator[ChainVersion]:
    """Versions of a branch, newest first, as they are listed in ``paths``. Those that are gone are left out.

    A manifest is read when it is taken. On an object store others are asked for meanwhile: ``ahead`` says how many are
    going to be wanted, at first and whenever so many were taken.
    """
    to_read, here, next_ones = tee(paths, 3)
    below = chain((version for version, _ in islice(next_ones, 1, None)), repeat(None))
    contents = chain.from_iterable(_in_blocks(manifests, to_read, ahead))
    for content, (version, _), lower in zip(contents, here, below, strict=False):
        if content is not None:
            yield ChainVersion(version, content, lower)


def _in_blocks(
    manifests: Manifests, paths: Iterator[tuple[int, str]], sizes: Iterable[int]
) -> Iterator[Iterator[bytes | None]]:
    for size in sizes:
        block = [path for _, path in islice(paths, min(max(1, size), _PAGE))]
        if not block:
            return
        yield manifests.read(block)


def read_version(location: DatasetLocation, pin: PinnedVersion) -> bytes:
    """The manifest of one version; one request in all but the oldest datasets. Raises NotFound."""
    directory = f"{_root(pin.branch)}_versions/"
    for name in manifest_names(pin.version):
        content = files.read(location, directory + name)
        if content is not None:
            return content
    datasets.open_latest(location)
    try:
        known = datasets.list_version_numbers(location, pin.branch)
    except NotFound:
        known = []
    raise missing_version(pin.version, pin.branch, known)


def has_version(location: DatasetLocation, pin: PinnedVersion) -> bool:
    """Whether a version is there."""
    directory = f"{_root(pin.branch)}_versions/"
    names = manifest_names(pin.version)
    return any(files.exists(location, directory + name) for name in names)


def read_transaction(
    location: DatasetLocation, branch: str | None, content: bytes, file: str | None
) -> Transaction | None:
    """The transaction of a version: from inside of its manifest, else from its file; None where that is gone too."""
    inline = inline_transaction(content)
    if inline is not None or file is None:
        return inline
    found = files.read(location, f"{_root(branch)}_transactions/{file}")
    return None if found is None else decode_transaction(found)


def _root(branch: str | None) -> str:
    return "" if branch is None else f"tree/{branch}/"
