"""Single files of a dataset, through fsspec: list, read, delete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from lance_spark.location import DatasetLocation
from lance_spark.store.filesystem import entries, open_filesystem, reachable, whole_path
from lance_spark.store.parallel import each


def list_names(location: DatasetLocation, directory: str) -> list[str]:
    """Names of the entries of a directory below the root, sorted; empty where there is no such directory."""
    return sorted(name for name, _ in entries(location, directory))


def list_files(location: DatasetLocation) -> list[str]:
    """Paths of all files below the root, relative to it, sorted."""
    root = whole_path(location, "")
    with reachable(location):
        filesystem = open_filesystem(location)
        filesystem.invalidate_cache()
        paths = filesystem.find(root)
    return sorted(str(path)[len(root) :].lstrip("/") for path in paths)


def read(location: DatasetLocation, path: str) -> bytes | None:
    """The content of a file below the root; None where the store says it is not there."""
    with reachable(location, path):
        try:
            if location.is_local:
                with open(whole_path(location, path), "rb") as file:
                    return file.read()
            content: bytes = open_filesystem(location).cat_file(whole_path(location, path))
        except (FileNotFoundError, NotADirectoryError):
            return None
    return content


def read_many(location: DatasetLocation, paths: Sequence[str]) -> list[bytes | None]:
    """The contents of files below the root, in their order; None for a file that the store says is not there.

    On S3 without a thread for each file, which would cost more than waiting for the file.
    """
    if not location.uri.startswith("s3://"):
        return each(location, partial(read, location), paths)
    with reachable(location):
        whole = [whole_path(location, path) for path in paths]
        answers = open_filesystem(location).cat_ranges(whole, None, None, on_error="return")
        return [_content(answer) for answer in answers]


def _content(answer: bytes | Exception) -> bytes | None:
    if isinstance(answer, FileNotFoundError | NotADirectoryError):
        return None
    if isinstance(answer, Exception):
        raise answer
    return answer


def delete(location: DatasetLocation, paths: Iterable[str]) -> None:
    """Delete files and directories below the root; those that are already gone do not matter."""
    filesystem = open_filesystem(location)
    for path in paths:
        whole = whole_path(location, path)
        with reachable(location, path):
            try:
                if location.is_local:
                    filesystem.rm(whole, recursive=True)
                    continue
                # Not rm(): on object stores it takes '*' and '[' in a key for a pattern.
                for file in filesystem.find(whole):
                    filesystem.rm_file(file)
            except (FileNotFoundError, NotADirectoryError):
                continue


def exists(location: DatasetLocation, path: str = "") -> bool:
    """Whether anything is at a path below the root."""
    with reachable(location):
        filesystem = open_filesystem(location)
        filesystem.invalidate_cache()
        return bool(filesystem.exists(whole_path(location, path)))
