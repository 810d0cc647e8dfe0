"""Workspaces of ``lance-git``: finding, creating and changing them, and creating the dataset of a new one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from lance_spark.core.location import DatasetLocation
from lance_spark.core.workspace import OpenWorkspace, PlainDataset, Workspace, with_branch, with_clone_finished
from lance_spark.storage import resolving


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
