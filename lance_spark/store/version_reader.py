"""Reads what versions say: their manifests, and their transactions without the fragments."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from lance_spark.errors import CorruptData
from lance_spark.layout.names import manifest_paths, transaction_path
from lance_spark.location import DatasetLocation, canonical_uri
from lance_spark.manifest.contents import Contents, decode_contents
from lance_spark.manifest.decode import decode_head
from lance_spark.manifest.transactions import Transaction, decode_transaction, inline_transaction
from lance_spark.merge.snapshot import Root, Snapshot
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.resolve import missing_version
from lance_spark.store import files
from lance_spark.store.datasets import open_latest
from lance_spark.store.parallel import each
from lance_spark.store.version_listing import version_numbers

_AT_ONCE = 16
"""How many manifests are on their way at once: a store answers each only after tens of milliseconds."""


def find_manifest(location: DatasetLocation, pin: PinnedVersion) -> bytes | None:
    """A version's manifest file; None where there is none. One request in all but the oldest datasets."""
    contents = (files.read(location, path) for path in manifest_paths(pin.branch, pin.version))
    return next((content for content in contents if content is not None), None)


def read_manifest(location: DatasetLocation, pin: PinnedVersion) -> bytes:
    """A version's manifest file. Raises NotFound, with the nearest versions, where there is none."""
    content = find_manifest(location, pin)
    if content is None:
        open_latest(location)
        raise missing_version(pin.version, pin.branch, version_numbers(location, pin.branch))
    return content


def read_manifests(location: DatasetLocation, paths: Sequence[str]) -> Iterator[bytes | None]:
    """The contents of manifests, by paths relative to the dataset; None for a manifest that is not there."""
    if location.is_local:
        yield from (files.read(location, path) for path in paths)
        return
    for first in range(0, len(paths), _AT_ONCE):
        yield from files.read_many(location, paths[first : first + _AT_ONCE])


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

    def transaction(version: int) -> tuple[int, Transaction | None] | None:
        content = find_manifest(location, PinnedVersion(branch, version))
        return None if content is None else (version, transaction_of(location, branch, content))

    return dict(filter(None, each(location, transaction, versions)))


def read_transaction(location: DatasetLocation, pin: PinnedVersion) -> Transaction | None:
    """The transaction of one version; None where it, or the version, is nowhere."""
    content = find_manifest(location, pin)
    return None if content is None else transaction_of(location, pin.branch, content)


def transaction_of(location: DatasetLocation, branch: str | None, manifest: bytes) -> Transaction | None:
    """The transaction of a version whose manifest was read before; None if it is nowhere."""
    inline = inline_transaction(manifest)
    if inline is not None:
        return inline
    name = decode_head(manifest).transaction_file
    content = files.read(location, transaction_path(branch, name)) if name else None
    return None if content is None else decode_transaction(content)
