"""Reads the file of a workspace, and writes it: whole, or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from uuid import uuid4

from lance_spark.errors import AlreadyExists, InvalidOption, NotFound, PermissionDenied, StorageFailure
from lance_spark.workspace.model import CONFIG, DIRECTORY, Workspace, parse_workspace, render_workspace
from lance_spark.workspace.place import OpenWorkspace


def open_workspace(directory: str) -> OpenWorkspace | None:
    """The workspace of just this directory; None where it has none.

    Raises InvalidOption for a file that makes no sense, StorageFailure for one that cannot be read.
    """
    whole = os.path.realpath(directory)
    text = _read(whole)
    return None if text is None else OpenWorkspace(whole, parse_workspace(text))


def create_workspace(directory: str, workspace: Workspace) -> OpenWorkspace:
    """Write a new workspace, and its directory. Raises AlreadyExists, StorageFailure, PermissionDenied."""
    whole = os.path.realpath(directory)
    if _read(whole) is not None:
        raise AlreadyExists(
            f"There is a workspace in {whole} already.", hint=f"Choose another directory, or edit {CONFIG} there."
        )
    _write(whole, render_workspace(workspace))
    return OpenWorkspace(whole, workspace)


def change_workspace(directory: str, change: Callable[[str], str], dry_run: bool = False) -> Workspace:
    """Replace the file's text, at once: a reader sees the old file or the new one.

    With ``dry_run`` it is only checked that the change can be made. Of two changes in the same moment the later one
    wins; people do not share a workspace.
    """
    text = _read(directory)
    if text is None:
        raise NotFound(f"The workspace in {directory} is gone.")
    changed = change(text)
    workspace = parse_workspace(changed)
    if changed != text and not dry_run:
        _write(directory, changed)
    return workspace


def remove_workspace(directory: str) -> None:
    """Remove a workspace that was just made, because the operation that it was made for failed."""
    for path, remove in ((CONFIG, os.remove), (DIRECTORY, os.rmdir), ("", os.rmdir)):
        try:
            remove(os.path.join(directory, path))
        except OSError:  # gone already, or the directory holds other files, which must stay
            return


def is_free(directory: str) -> bool:
    """Whether a path does not exist, or is an empty directory. Raises StorageFailure if that cannot be found out."""
    try:
        return not os.listdir(directory)
    except FileNotFoundError:
        return True
    except NotADirectoryError:
        return False
    except OSError as problem:
        raise _failure(problem, directory, "read") from None


def remove_with_content(directory: str) -> None:
    """Remove a directory that was just made, with everything in it. The workspace goes last.

    So a directory that is only half removed still says what it was made for. Raises StorageFailure.
    """
    try:
        for entry in os.scandir(directory):
            if entry.name == DIRECTORY:
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.remove(entry.path)
    except FileNotFoundError:
        return
    except OSError as problem:
        raise _failure(problem, directory, "removed") from None
    remove_workspace(directory)


def _read(directory: str) -> str | None:
    path = os.path.join(directory, CONFIG)
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        raise InvalidOption(f"{path} is not UTF-8 text.", hint="Restore the file, or write it again.") from None
    except OSError as problem:
        raise _failure(problem, path, "read") from None


def _write(directory: str, text: str) -> None:
    path = os.path.join(directory, CONFIG)
    temporary = f"{path}.{uuid4().hex}.tmp"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as problem:
        raise _failure(problem, path, "written") from None


def _failure(problem: OSError, path: str, what: str) -> StorageFailure:
    kind = PermissionDenied if isinstance(problem, PermissionError) else StorageFailure
    return kind(f"{path} cannot be {what}: {problem.strerror}.")
