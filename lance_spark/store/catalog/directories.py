"""Table directories: listed and looked at in parallel, taken away, copied to another name."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import Any

from lance_spark.catalog.directory import ABSENT, DEREGISTERED, DirectoryState, state_of
from lance_spark.errors import NotFound, StorageFailure
from lance_spark.location import DatasetLocation
from lance_spark.store.failures import clean
from lance_spark.store.filesystem import bucket_and_prefix, entries, open_filesystem, reachable, whole_path
from lance_spark.store.parallel import THREADS

_FEW = 8
"""Directories that one thread looks at, one after another, before another thread is worth it."""
_PAGE_KEYS = 1000


def list_root(root: DatasetLocation) -> tuple[list[str], list[str]]:
    """Names of the directories and of the files directly in the catalog; none where a local root is not there.

    Raises NotFound for a bucket that is not there.
    """
    if root.is_local:
        with reachable(root):
            names = _inside_on_disk(root.uri)
    else:
        names = list(_names_on_s3(root)) if root.uri.startswith("s3://") else entries(root, "")
    directories = sorted({name for name, is_directory in names if is_directory})
    return directories, sorted({name for name, is_directory in names if not is_directory})


def _names_on_s3(root: DatasetLocation) -> Iterator[tuple[str, bool]]:
    bucket, prefix = bucket_and_prefix(root)
    asked: dict[str, Any] = {"Bucket": bucket, "Prefix": prefix, "Delimiter": "/", "MaxKeys": _PAGE_KEYS}
    while True:
        page = _page(root, asked)
        yield from ((group["Prefix"][len(prefix) : -1], True) for group in page.get("CommonPrefixes", ()))
        yield from ((file["Key"][len(prefix) :], False) for file in page.get("Contents", ()) if file["Key"] != prefix)
        if not page["IsTruncated"]:
            return
        asked["ContinuationToken"] = page["NextContinuationToken"]


def check_reachable(root: DatasetLocation) -> None:
    """Raise NotFound for a bucket that is not there: a misspelled one is no empty catalog."""
    if root.uri.startswith("s3://"):
        bucket, prefix = bucket_and_prefix(root)
        _page(root, {"Bucket": bucket, "Prefix": prefix, "MaxKeys": 1})


def look(root: DatasetLocation, directories: Sequence[str]) -> dict[str, DirectoryState]:
    """What is in some directories of the root: as much as tells whether each is a table.

    On S3 a request lists 1,000 files, whichever directories they are in, so that many small tables take one request,
    and a large one never takes more than one or two. pylance asks once for each directory.
    """
    ordered = sorted(set(directories), key=lambda name: f"{name}/")
    states: dict[str, DirectoryState] = {}
    search: Callable[[Sequence[str]], dict[str, DirectoryState]]
    search, least, rest = partial(_look_on_disk if root.is_local else _look_elsewhere, root), _FEW, ordered
    if root.uri.startswith("s3://"):
        # How many directories the first page tells of is how many are worth a request of their own.
        states, rest = _pages_on_s3(root, ordered, 1) if ordered else ({}, [])
        search, least = lambda part: _pages_on_s3(root, part)[0], max(1, len(ordered) - len(rest))
    size = max(least, -(-len(rest) // THREADS))
    parts = [rest[start : start + size] for start in range(0, len(rest), size)]
    if len(parts) > 1:
        with ThreadPoolExecutor(THREADS) as pool:
            known = list(pool.map(search, parts))
    else:
        known = [search(part) for part in parts]
    for part in known:
        states |= part
    return {name: states.get(name, ABSENT) for name in ordered}


def look_at(root: DatasetLocation, directory: str) -> DirectoryState:
    """What is in one directory of the root."""
    return look(root, [directory])[directory]


def _look_on_disk(root: DatasetLocation, names: Sequence[str]) -> dict[str, DirectoryState]:
    with reachable(root):
        return {name: state_of(_some_files(_inside_on_disk, f"{root.uri}/{name}")) for name in names}


def _look_elsewhere(root: DatasetLocation, names: Sequence[str]) -> dict[str, DirectoryState]:
    return {name: state_of(_some_files(partial(entries, root), name)) for name in names}


def _inside_on_disk(directory: str) -> list[tuple[str, bool]]:
    try:
        with os.scandir(directory) as inside:
            return [(entry.name, entry.is_dir()) for entry in inside]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _some_files(list_inside: Callable[[str], list[tuple[str, bool]]], directory: str) -> list[str]:
    """The files directly in a directory; where it has none, the first one below it."""
    inside = list_inside(directory)
    direct = [name for name, is_directory in inside if not is_directory and name]
    for name, is_directory in inside:
        if direct:
            break
        if is_directory and _some_files(list_inside, f"{directory}/{name}"):
            return [f"{name}/..."]
    return direct


def _pages_on_s3(
    root: DatasetLocation, names: Sequence[str], most: int | None = None
) -> tuple[dict[str, DirectoryState], list[str]]:
    """What at most so many requests tell, and the names that they do not tell of.

    ``names`` are in the order of their keys. A page that ends inside a directory is followed by the next one.
    """
    bucket, prefix = bucket_and_prefix(root)
    starts = [f"{name}/" for name in names]
    paths: dict[str, list[str]] = {name: [] for name in names}
    asked: dict[str, Any] = {"Bucket": bucket, "Prefix": prefix, "MaxKeys": _PAGE_KEYS}
    after, known = starts[0], 0
    for _ in count() if most is None else range(most):
        page = _page(root, {**asked, "StartAfter": prefix + after})
        last = after
        for file in page.get("Contents", ()):
            key = file["Key"][len(prefix) :]
            if key <= last:
                raise StorageFailure(
                    f"The store of {root.uri} does not list keys in the order of their bytes.",
                    hint="Directory buckets (S3 Express One Zone) do not; a catalog cannot be there.",
                )
            last = key
            directory, _, path = key.partition("/")
            if directory in paths and path:
                paths[directory].append(path)
        following = _next_start(last, starts) if page["IsTruncated"] else None
        if following is None:
            known = len(names)
            break
        after = following
        known = bisect_right(starts, after.partition("/")[0] + "/") - 1
    return {name: state_of(paths[name]) for name in names[:known]}, list(names[known:])


def _next_start(last: str, starts: Sequence[str]) -> str | None:
    """After which key to go on; None when all directories are known."""
    directory, slash, path = last.partition("/")
    own = bisect_right(starts, directory + slash) - 1
    if slash and own >= 0 and starts[own] == directory + slash and path < DEREGISTERED:
        return last  # its mark, if it has one, is still to come
    position = bisect_right(starts, directory + slash) if slash else bisect_right(starts, last)
    return None if position == len(starts) else max(last, starts[position])


def _page(root: DatasetLocation, asked: dict[str, Any]) -> dict[str, Any]:
    with reachable(root):
        try:
            page: dict[str, Any] = open_filesystem(root).call_s3("list_objects_v2", **asked)
        except FileNotFoundError as problem:
            raise NotFound(
                f"The bucket of {root.uri} does not exist: {clean(str(problem.__cause__ or problem), root)}",
                hint="Check the bucket name and the endpoint.",
            ) from None
    if not isinstance(page.get("IsTruncated"), bool):
        raise StorageFailure(f"The store of {root.uri} answered with something that is no listing.")
    return page


def exists_below(root: DatasetLocation, path: str) -> bool:
    """Whether a directory below the root has anything in it."""
    return bool(entries(root, path))


def is_link(root: DatasetLocation, directory: str) -> bool:
    """Whether a directory is a symbolic link, behind which may be anybody's data."""
    return root.is_local and os.path.islink(whole_path(root, directory))
