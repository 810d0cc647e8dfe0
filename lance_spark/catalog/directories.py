"""Directories of tables: lists and inspects them in parallel, erases and copies them, and writes their marker files."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count, islice
from typing import Any

from lance_spark.catalog.entry_rules import (
    ABSENT,
    DEREGISTERED,
    INCOMPLETE,
    MARKERS,
    RESERVED,
    VERSIONS,
    DirectoryState,
    state_of,
)
from lance_spark.catalog.name_rules import Catalog
from lance_spark.core.layout import KeyRange
from lance_spark.core.location import DatasetLocation
from lance_spark.errors import NotFound, StorageFailure
from lance_spark.storage import copying, files
from lance_spark.storage.deleting import BATCH, delete_batch, deletion_failure
from lance_spark.storage.failures import clean
from lance_spark.storage.files import THREADS, bucket_and_prefix, entries, open_filesystem, reachable, whole_path
from lance_spark.storage.listing import list_range
from lance_spark.storage.spelling import found_as

_FEW = 8
"""Number of directories that justifies another thread: each thread looks at them one after another."""
_PAGE_KEYS = 1000


def list_root(root: DatasetLocation) -> tuple[list[str], list[str]]:
    """Names of the directories and of the files directly in the catalog; none if a local root does not exist.

    Raises NotFound if the bucket does not exist.
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
    """Raise NotFound if the bucket does not exist: a misspelled one is not an empty catalog."""
    if root.uri.startswith("s3://"):
        bucket, prefix = bucket_and_prefix(root)
        _page(root, {"Bucket": bucket, "Prefix": prefix, "MaxKeys": 1})


def look(root: DatasetLocation, directories: Sequence[str]) -> dict[str, DirectoryState]:
    """The contents of some directories of the root, as far as needed to decide whether each is a table.

    On S3 a request lists 1,000 files, whichever directories they are in. So many small tables take one request,
    and a large one never takes more than one or two. pylance sends one request for each directory.
    """
    ordered = sorted(set(directories), key=lambda name: f"{name}/")
    states: dict[str, DirectoryState] = {}
    search: Callable[[Sequence[str]], dict[str, DirectoryState]]
    search, least, rest = partial(_look_on_disk if root.is_local else _look_elsewhere, root), _FEW, ordered
    if root.uri.startswith("s3://"):
        # The number of directories covered by the first page is the number that justifies separate requests.
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
    """The contents of one directory of the root; none of another table's whose name the disk takes for this one."""
    return ABSENT if found_as(root, directory) is not None else look(root, [directory])[directory]


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
    """The files directly in a directory; if there are none, the first one below it."""
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
    """The results of at most this many requests, and the names that they do not cover.

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
                    f"The store of {root.uri} does not list keys in byte order.",
                    hint="Directory buckets (S3 Express One Zone) do not; they cannot hold a catalog.",
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
    """The key after which to continue; None once all directories are known."""
    directory, slash, path = last.partition("/")
    own = bisect_right(starts, directory + slash) - 1
    if slash and own >= 0 and starts[own] == directory + slash and path < DEREGISTERED:
        return last  # its mark, if any, has not been listed yet
    position = bisect_right(starts, directory + slash) if slash else bisect_right(starts, last)
    return None if position == len(starts) else max(last, starts[position])


def _page(root: DatasetLocation, asked: dict[str, Any]) -> dict[str, Any]:
    with reachable(root):
        try:
            page: dict[str, Any] = files.ask(root, lambda store: store.call_s3("list_objects_v2", **asked))
        except FileNotFoundError as problem:
            raise NotFound(
                f"The bucket of {root.uri} does not exist: {clean(str(problem.__cause__ or problem), root)}",
                hint="Check the bucket name and the endpoint.",
            ) from None
    if not isinstance(page.get("IsTruncated"), bool):
        raise StorageFailure(f"The store of {root.uri} did not respond with a listing.")
    return page


def is_link(root: DatasetLocation, directory: str) -> bool:
    """Whether a directory is a symbolic link, whose target may hold anyone's data."""
    return root.is_local and os.path.islink(whole_path(root, directory))


# --- Marker files: of several processes that create one at once, exactly one succeeds

_TRIES = 5
_TAKEN = ("PreconditionFailed", "412")
_BUSY = ("ConditionalRequestConflict", "409")
"""S3's response if two requests create one key at the same time; a retry shows which one did."""


def put_new(location: DatasetLocation, path: str, content: bytes, parents: bool = True) -> bool:
    """Create a file; False, without any change, if it exists.

    Without ``parents``, also False if its local directory is missing.

    Exactly one of several simultaneous calls returns True: on local disks, on S3, and wherever fsspec offers the mode
    "create". Elsewhere, two calls at the same moment can both return True.
    """
    with reachable(location):
        if location.is_local:
            return _on_disk(whole_path(location, path), content, parents)
        if location.uri.startswith("s3://"):
            return _on_s3(location, path, content)
        return _elsewhere(location, path, content)


def content_of(location: DatasetLocation, path: str) -> bytes | None:
    """The content of a marker; None if it does not exist."""
    return files.read(location, path)


def remove(location: DatasetLocation, path: str) -> None:
    """Delete a marker, if it exists."""
    with reachable(location):
        try:
            files.ask(location, lambda store: store.rm_file(whole_path(location, path)))
        except (FileNotFoundError, NotADirectoryError):
            return


def remove_if(location: DatasetLocation, path: str, content: bytes) -> bool:
    """Delete a marker if it has exactly this content; returns whether it did.

    No store can compare and delete in one step. Another process's marker is deleted only if it was put there between
    the two requests.
    """
    if files.read(location, path) != content:
        return False
    remove(location, path)
    return True


