"""From a ref the user named to one pinned version, reading only the refs that are needed."""

from __future__ import annotations

from typing import NoReturn

from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion, RefSpec, RefTable
from lance_spark.refs.names import MAIN
from lance_spark.refs.parse import BRANCHES, TAGS
from lance_spark.refs.resolve import missing, newest_at
from lance_spark.store import datasets, refs


def resolve(location: DatasetLocation, spec: RefSpec) -> PinnedVersion:
    """The version the spec names, right now. Raises NotFound, with near matches, for what is not there."""
    if spec.tag is not None:
        return resolve_tag(location, spec.tag)
    check_branch(location, spec.branch)
    if spec.as_of is not None:
        history = datasets.list_versions(location, spec.branch)
        return datasets.pin_version(location, spec.branch, newest_at(history, spec.as_of, spec.branch))
    if spec.version is not None:
        return datasets.pin_version(location, spec.branch, spec.version)
    return datasets.pin_latest(location, spec.branch)


def all_refs(location: DatasetLocation) -> RefTable:
    """All branches and tags. Raises NotFound without a dataset, CorruptData for a ref file that cannot be read."""
    return refs.read_refs(location)


def newest(location: DatasetLocation, branch: str | None) -> PinnedVersion:
    """The newest version of a branch (None for main). Raises NotFound."""
    return datasets.pin_latest(location, branch)


def version_numbers(location: DatasetLocation, branch: str | None) -> list[int]:
    """The numbers of all versions of a branch, ascending. Raises NotFound."""
    return datasets.list_version_numbers(location, branch)


def resolve_tag(location: DatasetLocation, name: str) -> PinnedVersion:
    """The version a tag points at. Raises NotFound for an unknown tag, or no dataset at all."""
    tag = refs.read_tag(location, name)
    if tag is None:
        datasets.open_latest(location)
        raise missing("tag", name, refs.list_ref_names(location, TAGS))
    return datasets.pin_version(location, tag.branch, tag.version)


def check_branch(location: DatasetLocation, branch: str | None) -> None:
    """Raise NotFound unless the branch has a ref file.

    pylance itself checks out any directory below ``tree/``, also what a deleted branch left behind.
    """
    if branch is not None and refs.read_branch(location, branch) is None:
        _raise_missing(location, branch)


def check_listed(location: DatasetLocation, table: RefTable, branch: str | None) -> None:
    """As check_branch, of branches that were read before."""
    if branch is not None and branch not in table.branches:
        _raise_missing(location, branch)


def _raise_missing(location: DatasetLocation, branch: str) -> NoReturn:
    datasets.open_latest(location)
    raise missing("branch", branch, [MAIN, *refs.list_ref_names(location, BRANCHES)])
