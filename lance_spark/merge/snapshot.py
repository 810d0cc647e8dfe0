"""One version, with the place of each of its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from lance_spark.errors import CorruptData
from lance_spark.manifest.contents import Contents, DataFile, DeletionFile, Fragment
from lance_spark.refs.model import PinnedVersion


class Root(NamedTuple):
    """A place that holds files of a version."""

    uri: str
    """Canonical URI."""
    is_dataset: bool = True
    """Whether it is laid out like a dataset (``data/``, ``_deletions/``); else data files lie directly in it."""


class Deletions(NamedTuple):
    """Where a deletion file is."""

    root: str
    """URI of the dataset or branch that has it."""
    path: str


@dataclass(frozen=True)
class Snapshot:
    """One version of one chain. ``bases`` has the root of the chain itself under None."""

    pin: PinnedVersion
    contents: Contents
    bases: Mapping[int | None, Root]

    @property
    def root(self) -> Root:
        """Where the chain keeps its own files."""
        return self.bases[None]

    @cached_property
    def live(self) -> frozenset[int]:
        """Ids of the fields of its schema. Files may hold others, of columns that were dropped."""
        return frozenset(field.id for field in self.contents.fields)

    def root_of(self, file: DataFile | DeletionFile) -> Root:
        """Where a file is. Raises CorruptData for a base that the version does not have."""
        if file.base_id not in self.bases:
            raise CorruptData(f"Version {self.pin} names a file in the unknown base {file.base_id}.")
        return self.bases[file.base_id]

    def deletions_of(self, fragment: Fragment) -> Deletions | None:
        """Where the deletion file of a fragment is; None where no row is deleted. Raises CorruptData."""
        deletion = fragment.deletion
        if deletion is None:
            return None
        root = self.root_of(deletion)
        if not root.is_dataset:
            raise CorruptData(
                f"Fragment {fragment.id} has a deletion file in base {deletion.base_id}, where none can be."
            )
        return Deletions(root.uri, deletion.path_for(fragment.id))


def same_files(one: Fragment, other: Fragment, live: frozenset[int], in_other: frozenset[int] | None = None) -> bool:
    """Whether two fragments have the live columns in the same data files, wherever these are.

    ``in_other`` are the live columns of the other one, if they may be others. Files keep the values of a dropped
    column. So of a column that one version dropped and another has back, the files look the same, but the values are
    in one version only.
    """
    return columns(one, live) == columns(other, live if in_other is None else live & in_other)


def same_deletion(one: Fragment, other: Fragment) -> bool:
    """Whether the same rows are deleted. A deletion file that is copied keeps its version and id."""
    return _deletion(one) == _deletion(other)


def columns(fragment: Fragment, live: frozenset[int]) -> dict[int, str]:
    """The data file that has each column, by field id."""
    return {field: file.path for file in fragment.files for field in file.fields if field in live}


def _deletion(fragment: Fragment) -> tuple[int, int, int] | None:
    deletion = fragment.deletion
    return None if deletion is None else (deletion.read_version, deletion.id, deletion.rows)
