"""Marker files: of several processes that make one at once, exactly one does."""

from __future__ import annotations

import os
import uuid
from typing import Any

from lance_spark.location import DatasetLocation
from lance_spark.store import files
from lance_spark.store.failures import clean
from lance_spark.store.filesystem import bucket_and_prefix, open_filesystem, reachable, whole_path

_TRIES = 5
_TAKEN = ("PreconditionFailed", "412")
_BUSY = ("ConditionalRequestConflict", "409")
"""S3's answer where two requests make one key at the same time; the next try tells which one did it."""


def put_new(location: DatasetLocation, path: str, content: bytes, parents: bool = True) -> bool:
    """Write a file that must not be there; False, and nothing is changed, where it is.

    Without ``parents`` also False where a local directory for it is missing.

    Exactly one of several that try at once gets True: on local disks, on S3, and wherever fsspec offers the mode
    "create". Elsewhere two that try in the same moment may both get it.
    """
    with reachable(location):
        if location.is_local:
            return _on_disk(whole_path(location, path), content, parents)
        if location.uri.startswith("s3://"):
            return _on_s3(location, path, content)
        return _elsewhere(location, path, content)


def content_of(location: DatasetLocation, path: str) -> bytes | None:
    """What a marker holds; None where it is not there."""
    return files.read(location, path)


def remove(location: DatasetLocation, path: str) -> None:
    """Delete a marker, if it is there."""
    with reachable(location):
        try:
            open_filesystem(location).rm_file(whole_path(location, path))
        except (FileNotFoundError, NotADirectoryError):
            return


def remove_if(location: DatasetLocation, path: str, content: bytes) -> bool:
    """Delete a marker if it holds just this; whether it did.

    No store can compare and delete in one step. Another process's marker is deleted only if it was put there between
    the two requests.
    """
    if files.read(location, path) != content:
        return False
    remove(location, path)
    return True


def replace(location: DatasetLocation, path: str, content: bytes) -> bool:
    """Write a marker, in one step, whether it is there or not; False where the local directory is missing."""
    with reachable(location):
        whole = whole_path(location, path)
        if not location.is_local:
            open_filesystem(location).pipe_file(whole, content)
            return True
        passing = f"{whole}.{uuid.uuid4().hex}"
        try:
            with open(passing, "wb") as file:
                file.write(content)
            os.replace(passing, whole)
        except FileNotFoundError:
            return False
        return True


def _on_disk(path: str, content: bytes, parents: bool) -> bool:
    handle = None
    while handle is None:
        if parents:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            return False
        except FileNotFoundError:  # the directory was removed at the same time
            if not parents:
                return False
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    return True


def _on_s3(location: DatasetLocation, path: str, content: bytes) -> bool:
    bucket, prefix = bucket_and_prefix(location)
    for left in reversed(range(_TRIES)):
        try:
            open_filesystem(location).call_s3(
                "put_object", Bucket=bucket, Key=prefix + path, Body=content, IfNoneMatch="*"
            )
        except FileExistsError:
            return False
        except OSError as problem:
            code = _code_of(problem)
            if code in _TAKEN:
                return False
            if code not in _BUSY or not left:
                raise
        else:
            return True
    raise AssertionError(clean(f"{path} was never answered", location))


def _code_of(problem: BaseException) -> str:
    answer: Any = getattr(problem.__cause__ or problem, "response", None) or {}
    return str(answer.get("Error", {}).get("Code", ""))


def _elsewhere(location: DatasetLocation, path: str, content: bytes) -> bool:
    filesystem, whole = open_filesystem(location), whole_path(location, path)
    if filesystem.exists(whole):
        return False
    try:
        filesystem.pipe_file(whole, content, mode="create")
    except FileExistsError:
        return False
    except (TypeError, NotImplementedError):  # an implementation without that mode
        filesystem.pipe_file(whole, content)
    return True
