"""Which dataset, or which workspace, a local directory belongs to."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from urllib.parse import unquote

from lance_spark.errors import NotFound
from lance_spark.location import DatasetLocation, is_within
from lance_spark.store import refs
from lance_spark.store.filesystem import entries
from lance_spark.store.uri import locate
from lance_spark.workspace.place import OpenWorkspace, PlainDataset

_BRANCHES = "/tree/"


def find_here(start: str) -> OpenWorkspace | PlainDataset | None:
    """What a command works on in a directory: the workspace or the dataset that is nearest, upwards.

    In one directory a workspace counts before a dataset. Above a dataset only a workspace for this very dataset
    counts: otherwise whoever goes into the dataset's directory would leave the current branch without knowing.

    Raises NotFound for a directory that is gone, InvalidOption for a workspace's file that makes no sense,
    StorageFailure for what cannot be read.
    """
    from lance_spark.store.workspace import open_workspace  # what reads the file takes longer to import than all else

    dataset: PlainDataset | None = None
    for directory in _upwards(start):
        workspace = open_workspace(directory)
        if workspace is not None:
            return workspace if dataset is None or _counts(workspace, dataset) else dataset
        if dataset is None:
            dataset = _dataset_in(directory)
    return dataset


def is_directory(path: str) -> bool:
    """Whether there is a directory. One that cannot be looked at is taken for one: what reads it says why."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def is_for(workspace: OpenWorkspace, dataset: str) -> bool:
    """Whether a workspace is for the dataset at a canonical URI."""
    return locate(workspace.dataset_uri).uri == dataset


def dataset_around(directory: str) -> PlainDataset | None:
    """The dataset that a directory is the root of, or lies in. It may not exist yet. Raises as find_here does."""
    datasets = (_dataset_in(place) for place in _upwards(directory))
    return next((dataset for dataset in datasets if dataset is not None), None)


def branch_of_directory(location: DatasetLocation) -> tuple[str, str] | None:
    """Root and name of the branch whose own directory, ``<root>/tree/<branch>``, this is; None for any other one.

    The root is a URI, the name is as the dataset's refs have it.
    """
    for root, name in _splits(location.uri):
        branch = name if location.is_local else unquote(name)
        if refs.read_branch(DatasetLocation(root, location.options), branch) is not None:
            return root, branch
    return None


def _upwards(start: str) -> Iterator[str]:
    """The real path of a directory, and all those above it."""
    try:
        directory = os.path.realpath(start)
    except FileNotFoundError:
        raise NotFound("The current directory is gone.", hint="Go to another one with cd.") from None
    above = os.path.dirname(directory)
    while above != directory:
        yield directory
        directory, above = above, os.path.dirname(above)
    yield directory


def _counts(workspace: OpenWorkspace, dataset: PlainDataset) -> bool:
    """Whether to use a workspace that is above a dataset's directory, or between the directory and its root."""
    return is_within(workspace.directory, dataset.uri) or is_for(workspace, dataset.uri)


def _dataset_in(directory: str) -> PlainDataset | None:
    """The dataset that has its root, or a branch's root, in just this directory; None where there is none."""
    branch = branch_of_directory(DatasetLocation.at(directory))
    if branch is not None:
        return PlainDataset(*branch)
    if not _has_versions(directory):
        return None
    # The rest of a deleted branch looks like a dataset, and pylance takes it for one: its tags land on main.
    left = (PlainDataset(root, name) for root, name in _splits(directory) if _has_versions(root))
    return next(left, PlainDataset(directory))


def _splits(uri: str) -> Iterator[tuple[str, str]]:
    """What may be the root of a dataset and the name of a branch of it, with the shortest root first."""
    root, divider, name = uri.partition(_BRANCHES)
    while divider:
        yield root, name
        more, divider, name = name.partition(_BRANCHES)
        root = f"{root}{_BRANCHES}{more}"


def _has_versions(directory: str) -> bool:
    return any(name.endswith(".manifest") for name, _ in entries(DatasetLocation.at(directory), "_versions"))
