"""Workspaces: the nearest one or the dataset around a directory, and the file of a workspace."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from uuid import uuid4

from lance_spark import errors
from lance_spark.core import workspace as core_workspace
from lance_spark.core.location import DatasetLocation, is_within
from lance_spark.storage.datasets import locate
from lance_spark.storage.failures import of_local_file
from lance_spark.storage.files import entries
from lance_spark.storage.resolving import branch_of_directory, branch_splits


def find_here(start: str) -> core_workspace.OpenWorkspace | core_workspace.PlainDataset | None:
    """The target of a command in a directory: the nearest workspace or dataset, upwards.

    In one directory a workspace wins over a dataset. Above a dataset, only a workspace for that dataset counts:
    otherwise entering the dataset's directory would silently leave the current branch.

    Raises NotFound for a directory that is gone, InvalidOption for an invalid workspace file, StorageFailure for
    anything unreadable.
    """
    dataset: core_workspace.PlainDataset | None = None
    for directory in _upwards(start):
        workspace = open_workspace(directory)
        if workspace is not None:
            return workspace if dataset is None or _counts(workspace, dataset) else dataset
        if dataset is None:
            dataset = _dataset_in(directory)
    return dataset


def is_for(workspace: core_workspace.OpenWorkspace, dataset: str) -> bool:
    """Whether a workspace is for the dataset at a canonical URI."""
    return locate(workspace.dataset_uri).uri == dataset


def dataset_around(directory: str) -> core_workspace.PlainDataset | None:
    """The dataset whose root is the directory or encloses it. It might not exist yet. Raises as find_here does."""
    datasets = (_dataset_in(place) for place in _upwards(directory))
    return next((dataset for dataset in datasets if dataset is not None), None)


def _upwards(start: str) -> Iterator[str]:
    """The real path of a directory, and all its ancestors."""
    try:
        directory = os.path.realpath(start)
    except FileNotFoundError:
        raise errors.NotFound("The current directory is gone.", hint="Go to another one with cd.") from None
    above = os.path.dirname(directory)
    while above != directory:
        yield directory
        directory, above = above, os.path.dirname(above)
    yield directory


def _counts(workspace: core_workspace.OpenWorkspace, dataset: core_workspace.PlainDataset) -> bool:
    """Whether to use a workspace above a dataset's directory, or between the directory and its root."""
    return is_within(workspace.directory, dataset.uri) or is_for(workspace, dataset.uri)


def _dataset_in(directory: str) -> core_workspace.PlainDataset | None:
    """The dataset with its root, or a branch's root, in exactly this directory; None if there is none."""
    branch = branch_of_directory(DatasetLocation.at(directory))
    if branch is not None:
        return core_workspace.PlainDataset(*branch)
    if not _has_versions(directory):
        return None
    # The remains of a deleted branch look like a dataset, and pylance opens them as one: its tags land on main.
    left = (core_workspace.PlainDataset(root, name) for root, name in branch_splits(directory) if _has_versions(root))
    return next(left, core_workspace.PlainDataset(directory))


def _has_versions(directory: str) -> bool:
    return any(name.endswith(".manifest") for name, _ in entries(DatasetLocation.at(directory), "_versions"))


# --- The file, written whole or not at all


def open_workspace(directory: str) -> core_workspace.OpenWorkspace | None:
    """The workspace of exactly this directory; None if it has none.

    Raises InvalidOption for an invalid file, StorageFailure for an unreadable one.
    """
    whole = os.path.realpath(directory)
    text = _read(whole)
    return None if text is None else core_workspace.OpenWorkspace(whole, core_workspace.parse_workspace(text))


def create_workspace(directory: str, workspace: core_workspace.Workspace) -> core_workspace.OpenWorkspace:
    """Write a new workspace, and its directory. Raises AlreadyExists, StorageFailure, PermissionDenied."""
    whole = os.path.realpath(directory)
    if _read(whole) is not None:
        raise errors.AlreadyExists(
            f"{whole} already has a workspace.",
            hint=f"Choose another directory, or edit {core_workspace.CONFIG} there.",
        )
    _write(whole, core_workspace.render_workspace(workspace))
    return core_workspace.OpenWorkspace(whole, workspace)