def replace(location: DatasetLocation, path: str, content: bytes) -> bool:
    """Write a marker, in one step, whether or not it exists; False if the local directory is missing."""
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


# --- Erasing a table's directory, and copying it completely to another name, inside one catalog

Stamps = dict[str, tuple[int, int]]
"""Files by path: size in bytes, and microseconds since 1970 of the last change."""
_EVERYTHING = KeyRange(None, None)


def list_directory(location: DatasetLocation) -> list[tuple[str, int, int]]:
    """All files of a directory: path relative to it, size in bytes, and microseconds since 1970 of its last change.

    If the store does not report a time, it is that of the latest possible file.
    """
    listed = []
    for batch in list_range(location, _EVERYTHING):
        times = batch["last_modified"].cast("int64").to_pylist()
        for path, size, time in zip(batch["path"].to_pylist(), batch["size"].to_pylist(), times, strict=True):
            listed.append((path, size or 0, 2**62 if time is None else time))
    return listed


def changed_at(location: DatasetLocation) -> int:
    """Time of the last change of a local directory, in microseconds since 1970; 0 on object stores, which have none."""
    if not location.is_local:
        return 0
    with reachable(location):
        try:
            return os.stat(location.uri).st_mtime_ns // 1000
        except FileNotFoundError:
            return 0


def erase(root: DatasetLocation, location: DatasetLocation, directory: str, aside: str) -> bool:
    """Delete a directory of the catalog with its contents; False if a local one no longer exists.

    A local directory is first renamed to ``aside``, in one step. From then on its old name is free, and anything
    created there is not mistaken for the old contents. Object stores have no such step. There, versions are deleted
    first, and the markers last: they keep the name from being used while files are left.

    Raises StorageFailure if files are left.
    """
    if not root.is_local:
        _erase_keys(location)
        return True
    with reachable(root):
        old, new = whole_path(root, directory), whole_path(root, aside)
        try:
            if is_link(root, directory):
                os.unlink(old)
                return True
            if new != old:
                os.rename(old, new)
            shutil.rmtree(f"{new}/{VERSIONS}", ignore_errors=True)  # without versions it counts as a remainder
            _remove_tree(new)
        except FileNotFoundError:
            return False
    return True


def _remove_tree(path: str) -> None:
    """Other processes may delete in it at the same time: a rename removes its own mark from its fresh copy.

    Markers are deleted last. Without one, the remains of a killed process would pass for a table, or for a directory
    that must not be deleted.
    """
    for left in reversed(range(_TRIES)):
        try:
            for entry in os.scandir(path):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path)
                elif entry.name not in MARKERS:
                    os.unlink(entry.path)
            shutil.rmtree(path)
        except FileNotFoundError:
            if not os.path.lexists(path):
                return
            if not left:
                raise
        else:
            return


def _erase_keys(location: DatasetLocation) -> None:
    paths = [path for path, _, _ in list_directory(location)]
    markers = [name for name in (INCOMPLETE, RESERVED, DEREGISTERED) if name in paths]
    versions = [path for path in paths if path.startswith(f"{VERSIONS}/")]
    rest = [path for path in paths if path not in MARKERS and not path.startswith(f"{VERSIONS}/")]
    for paths in (versions, rest):
        _delete(location, [path for path in paths if not path.endswith("/")])
        for path in paths:
            if path.endswith("/"):  # an empty object by which a tool marked a directory
                remove(location, path)
    for name in markers:
        remove(location, name)


def _delete(location: DatasetLocation, paths: Iterable[str]) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        done = list(pool.map(lambda batch: delete_batch(location, batch), _batches(paths)))
    hint = "Run it again, or let the catalog's job for orphans remove them."
    failure = deletion_failure(f"{{}} of {location.uri} could not be deleted", done, hint)
    if failure is not None:
        raise failure


def _batches(paths: Iterable[str]) -> Iterator[list[str]]:
    waiting = iter(paths)
    while batch := list(islice(waiting, BATCH)):
        yield batch


def copy_new_files(root: DatasetLocation, source: str, target: str, known: frozenset[str]) -> Stamps:
    """Copy the files of a directory that are not yet known to another one; returns all its current files.

    The copy runs inside the store: object stores copy by themselves, and on a local disk a file just gets a second
    name. Versions come last, so that the copy becomes a dataset only when its files exist.
    """
    listed = list_directory(Catalog(root).at(source))
    paths = {path: (size, time) for path, size, time in listed if not path.endswith("/")}
    new = [path for path in paths if path not in known and path not in MARKERS]
    late = [path for path in new if path.startswith(f"{VERSIONS}/")]
    for part in ([path for path in new if path not in set(late)], late):
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda path: _copy(root, f"{source}/{path}", f"{target}/{path}"), part))
    return paths


def _copy(root: DatasetLocation, source: str, target: str) -> None:
    try:
        if not (root.is_local and _link(root, source, target)):
            copying.copy_file(root, source, root, target)
    except FileNotFoundError:
        raise NotFound(f"{root.uri}/{source} no longer exists.") from None


def _link(root: DatasetLocation, source: str, target: str) -> bool:
    """Give a local file a second name; False on a file system without hard links."""
    with reachable(root):
        whole = whole_path(root, target)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        try:
            os.link(whole_path(root, source), whole)
        except FileExistsError:
            return True
        except OSError as problem:
            if problem.errno in (errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP):
                return False
            raise
    return True
