"""Reads versions one by one, newest first, as bytes: their manifests, transactions and deletion files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice, repeat, tee
from typing import NamedTuple

import pyarrow as pa

from lance_spark.cleanup.names import read_manifest_name
from lance_spark.cleanup.ranges import KeyRange
from lance_spark.errors import CorruptData, NotFound
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Contents, Fragment
from lance_spark.manifest.transactions import Transaction, decode_transaction, inline_transaction
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.resolve import missing_version
from lance_spark.store import datasets, files
from lance_spark.store.filesystem import reachable
from lance_spark.store.listing import list_range
from lance_spark.store.manifests import read_manifests
from lance_spark.store.uri import locate

_HIGHEST = 2**64 - 1
_WINDOW = 1000
"""Version numbers that are listed first: S3 lists as many keys in one answer."""
_OFFSETS = "row_id"
"""Column of a deletion file that holds the deleted offsets."""


class ChainVersion(NamedTuple):
    """One version of a branch."""

    version: int
    content: bytes
    """Its manifest."""
    below: int | None
    """The next lower version that is there; None where there is none."""


def newest_version(location: DatasetLocation, branch: str | None) -> int | None:
    """Number of the newest version of a branch; None where it has none. No manifest is read on a local disk."""
    if location.is_local:
        return max(_on_disk(location, branch), default=None)
    pin = datasets.find_latest(location, branch)
    return None if pin is None else pin.version


def chain_paths(location: DatasetLocation, branch: str | None, newest: int) -> Iterator[tuple[int, str]]:
    """(version, path of its manifest) of a branch from a version on, newest first. Lists no more than is asked for."""
    if location.is_local:
        yield from _descending(_on_disk(location, branch), newest)
        return
    first = _listed(location, branch, newest, max(0, newest - _WINDOW + 1))
    if newest in first:
        yield from _descending(first, newest)
        if newest > _WINDOW:
            yield from _descending(_listed(location, branch, newest - _WINDOW, 0), newest)
        return
    # Either the version is gone, or the names are those of old writers, which tell nothing of their order.
    yield from _descending(_listed(location, branch, None, 0), newest)


def _descending(paths: Mapping[int, str], newest: int) -> list[tuple[int, str]]:
    return sorted(((version, path) for version, path in paths.items() if version <= newest), reverse=True)


def _on_disk(location: DatasetLocation, branch: str | None) -> dict[int, str]:
    """Manifests by version. Only names are asked for: a walk from the root meets the directory of every branch."""
    directory = f"{_root(branch)}_versions"
    with reachable(location):
        try:
            names = os.listdir(f"{location.uri}/{directory}")
        except (FileNotFoundError, NotADirectoryError):
            names = []
    return _by_version(f"{directory}/{name}" for name in names)


def _listed(location: DatasetLocation, branch: str | None, newest: int | None, oldest: int) -> dict[int, str]:
    directory = f"{_root(branch)}_versions/"
    after = directory if newest is None else f"{directory}{_HIGHEST - newest:020d}"
    until = f"{directory[:-1]}0" if newest is None else f"{directory}{_HIGHEST - oldest:020d}.manifest"
    batches = list_range(location, KeyRange(after, until))
    return _by_version(path for batch in batches for path in batch["path"].to_pylist())


def _by_version(paths: Iterable[str]) -> dict[int, str]:
    found = {}
    for path in paths:
        name = read_manifest_name(path.rpartition("/")[2])
        if name is not None and not name.detached:
            found[name.version] = path
    return found


def read_chain(
    location: DatasetLocation, branch: str | None, newest: int, limit: int | None = None
) -> Iterator[ChainVersion]:
    """The versions of a branch from one on, newest first. Those that are gone are left out.

    A manifest is read when it is taken; on an object store a few more are asked for, but never more than ``limit``.
    """
    paths = chain_paths(location, branch, newest)
    ahead, here, below = tee(paths, 3)
    following = chain((version for version, _ in islice(below, 1, None)), repeat(None))
    contents = chain.from_iterable(_in_blocks(location, islice(ahead, limit), limit))
    for content, (version, _), lower in zip(contents, here, following, strict=False):
        if content is not None:
            yield ChainVersion(version, content, lower)


def _in_blocks(
    location: DatasetLocation, paths: Iterator[tuple[int, str]], limit: int | None
) -> Iterator[Iterator[bytes | None]]:
    while block := [path for _, path in islice(paths, min(limit or _WINDOW, _WINDOW))]:
        yield read_manifests(location, block)


def read_version(location: DatasetLocation, pin: PinnedVersion) -> bytes:
    """The manifest of one version; one request in all but the oldest datasets. Raises NotFound."""
    directory = f"{_root(pin.branch)}_versions/"
    for name in (f"{_HIGHEST - pin.version:020d}.manifest", f"{pin.version}.manifest"):
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
    names = (f"{_HIGHEST - pin.version:020d}.manifest", f"{pin.version}.manifest")
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


def deleted_offsets(location: DatasetLocation, branch: str | None, contents: Contents, fragment: Fragment) -> pa.Array:
    """Offsets of the deleted rows of a fragment (uint32, ascending). Raises NotFound, CorruptData."""
    deletion = fragment.deletion
    if deletion is None:
        return pa.array([], pa.uint32())
    place, directory = location, _root(branch)
    if deletion.base_id is not None:
        base = contents.head.bases.get(deletion.base_id)
        if base is None or not base.is_dataset_root:
            raise CorruptData(
                f"Fragment {fragment.id} has a deletion file in base {deletion.base_id}, where none can be."
            )
        place, directory = locate(base.path, location.storage_options), ""
    name = deletion.name(fragment.id)
    content = files.read(place, f"{directory}_deletions/{name}")
    if content is None:
        raise NotFound(
            f"The deletion file {name} of {contents.head.branch or 'main'}@{contents.head.version} is gone.",
            hint="Without it the version cannot be read by anybody.",
        )
    try:
        return _bitmap(content) if name.endswith(".bin") else _arrow(content)
    except (pa.ArrowException, ValueError, KeyError) as problem:
        raise CorruptData(f"The deletion file {name} is damaged: {problem}.") from None


def _bitmap(content: bytes) -> pa.Array:
    from pyroaring import BitMap

    return pa.array(BitMap.deserialize(content), pa.uint32())


def _arrow(content: bytes) -> pa.Array:
    table = pa.ipc.open_file(pa.BufferReader(content)).read_all()
    return table[_OFFSETS].combine_chunks().sort()


def _root(branch: str | None) -> str:
    return "" if branch is None else f"tree/{branch}/"