def change_workspace(directory: str, change: Callable[[str], str], dry_run: bool = False) -> core_workspace.Workspace:
    """Replace the file's text atomically: a reader sees the old file or the new one.

    ``dry_run`` only checks that the change is possible. Of two simultaneous changes the later one wins; a workspace is
    not shared.
    """
    text = _read(directory)
    if text is None:
        raise errors.NotFound(f"The workspace in {directory} is gone.")
    changed = change(text)
    workspace = core_workspace.parse_workspace(changed)
    if changed != text and not dry_run:
        _write(directory, changed)
    return workspace


def remove_workspace(directory: str) -> None:
    """Remove a workspace that was just created for an operation that failed."""
    for path, remove in ((core_workspace.CONFIG, os.remove), (core_workspace.DIRECTORY, os.rmdir), ("", os.rmdir)):
        try:
            remove(os.path.join(directory, path))
        except OSError:  # already gone, or the directory holds other files, which must stay
            return


@contextmanager
def new_workspace(
    directory: str, workspace: core_workspace.Workspace, undo: Callable[[], object] | None = None
) -> Iterator[None]:
    """A new workspace for what the block creates; it is removed again if the block fails or is interrupted.

    The workspace comes first: after a crash in the block, the same command finds the workspace and continues. ``undo``
    removes what the block created, and the workspace last. Raises AlreadyExists, StorageFailure, PermissionDenied.
    """
    create_workspace(directory, workspace)
    try:
        yield
    except BaseException:
        if undo is None:
            remove_workspace(directory)
        else:
            undo()
        raise


@contextmanager
def alone_in(directory: str) -> Iterator[None]:
    """Keep other processes from making something in a directory until the block ends; creates the directory.

    A workspace alone does not tell whether the process that began something there lives: another one would go on with
    it, and what the first removes when it fails is the work of the second. Raises AlreadyExists, StorageFailure.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    if os.path.lexists(directory) and not os.path.isdir(directory):
        yield  # which refuses it
        return
    try:
        made = not os.path.isdir(directory)
        os.makedirs(directory, exist_ok=True)
        held = os.open(directory, os.O_RDONLY)
    except OSError as problem:
        raise of_local_file(problem, directory, "created") from None
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise errors.AlreadyExists(
                f"Another process is making something in {directory}.", hint="Wait for it, or choose another directory."
            ) from None
        except OSError:
            pass  # a file system without locks: as before
        yield
    finally:
        os.close(held)
        if made:
            with suppress(OSError):  # not empty: the block made something
                os.rmdir(directory)


def set_branch(directory: str, branch: str) -> None:
    """Make a branch the current one of a workspace. Raises NotFound if the workspace is gone."""
    change_workspace(directory, partial(core_workspace.with_branch, branch=branch))


def finish_clone(directory: str, branch: str) -> None:
    """Record that the clone in a workspace is complete, and its current branch."""
    set_branch(directory, branch)
    change_workspace(directory, core_workspace.with_clone_finished)


def is_free(directory: str) -> bool:
    """Whether a path does not exist, or is an empty directory. Raises StorageFailure if that cannot be determined."""
    try:
        return not os.listdir(directory)
    except FileNotFoundError:
        return True
    except NotADirectoryError:
        return False
    except OSError as problem:
        raise of_local_file(problem, directory, "read") from None


def remove_with_content(directory: str) -> None:
    """Remove a directory that was just created, with its content. The workspace goes last.

    So a half-removed directory still shows what it was for. Raises StorageFailure.
    """
    try:
        for entry in os.scandir(directory):
            if entry.name == core_workspace.DIRECTORY:
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.remove(entry.path)
    except FileNotFoundError:
        return
    except OSError as problem:
        raise of_local_file(problem, directory, "removed") from None
    remove_workspace(directory)


def _read(directory: str) -> str | None:
    path = os.path.join(directory, core_workspace.CONFIG)
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        raise errors.InvalidOption(f"{path} is not UTF-8 text.", hint="Restore the file, or write it again.") from None
    except OSError as problem:
        raise of_local_file(problem, path, "read") from None


def _write(directory: str, text: str) -> None:
    path = os.path.join(directory, core_workspace.CONFIG)
    temporary = f"{path}.{uuid4().hex}.tmp"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as problem:
        with suppress(OSError):
            os.unlink(temporary)  # a full disk needs its bytes
        with suppress(OSError):  # the directory of another file is not empty; an empty one would be in a clone's way
            os.rmdir(os.path.dirname(path))
        raise of_local_file(problem, path, "written") from None
