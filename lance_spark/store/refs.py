"""Reads branches and tags from their ref files, makes and changes them through pylance; see also store.dropping."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

from lance_spark.location import DatasetLocation
from lance_spark.refs.model import Branch, PinnedVersion, RefTable, Tag
from lance_spark.refs.parse import (
    BRANCHES,
    MAIN_FILE,
    TAGS,
    main_file,
    parse_branch,
    parse_main,
    parse_tag,
    ref_file,
    ref_name,
)
from lance_spark.store import files
from lance_spark.store.datasets import open_latest
from lance_spark.store.failures import translated
from lance_spark.store.parallel import each
from lance_spark.store.version_listing import version_numbers

if TYPE_CHECKING:
    import lance

_Ref = TypeVar("_Ref")


def read_refs(location: DatasetLocation) -> RefTable:
    """All branches and tags. Raises NotFound without a dataset, CorruptData for an unreadable ref file."""
    open_latest(location)
    return read_ref_files(location)


def read_ref_files(location: DatasetLocation) -> RefTable:
    """All branches and tags, without checking that there is a dataset. Raises CorruptData."""
    branches, tags = each(location, partial(list_ref_names, location), [BRANCHES, TAGS])
    return RefTable(_each(location, read_branch, branches), read_tags(location, tags))


def read_branches(location: DatasetLocation, names: Sequence[str] | None = None) -> RefTable:
    """All branches or some, without the tags, of which there may be many. Does not check that there is a dataset."""
    chosen = list_ref_names(location, BRANCHES) if names is None else names
    return RefTable(_each(location, read_branch, chosen), {})


def read_tags(location: DatasetLocation, names: Sequence[str]) -> dict[str, Tag]:
    """Some tags, by name; those that do not exist are left out."""
    return _each(location, read_tag, names)


def _each(
    location: DatasetLocation, read: Callable[[DatasetLocation, str], _Ref | None], names: Sequence[str]
) -> dict[str, _Ref]:
    contents = each(location, partial(read, location), names)
    # A ref that vanished between the listing and the read was deleted meanwhile.
    return {name: ref for name, ref in zip(names, contents, strict=True) if ref is not None}


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
    """The versions of a new branch that were copied from another branch; there must be only one."""
    import lance

    versions = version_numbers(location, name)
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


class TagWriter:
    """Changes tags of a dataset, which is opened once, when the first tag is changed."""

    def __init__(self, location: DatasetLocation) -> None:
        self.location = location

    @cached_property
    def _dataset(self) -> lance.LanceDataset:
        return open_latest(self.location)

    def create(self, name: str, target: PinnedVersion) -> None:
        """Create a tag at a version."""
        dataset = self._dataset
        with translated(self.location, f"creating tag '{name}'"):
            dataset.tags.create(name, target.reference)

    def move(self, name: str, target: PinnedVersion) -> None:
        """Point an existing tag at another version."""
        dataset = self._dataset
        with translated(self.location, f"moving tag '{name}'"):
            dataset.tags.update(name, target.reference)

    def delete(self, name: str) -> None:
        """Delete a tag."""
        dataset = self._dataset
        with translated(self.location, f"deleting tag '{name}'"):
            dataset.tags.delete(name)


def create_tag(location: DatasetLocation, name: str, target: PinnedVersion) -> None:
    """Create a tag at a version."""
    TagWriter(location).create(name, target)


def move_tag(location: DatasetLocation, name: str, target: PinnedVersion) -> None:
    """Point an existing tag at another version."""
    TagWriter(location).move(name, target)


def delete_tag(location: DatasetLocation, name: str) -> None:
    """Delete a tag."""
    TagWriter(location).delete(name)


def read_main(location: DatasetLocation) -> dict[str, str]:
    """The metadata of main; empty where nothing was said. Raises CorruptData."""
    content = files.read(location, MAIN_FILE)
    return {} if content is None else parse_main(content)


def replace_main(location: DatasetLocation, metadata: Mapping[str, str]) -> None:
    """Set all key-value pairs of main."""
    from lance_spark.store.small_files import write_file  # pulls in pyarrow, for which commands do not wait

    directory, _, name = MAIN_FILE.rpartition("/")
    write_file(DatasetLocation(f"{location.uri}/{directory}", location.options), name, main_file(metadata))


def read_metadata(location: DatasetLocation, branch: str | None) -> dict[str, str] | None:
    """The metadata of a branch (None for main); None where there is no such branch. Raises CorruptData."""
    if branch is None:
        return read_main(location)
    found = read_branch(location, branch)
    return None if found is None else dict(found.metadata)


def replace_tag_metadata(location: DatasetLocation, tag: str, metadata: Mapping[str, str]) -> None:
    """Set all key-value pairs of a tag's ref."""
    dataset = open_latest(location)
    with translated(location, f"changing the metadata of tag '{tag}'"):
        dataset.tags.replace_metadata(tag, dict(metadata))


def replace_metadata(location: DatasetLocation, branch: str, metadata: Mapping[str, str]) -> None:
    """Set all key-value pairs of a branch's ref."""
    dataset = open_latest(location)
    with translated(location, f"changing the metadata of branch '{branch}'"):
        dataset.branches.replace_metadata(branch, dict(metadata))
