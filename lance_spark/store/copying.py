"""Copies files: inside of a store without reading them, between stores through this machine."""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Iterator

from lance_spark.errors import NotFound, StorageFailure
from lance_spark.location import DatasetLocation
from lance_spark.store.filesystem import open_filesystem, reachable, whole_path

_FRESH = 24 * 3600
"""Seconds for which a file left by an interrupted copy is taken as it is. A cleanup may delete older ones."""


def copy_file(source: DatasetLocation, path: str, target: DatasetLocation, target_path: str) -> int:
    """Copy one file, and return its size in bytes. A copy of that size that is a few hours old is left as it is.

    Paths are relative to the locations. Raises NotFound for a source that is gone.
    """
    with reachable(target), reachable(source):
        try:
            size = int(open_filesystem(source).info(whole_path(source, path))["size"])
        except FileNotFoundError:
            raise NotFound(f"{source.uri}/{path} is not there any more.", hint="Run it again.") from None
        if _is_there(target, target_path, size):
            return size
        _copy(source, whole_path(source, path), target, whole_path(target, target_path))
        found = int(open_filesystem(target).info(whole_path(target, target_path))["size"])
    if found != size:
        raise StorageFailure(f"{target.uri}/{target_path} has {found} bytes after it was copied, not {size}.")
    return size


def files_below(location: DatasetLocation, directory: str) -> Iterator[str]:
    """Paths of all files in a directory, relative to the location; none where there is no such directory."""
    root = whole_path(location, "")
    with reachable(location):
        filesystem = open_filesystem(location)
        try:
            found = filesystem.find(whole_path(location, directory))
        except FileNotFoundError:
            return
    yield from (str(path)[len(root) + 1 :] for path in found)


def _is_there(target: DatasetLocation, path: str, size: int) -> bool:
    filesystem = open_filesystem(target)
    try:
        info = filesystem.info(whole_path(target, path))
    except FileNotFoundError:
        return False
    modified = info.get("mtime") or getattr(info.get("LastModified"), "timestamp", lambda: 0.0)()
    return int(info["size"]) == size and time.time() - float(modified) < _FRESH


def _copy(source: DatasetLocation, path: str, target: DatasetLocation, target_path: str) -> None:
    here, there = open_filesystem(source), open_filesystem(target)
    if target.is_local:
        directory = target_path.rpartition("/")[0]
        there.makedirs(directory, exist_ok=True)
        # Under its name a file is whole: what a killed copy leaves has a name of which cleanups know what it is.
        part = f"{directory}/.tmp{uuid.uuid4().hex}"
        try:
            here.get_file(path, part)
            os.replace(part, target_path)
        finally:
            if os.path.exists(part):
                os.remove(part)
    elif source.is_local:
        there.put_file(path, target_path)
    elif _scheme(source) == _scheme(target) and source.options == target.options:
        there.cp_file(path, target_path)
    else:
        with tempfile.TemporaryDirectory() as directory:
            between = os.path.join(directory, "file")
            here.get_file(path, between)
            there.put_file(between, target_path)


def _scheme(location: DatasetLocation) -> str:
    return location.store.partition(":")[0]
