"""Atomic writes of small files: readers never see half of one, and on local disks they survive a power cut."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from lance_spark.core.layout import BROUGHT
from lance_spark.core.location import DatasetLocation
from lance_spark.errors import CorruptData, InvalidOption, NotFound
from lance_spark.storage import files
from lance_spark.storage.datasets import locate
from lance_spark.storage.others import check_commits, check_ours


def write_file(directory: DatasetLocation, name: str, content: bytes) -> None:
    """Write a small file atomically; on local disks it is durable before this returns."""
    with files.reachable(directory, name):
        filesystem = files.open_filesystem(directory)
        if not directory.is_local:
            try:
                filesystem.pipe_file(files.whole_path(directory, name), content)
            except FileNotFoundError as problem:
                raise NotFound(
                    f"{directory.uri}/{name} cannot be written: {problem}.", hint="Check the bucket."
                ) from None
            return
        filesystem.makedirs(directory.uri, exist_ok=True)
        try:
            _write_durably(files.whole_path(directory, name), content)
        except FileNotFoundError:
            raise NotFound(f"{directory.uri} was removed while '{name}' was written.", hint="Run it again.") from None


def write_below(location: DatasetLocation, path: str, content: bytes) -> None:
    """Like :func:`write_file`, for a path below the root of a dataset. Raises Refused for one of another writer."""
    if path.startswith(f"{BROUGHT}/"):  # what a commit that has begun needs
        check_commits(location)
    else:
        check_ours(location, f"write {path}")
    directory, _, name = path.rpartition("/")
    write_file(DatasetLocation(f"{location.uri}/{directory}", location.options), name, content)


def write_report(path: str, report: str, storage_options: Mapping[str, str]) -> None:
    """Write a report to a path or a URI, atomically; to a pipe or a device such as ``/dev/stdout``, as it comes.

    Raises InvalidOption for a directory, NotFound for a missing bucket, StorageFailure.
    """
    if is_stream(path):
        with files.reachable(locate(os.curdir)), open(path, "w", encoding="utf-8") as stream:
            stream.write(report)
        return
    directory, name = _place_of(path, storage_options)
    write_file(directory, name, report.encode())


def is_stream(path: str) -> bool:
    """Whether a path is a pipe or a device. A file put in its place would hide it from every other program."""
    whole = os.path.abspath(path)
    if "://" in path or not os.path.exists(whole) or os.path.isdir(whole):
        return False
    in_memory = whole.startswith("/dev/shm/")  # a disk like any other
    return not os.path.isfile(whole) or (whole.startswith(("/dev/", "/proc/")) and not in_memory)


def read_report(path: str, storage_options: Mapping[str, str]) -> str | None:
    """The report at a path or a URI; None if there is none. Raises InvalidOption, StorageFailure, CorruptData."""
    directory, name = _place_of(path, storage_options)
    content = files.read(directory, name)
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        raise CorruptData(f"{path} is not a text file.") from None


def _place_of(path: str, storage_options: Mapping[str, str]) -> tuple[DatasetLocation, str]:
    directory, _, name = str(path if "://" in path else Path(path).absolute()).rpartition("/")
    place = locate(directory or "/", storage_options)
    if not name or (place.is_local and os.path.isdir(f"{place.uri}/{name}")):
        raise InvalidOption(f"{path} is a directory.", hint="Name a file in it.")
    if place.is_local:
        there = next(each for each in (Path(place.uri), *Path(place.uri).parents) if each.exists())
        if not there.is_dir():
            raise InvalidOption(f"{path} is below {there}, which is not a directory.")
    return place, name


def _write_durably(path: str, content: bytes) -> None:
    temporary = f"{path}.{uuid4().hex}.tmp"
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(temporary)  # a full disk needs its bytes
        raise
    sync_directory(os.path.dirname(path))


def sync_directory(path: str) -> None:
    """Make the names in a local directory safe: a power cut can lose that of a file whose content is safe."""
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
