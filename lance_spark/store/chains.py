"""The versions of one chain: which there are, their manifests, and their transactions without the fragments."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from lance_spark.errors import CorruptData
from lance_spark.layout.file_kinds import manifest_names, read_manifest_name
from lance_spark.location import DatasetLocation, canonical_uri
from lance_spark.manifest.contents import Contents, decode_contents
from lance_spark.manifest.decode import decode_head
from lance_spark.manifest.transactions import Transaction, decode_transaction, inline_transaction
from lance_spark.merge.snapshot import Root, Snapshot
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.resolve import missing_version
from lance_spark.store import files
from lance_spark.store.parallel import THREADS

_Found = TypeVar("_Found")


def version_names(location: DatasetLocation, branch: str | None) -> dict[int, str]:
    """The versions a chain has, ascending, and the file names of their manifests. One listing."""
    found = {}
    for name in files.list_names(location, f"{_prefix(branch)}_versions"):
        read = read_manifest_name(name)
        if read is not None and not read.detached:
            found[read.version] = name
    return dict(sorted(found.items()))


def read_manifest(location: DatasetLocation, pin: PinnedVersion) -> bytes:
    """A version's manifest file. Raises NotFound, with the nearest versions, where there is none."""
    content = find_manifest(location, pin.branch, pin.version)
    if content is None:
        raise missing_version(pin.version, pin.branch, list(version_names(location, pin.branch)))
    return content


def find_manifest(location: DatasetLocation, branch: str | None, version: int) -> bytes | None:
    """A version's manifest file; None where there is none."""
    for name in manifest_names(version):
        content = files.read(location, f"{_prefix(branch)}_versions/{name}")
        if content is not None:
            return content
    return None


def read_contents(location: DatasetLocation, pin: PinnedVersion) -> Contents:
    """A version, decoded. Raises NotFound, CorruptData, and Refused for one this package does not understand."""
    return contents_of(location, pin, read_manifest(location, pin))


def contents_of(location: DatasetLocation, pin: PinnedVersion, manifest: bytes) -> Contents:
    """A version whose manifest was read before, in the same way."""
    contents = decode_contents(manifest)
    if contents.head.version != pin.version:
        raise CorruptData(f"The manifest of version {pin} of {location.uri} holds version {contents.head.version}.")
    return contents


def read_snapshot(location: DatasetLocation, pin: PinnedVersion) -> Snapshot:
    """A version with the canonical URIs of all places it has files in."""
    return snapshot_of(location, pin, read_contents(location, pin))


def snapshot_of(location: DatasetLocation, pin: PinnedVersion, contents: Contents) -> Snapshot:
    """A version that was read before, in the same way."""
    bases: dict[int | None, Root] = {None: Root(location.branch_uri(pin.branch))}
    for key, base in contents.head.bases.items():
        bases[key] = Root(canonical_uri(base.path, os.path.realpath), base.is_dataset_root)
    return Snapshot(pin, contents, bases)


def read_transactions(
    location: DatasetLocation, branch: str | None, versions: Iterable[int]
) -> dict[int, Transaction | None]:
    """The transactions of versions; None for one that is nowhere. Versions that are gone are left out."""

    def transaction(version: int) -> tuple[Transaction | None] | None:
        content = find_manifest(location, branch, version)
        return None if content is None else (transaction_of(location, branch, content),)

    return {version: found[0] for version, found in each_version(location, versions, transaction) if found}


def each_version(
    location: DatasetLocation, versions: Iterable[int], read: Callable[[int], _Found]
) -> Iterator[tuple[int, _Found]]:
    """What is read of each version; several are asked for at once where a store answers slowly."""
    wanted = list(versions)
    if location.is_local or len(wanted) < 2:
        yield from ((version, read(version)) for version in wanted)
        return
    with ThreadPoolExecutor(THREADS) as pool:
        yield from zip(wanted, pool.map(read, wanted), strict=True)


def transaction_of(location: DatasetLocation, branch: str | None, manifest: bytes) -> Transaction | None:
    """The transaction of a version whose manifest was read before; None if it is nowhere."""
    inline = inline_transaction(manifest)
    if inline is not None:
        return inline
    file = decode_head(manifest).transaction_file
    kept = files.read(location, f"{_prefix(branch)}_transactions/{file}") if file else None
    return None if kept is None else decode_transaction(kept)


def _prefix(branch: str | None) -> str:
    return "" if branch is None else f"tree/{branch}/"
