"""Reads how base paths are used, and commits other places for files and indexes. Through pylance."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lance_spark.clones.base_rules import BaseUse, Repair, base_uses
from lance_spark.core.layout import KeyRange, data_key
from lance_spark.core.location import DatasetLocation, canonical_uri
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import Conflict, CorruptData, InvalidOption, Refused
from lance_spark.format.contents import Contents, IndexRecord, decode_contents, decode_indexes
from lance_spark.format.manifest import named_files
from lance_spark.format.versions import Root
from lance_spark.indexes.index_segments import commit_indexes
from lance_spark.storage.commits import base_path, commit_on, fragment_json, fragments_from
from lance_spark.storage.datasets import open_latest, open_pinned, pin_latest
from lance_spark.storage.failures import translated
from lance_spark.storage.listing import list_range
from lance_spark.storage.versions import read_manifest, read_manifests, version_paths

_KNOWN_ALREADY = "already exists"


@dataclass(frozen=True)
class Head:
    """The base paths of a version, usually the newest one of its branch."""

    pin: PinnedVersion
    contents: Contents
    indexes: tuple[IndexRecord, ...]
    uses: Mapping[int, BaseUse]
    known: Mapping[Root, int | None]
    """Base ids by place; None for the branch's own root."""


def read_head(location: DatasetLocation, branch: str | None) -> Head:
    """The newest version of a branch. Raises Refused for a version with files that cannot be relocated."""
    return read_version(location, pin_latest(location, branch))


def read_version(location: DatasetLocation, pin: PinnedVersion) -> Head:
    """Any version, as if it were the newest. Raises like :func:`read_head`, and NotFound."""
    content = read_manifest(location, pin)
    contents, indexes = decode_contents(content), decode_indexes(content)
    if any(fragment.has_overlays for fragment in contents.fragments()):
        raise Refused(f"Version {pin} has overlays, which this release cannot relocate.")
    uses = base_uses(contents, indexes)
    known: dict[Root, int | None] = {}
    for key, use in uses.items():
        uri = None if use.is_relative else canonical(use.path)
        if uri is not None:
            known.setdefault(Root(uri, use.is_dataset), key)
    return Head(pin, contents, indexes, uses, {**known, Root(location.branch_uri(pin.branch)): None})


def canonical(path: str) -> str | None:
    """The canonical spelling of a base path; None for a path that is not a valid place."""
    try:
        return canonical_uri(path, os.path.realpath)
    except InvalidOption:
        return None


def list_sizes(place: DatasetLocation, directory: str) -> dict[str, int | None]:
    """The files of a directory below a place ("" for all): size in bytes by path as in manifests."""
    sizes = {}
    part = KeyRange.below(directory) if directory else KeyRange(None, None)
    for batch in list_range(place, part):
        for path, size in zip(batch["path"].to_pylist(), batch["size"].to_pylist(), strict=True):
            sizes[data_key(path) if path.startswith("data/") and path.endswith(".lance") else path] = size
    return sizes


def register(
    location: DatasetLocation, branch: str | None, roots: Sequence[Root], properties: Mapping[str, str]
) -> None:
    """Let a branch read files from other places: a version without row changes.

    Raises Conflict if another process registers the same base path at the same time.
    """
    dataset = open_latest(location, branch)
    with translated(location, "registering base paths"):
        try:
            dataset.add_bases([base_path(root) for root in roots], dict(properties))
        except ValueError as problem:
            if _KNOWN_ALREADY in str(problem):
                raise Conflict(
                    "Another process registered the same base path at the same time.", hint="Run it again."
                ) from None
            raise


def repoint_fragments(
    location: DatasetLocation, head: Head, repair: Repair, properties: Mapping[str, str]
) -> PinnedVersion:
    """Commit other bases for the files of fragments. Raises Conflict if another commit changed them."""
    import lance

    dataset = open_pinned(location, head.pin)
    moved = frozenset(repair.fragments)
    changed = [
        _in_bases(fragment_json(dataset, fragment), repair.bases)
        for fragment in head.contents.fragments()
        if fragment.id in moved
    ]
    operation = lance.LanceOperation.Update(
        removed_fragment_ids=[], updated_fragments=fragments_from(changed), new_fragments=[], fields_modified=[]
    )
    return commit_on(location, head.pin, operation, properties)


def _in_bases(fragment: dict[str, Any], bases: Mapping[int, int | None]) -> dict[str, Any]:
    """Pylance's JSON of a fragment with other bases; row ids and all else stay the same."""
    entries = [*fragment["files"], *([fragment["deletion_file"]] if fragment["deletion_file"] else [])]
    for entry in entries:
        if entry["base_id"] in bases:
            entry["base_id"] = bases[entry["base_id"]]
    return fragment


def repoint_indexes(
    location: DatasetLocation, head: Head, repair: Repair, properties: Mapping[str, str]
) -> PinnedVersion:
    """Commit other bases for indexes, and drop indexes whose files are gone. Raises Conflict."""
    new = [index._replace(base_id=base_id) for index, base_id in repair.indexes]
    return commit_indexes(
        location, head.pin, new, [*(index for index, _ in repair.indexes), *repair.dropped], properties
    )


def versions_naming(location: DatasetLocation, newest: PinnedVersion, paths: Collection[str]) -> list[int]:
    """The versions of a branch, up to one, that name data or deletion files in base paths. Reads all manifests."""
    manifests = version_paths(location, newest.branch)
    manifests = {version: path for version, path in manifests.items() if version <= newest.version}
    contents = read_manifests(location, [*manifests.values()])
    return [
        version
        for version, content in zip(manifests, contents, strict=True)
        if content is not None and _names_any(content, paths)
    ]


def _names_any(content: bytes, paths: Collection[str]) -> bool:
    try:
        named = named_files(content)
    except (CorruptData, Refused):
        return False  # such a version cannot be read in the old place either
    return any(file.base is not None and file.base.path in paths and "_indices/" not in file.path for file in named)
