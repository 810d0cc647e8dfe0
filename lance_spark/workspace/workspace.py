"""Workspaces of ``lance-git``: finding, creating and changing them, and creating the dataset of a new one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.core.workspace import OpenWorkspace, PlainDataset, Workspace, with_branch, with_clone_finished
from lance_spark.errors import AlreadyExists, Refused, SchemaMismatch
from lance_spark.scan.lance import column_names
from lance_spark.storage import resolving
from lance_spark.storage.commits import create_dataset
from lance_spark.storage.datasets import find_latest, locate_typed, read_schema_of
from lance_spark.storage.resolving import dataset_around, dataset_at
from lance_spark.write.rules import check_names


def find_here(directory: str) -> OpenWorkspace | PlainDataset | None:
    """The workspace or dataset that applies in a directory; see :func:`lance_spark.storage.resolving.find_here`."""
    return resolving.find_here(directory)


def workspace_in(directory: str) -> OpenWorkspace | None:
    """The workspace of exactly this directory. Raises InvalidOption for an invalid file, StorageFailure."""
    return resolving.open_workspace(directory)


def is_for(workspace: OpenWorkspace, location: DatasetLocation) -> bool:
    """Whether a workspace belongs to exactly this dataset."""
    return resolving.is_for(workspace, location.uri)


def is_free(directory: str) -> bool:
    """Whether a path does not exist or is an empty directory. Raises StorageFailure if that cannot be determined."""
    return resolving.is_free(directory)


@contextmanager
def new_workspace(directory: str, workspace: Workspace, undo: Callable[[], object] | None = None) -> Iterator[None]:
    """A new workspace for what the block creates; it is removed again if the block fails or is interrupted.

    The workspace comes first: after a crash in the block, the same command finds the workspace and continues. ``undo``
    removes what the block created, and the workspace last. Raises AlreadyExists, StorageFailure, PermissionDenied.
    """
    resolving.create_workspace(directory, workspace)
    try:
        yield
    except BaseException:
        if undo is None:
            resolving.remove_workspace(directory)
        else:
            undo()
        raise


def remove_with_content(directory: str) -> None:
    """Remove a directory that was just created, with all its content, the workspace last. Raises StorageFailure."""
    resolving.remove_with_content(directory)


def set_branch(directory: str, branch: str) -> None:
    """Make a branch the current one of a workspace. Raises NotFound if the workspace is gone."""
    resolving.change_workspace(directory, partial(with_branch, branch=branch))


def finish_clone(directory: str, branch: str) -> None:
    """Record that the clone in a workspace is complete, and its current branch."""
    set_branch(directory, branch)
    resolving.change_workspace(directory, with_clone_finished)


def change_remotes(directory: str, change: Callable[[str], str], dry_run: bool) -> None:
    """Change the text of a workspace's file; a dry run only checks whether that is possible. Raises NotFound."""
    resolving.change_workspace(directory, change, dry_run)


# --- The dataset of a new workspace


@dataclass(frozen=True)
class InitPlan:
    """The steps that make a dataset exist."""

    columns: tuple[str, ...]
    """Names of the columns that the dataset has, or would have."""
    create: pa.Schema | None
    """The columns of the dataset to create; None if one exists, which stays as it is."""


def init_location(uri: str, storage_options: Mapping[str, str]) -> DatasetLocation:
    """The place of the dataset, existing or not. Raises Refused for a place inside another dataset's directory.

    ``init .`` in ``flights.lance/data`` is a mistake: it would put a second dataset among the first one's files.
    """
    location = locate_typed(uri, storage_options)
    around = dataset_around(location.uri) if location.is_local else None
    if around is not None and around.uri != location.uri:
        raise Refused(
            f"{location.uri} is inside the dataset {around.uri}.",
            hint=f"For that dataset: lance-git init {around.uri}. Create a new one elsewhere.",
        )
    return dataset_at(uri, storage_options)


def plan_init(location: DatasetLocation, source: DatasetLocation | None) -> InitPlan:
    """The plan of an init. A new dataset has the columns of the source, or none without a source.

    Raises AlreadyExists for a source if the dataset exists, and what :func:`read_schema_of` raises.
    """
    pin = find_latest(location, None)
    if pin is not None and source is not None:
        raise AlreadyExists(
            f"A dataset with its own columns already exists at {location.uri}.",
            hint="Leave --from out for a workspace, or choose another place for a new dataset.",
        )
    if pin is not None:
        return InitPlan(column_names(location, pin), None)
    schema = pa.schema([]) if source is None else _columns_of(source)
    return InitPlan(tuple(schema.names), schema)


def _columns_of(source: DatasetLocation) -> pa.Schema:
    schema = read_schema_of(source)
    try:
        check_names(schema, new=True)
    except SchemaMismatch as problem:
        raise SchemaMismatch(f"{source.uri}: {problem.message}", hint="Rename or drop the column there.") from None
    return schema


def init_dataset(location: DatasetLocation, plan: InitPlan) -> None:
    """Create the dataset without rows, unless it exists. Raises AlreadyExists if another process was first."""
    if plan.create is not None:
        create_dataset(location, plan.create)
