"""Takes a table's directory away, or makes a complete copy of it under another name, inside one catalog."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from lance_spark.catalog.directory import DEREGISTERED, INCOMPLETE, MARKERS, RESERVED, VERSIONS
from lance_spark.catalog.model import Catalog
from lance_spark.errors import NotFound, StorageFailure
from lance_spark.layout.key_ranges import KeyRange
from lance_spark.location import DatasetLocation
from lance_spark.store import copying
from lance_spark.store.catalog.directories import is_link
from lance_spark.store.catalog.markers import remove
from lance_spark.store.deleting import BATCH, delete_batch
from lance_spark.store.filesystem import reachable, whole_path
from lance_spark.store.listing import list_range
from lance_spark.store.parallel import THREADS

Stamps = dict[str, tuple[int, int]]
"""Files by path: size in bytes, and microseconds since 1970 of the last change."""
_EVERYTHING = KeyRange(None, None)
_TRIES = 5


def list_directory(location: DatasetLocation) -> list[tuple[str, int, int]]:
    """All files of a directory: path relative to it, size in bytes, and microseconds since 1970 of its last change.

    A time that the store does not tell is given as that of the latest file possible.
    """
    listed = []
    for batch in list_range(location, _EVERYTHING):
        times = batch["last_modified"].cast("int64").to_pylist()
        for path, size, time in zip(batch["path"].to_pylist(), batch["size"].to_pylist(), times, strict=True):
            listed.append((path, size or 0, 2**62 if time is None else time))
    return listed


def changed_at(location: DatasetLocation) -> int:
    """When a local directory was last changed, in microseconds since 1970; 0 on object stores, which have none."""
    if not location.is_local:
        return 0
    with reachable(location):
        try:
            return os.stat(location.uri).st_mtime_ns // 1000
        except FileNotFoundError:
            return 0


def erase(root: DatasetLocation, location: DatasetLocation, directory: str, aside: str) -> bool:
    """Delete a directory of the catalog with all that is in it; False if a local one was not there any more.

    On a local disk it first gets the name ``aside``, in one step: from then on its old name is free, and nothing that
    is put there is taken for what was there before. Object stores have no such step. There versions go first, and the
    markers last: they keep the name from being used while files are left.

    Raises StorageFailure for files that are left.
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
            shutil.rmtree(f"{new}/{VERSIONS}", ignore_errors=True)  # without them it is a remainder
            _remove_tree(new)
        except FileNotFoundError:
            return False
    return True


def _remove_tree(path: str) -> None:
    """Others may delete in it at the same time: a rename takes its own mark away from what it has just copied.

    Markers go last: without one, what a killed process leaves is taken for a table, or for what nobody may delete.
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
            if path.endswith("/"):  # an empty object with which a tool marked a directory
                remove(location, path)
    for name in markers:
        remove(location, name)


def _delete(location: DatasetLocation, paths: Iterable[str]) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        done = list(pool.map(lambda batch: delete_batch(location, batch), _batches(paths)))
    failed = [reason for batch in done for reason in batch.failed]
    if failed:
        path, reason = failed[0]
        raise StorageFailure(
            f"{len(failed)} files of {location.uri} could not be deleted, such as {path}: {reason}",
            hint="Run it again; the catalog's job for orphans finds them as well.",
        )


def _batches(paths: Iterable[str]) -> Iterator[list[str]]:
    waiting = iter(paths)
    while batch := list(islice(waiting, BATCH)):
        yield batch


def copy_new_files(root: DatasetLocation, source: str, target: str, known: frozenset[str]) -> Stamps:
    """Copy the files of a directory that are not known yet to another one; all files that it has now.

    Inside of the store: object stores copy by themselves, and on a local disk a file just gets a second name.
    Versions come last: what is copied is a dataset only when its files are there.
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
        raise NotFound(f"{root.uri}/{source} is not there any more.") from None


def _link(root: DatasetLocation, source: str, target: str) -> bool:
    """Give a local file a second name; False on a file system that has no such thing."""
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
