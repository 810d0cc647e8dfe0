"""Reads branches and tags from their ref files, and changes them through pylance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from lance_spark.location import DatasetLocation
from lance_spark.refs.model import Branch, PinnedVersion, RefTable, Tag
from lance_spark.refs.parse import BRANCHES, TAGS, parse_branch, parse_tag, ref_file, ref_name
from lance_spark.store import files
from lance_spark.store.chains import version_names
from lance_spark.store.datasets import open_latest
from lance_spark.store.failures import translated

_Ref = TypeVar("_Ref")
_THREADS = 16
"""How many ref files are read at once: a store answers each only after tens of milliseconds."""


def read_refs(location: DatasetLocation) -> RefTable:
    """All branches and tags. Raises NotFound without a dataset, CorruptData for an unreadable ref file."""
    open_latest(location)
    return read_ref_files(location)


def read_ref_files(location: DatasetLocation) -> RefTable:
    """All branches and tags, without a look at whether there is a dataset. Raises CorruptData."""
    names, tag_names = list_ref_names(location, BRANCHES), list_ref_names(location, TAGS)
    branches = dict(zip(names, _each(location, read_branch, names), strict=True))
    tags = dict(zip(tag_names, _each(location, read_tag, tag_names), strict=True))
    # A ref that vanished between the listing and the read was deleted meanwhile.
    return RefTable(
        branches={name: branch for name, branch in branches.items() if branch is not None},
        tags={name: tag for name, tag in tags.items() if tag is not None},
    )


def _each(location: DatasetLocation, read: Callable[[DatasetLocation, str], _Ref], names: Sequence[str]) -> list[_Ref]:
    if location.is_local:
        return [read(location, name) for name in names]  # handing it to a thread takes longer
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(partial(read, location), names))


def list_ref_names(location: DatasetLocation, directory: str) -> list[str]:
    """Names of all branches or all tags; ``directory`` is BRANCHES or TAGS."""
    names = (ref_name(path) for path in files.list_names(location, directory))
    return sorted(name for name in names if name is not None)


def read_branch(location: DatasetLocation, name: str) -> Branch | None:
    """One branch; None where it does not exist."""
    content = files.read(location, ref_file(BRANCHES, name))
    return None if content is None else parse_branch(name, content)


def read_tag(location: DatasetLocation, name: str) -> Tag | None:
    """One tag; None where it does not exist."""
    content = files.read(location, ref_file(TAGS, name))
    return None if content is None else parse_tag(name, content)


def create_branch(location: DatasetLocation, name: str, source: PinnedVersion) -> None:
    """Create a branch at a version: its first manifest, then its ref file."""
    dataset = open_latest(location)  # a handle of its own: creating a branch locks it
    with translated(location, f"creating branch '{name}'"):
        dataset.create_branch(name, source.reference, storage_options=location.storage_options or None)


def branch_starts(location: DatasetLocation, name: str) -> list[int]:
    """The versions of a new branch that were copied from another branch; more than one is one too many."""
    import lance

    versions = list(version_names(location, name))
    if len(versions) < 2:
        return versions
    starts = []
    for version in versions:
        with translated(location, f"checking branch '{name}'"):
            uri, options = location.branch_uri(name), location.storage_options
            dataset = lance.dataset(uri, version=version, storage_options=options)
            if isinstance(dataset.read_transaction(version).operation, lance.LanceOperation.Clone):
                starts.append(version)
    return starts


def delete_branch(location: DatasetLocation, name: str) -> None:
    """Delete a branch's ref file and directory. Whether it may be deleted is decided in lance_spark.refs.edit."""
    dataset = open_latest(location)
    with translated(location, f"deleting branch '{name}'"):
        dataset.branches.delete(name)


def create_tag(location: DatasetLocation, name: str, target: PinnedVersion) -> None:
    """Create a tag at a version."""
    dataset = open_latest(location)
    with translated(location, f"creating tag '{name}'"):
        dataset.tags.create(name, target.reference)


def move_tag(location: DatasetLocation, name: str, target: PinnedVersion) -> None:
    """Point an existing tag at another version."""
    dataset = open_latest(location)
    with translated(location, f"moving tag '{name}'"):
        dataset.tags.update(name, target.reference)


def delete_tag(location: DatasetLocation, name: str) -> None:
    """Delete a tag."""
    dataset = open_latest(location)
    with translated(location, f"deleting tag '{name}'"):
        dataset.tags.delete(name)


def replace_metadata(location: DatasetLocation, branch: str, metadata: Mapping[str, str]) -> None:
    """Set all key-value pairs of a branch's ref."""
    dataset = open_latest(location)
    with translated(location, f"changing the metadata of branch '{branch}'"):
        dataset.branches.replace_metadata(branch, dict(metadata))
