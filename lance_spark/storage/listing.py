"""Lists the files of one key range: path, size, time. A failure is an error, never a shorter list.

A file that a listing leaves out looks as if it did not exist, and decisions on what to delete rest on listings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from lance_spark.core.layout import KeyRange
from lance_spark.core.location import DatasetLocation
from lance_spark.core.texts import EPOCH
from lance_spark.errors import NotFound, StorageFailure
from lance_spark.format.schema import in_batches
from lance_spark.storage.failures import clean
from lance_spark.storage.files import ask, bucket_and_prefix, checked_page, reachable, whole_path
from lance_spark.storage.spelling import spelling_of

LISTING = pa.schema(
    [("path", pa.string()), ("size", pa.int64()), ("last_modified", pa.timestamp("us", "UTC"))],
)
"""Path relative to the dataset's root with '/' between its parts, size in bytes, and time of last modification; null
if the store does not report it."""

BATCH_ROWS = 50_000
_PAGE_KEYS = 1000
"""Maximum number of keys in one answer of S3."""
_TIMES = ("last_modified", "updated", "LastModified", "mtime", "created")
"""Keys for the time of last modification in fsspec's file systems. The time of creation comes last: it is earlier, and
a file that looks older than it is might be deleted too soon."""
_NO_TEXT = re.compile("[\ud800-\udfff]")
"""Python's stand-ins for bytes of a name that is not UTF-8."""
_NO_NAMES = frozenset({"", ".", ".."})

_Row = tuple[str, "int | None", "int | None"]
"""Path, bytes, microseconds since 1970."""


def list_range(location: DatasetLocation, part: KeyRange) -> Iterator[pa.RecordBatch]:
    """The files of a dataset within a range, as batches of :data:`LISTING` with up to 50,000 rows each.

    On S3 they come in ascending order, with one request per 1,000 keys; elsewhere in no particular order. Symbolic
    links to directories are not followed. A missing root has no files. The empty objects with which some tools mark
    directories are listed like others; their paths end with a slash.

    Raises StorageFailure (PermissionDenied if that is the reason) for anything that could not be listed, NotFound for a
    missing bucket.
    """
    return in_batches(_rows(location, part), LISTING, BATCH_ROWS)


def list_paths(location: DatasetLocation, part: KeyRange) -> Iterator[str]:
    """The paths within a range, in the order of :func:`list_range`. Pages are requested on demand."""
    return (path for path, _, _ in _rows(location, part))


def list_sizes(location: DatasetLocation, part: KeyRange) -> Iterator[tuple[str, int]]:
    """The paths within a range with their sizes in bytes, as :func:`list_paths`."""
    return ((path, size or 0) for path, size, _ in _rows(location, part))


def _rows(location: DatasetLocation, part: KeyRange) -> Iterator[_Row]:
    if location.is_local:
        return _rows_on_disk(location, part)
    if location.uri.startswith("s3://"):
        return _rows_on_s3(location, part)
    return _rows_elsewhere(location, part)


def _rows_on_s3(location: DatasetLocation, part: KeyRange) -> Iterator[_Row]:
    bucket, prefix = bucket_and_prefix(location)
    # With a shorter prefix, each range would request a page beyond its end.
    within = prefix + part.prefix
    asked: dict[str, Any] = {"Bucket": bucket, "Prefix": within, "MaxKeys": _PAGE_KEYS}
    if part.after is not None:
        asked["StartAfter"] = prefix + part.after
    last = asked.get("StartAfter", prefix)
    while True:
        page = _page(location, asked)
        for entry in page.get("Contents", ()):
            key = entry["Key"]
            if key == prefix:
                continue  # an empty object that marks the root as a directory
            if not key.startswith(prefix) or key <= last:
                raise StorageFailure(
                    f"The store of {location.uri} does not list keys in the order of their bytes.",
                    hint="Directory buckets (S3 Express One Zone) do not; their listings cannot be divided.",
                )
            last, path = key, key[len(prefix) :]
            if not part.holds(path):
                return
            yield path, entry["Size"], _microseconds(entry.get("LastModified"))
        if not page["IsTruncated"]:
            return
        asked["ContinuationToken"] = page["NextContinuationToken"]


def _page(location: DatasetLocation, asked: dict[str, Any]) -> dict[str, Any]:
    with reachable(location):
        try:
            page: dict[str, Any] = ask(location, lambda store: store.call_s3("list_objects_v2", **asked))
        except FileNotFoundError as problem:
            raise NotFound(
                f"The bucket of {location.uri} does not exist: {clean(str(problem.__cause__ or problem), location)}",
                hint="Check the bucket name and the endpoint.",
            ) from None
    return checked_page(location, page)


def _rows_on_disk(location: DatasetLocation, part: KeyRange) -> Iterator[_Row]:
    with reachable(location):
        spelling = spelling_of(location)
        # Where branches are spelled in another way than on disk, the range is one of their names, not of the disk's.
        pending = [("", "")] if spelling.branches else [(one, one) for one in _first_directories(location, part)]
        while pending:
            directory, spelled = pending.pop()
            for entry in _entries(os.path.join(location.uri, directory)):
                on_disk, path = f"{directory}{entry.name}", f"{spelled}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    path = spelling.branches.get(on_disk, path)
                    if part.meets(path) or spelling.leads(on_disk):
                        pending.append((f"{on_disk}/", f"{path}/"))
                elif part.holds(path) and (row := _row_of(entry, path)):
                    yield row


def _first_directories(location: DatasetLocation, part: KeyRange) -> list[str]:
    """The directory that holds all paths of a range, with a trailing slash; none if it is behind a link."""
    names = part.prefix.split("/")[:-1]
    if not _NO_NAMES.isdisjoint(names):
        return []  # keys can have this form, paths of files cannot
    above = ["/".join(names[: count + 1]) for count in range(len(names))]
    if any(os.path.islink(os.path.join(location.uri, directory)) for directory in above):
        return []
    return [f"{above[-1]}/" if above else ""]


def linked_directories(location: DatasetLocation, roots: Iterable[str]) -> list[str]:
    """Directories right below some roots of a local dataset (with a slash at the end) that are symbolic links.

    What is behind a link may be another dataset's, so that a cleanup neither lists nor deletes it.
    """
    if not location.is_local:
        return []
    return sorted(
        f"{root}{entry.name}"
        for root in roots
        for entry in _entries(os.path.join(location.uri, root))
        if entry.is_symlink() and entry.is_dir()
    )


def _entries(directory: str) -> Iterator[os.DirEntry[str]]:
    """The entries of a directory; none if it is gone."""
    try:
        with os.scandir(directory) as entries:
            yield from entries
    except (FileNotFoundError, NotADirectoryError):
        return


def _row_of(entry: os.DirEntry[str], path: str) -> _Row | None:
    """None for a file that is gone, and for a link to a directory."""
    if entry.is_symlink() and entry.is_dir():
        return None
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not path.isascii() and _NO_TEXT.search(path):
        raise StorageFailure(f"The name of the file {path!r} is not UTF-8.", hint="Rename or remove the file.")
    return path, status.st_size, status.st_mtime_ns // 1000


def _rows_elsewhere(location: DatasetLocation, part: KeyRange) -> Iterator[_Row]:
    root = f"/{whole_path(location, '').strip('/')}"
    pending = [root]
    with reachable(location):
        while pending:
            directory = pending.pop()
            for entry in _entries_elsewhere(location, directory):
                whole = f"/{str(entry['name']).strip('/')}"
                if whole == directory:
                    continue  # an object that marks the directory, or a file of the same name
                if not whole.startswith(f"{directory}/"):
                    raise StorageFailure(f"The store of {location.uri} listed '{whole}', which is not below it.")
                path = whole[len(root) + 1 :]
                if entry["type"] == "directory":
                    if part.meets(path):
                        pending.append(whole)
                elif part.holds(path):
                    changed = next((entry[name] for name in _TIMES if entry.get(name) is not None), None)
                    yield path, entry["size"], _microseconds(changed)


def _entries_elsewhere(location: DatasetLocation, directory: str) -> list[dict[str, Any]]:
    try:
        listed: list[dict[str, Any]] = ask(
            location, lambda store: store.ls(directory.lstrip("/"), detail=True, refresh=True)
        )
    except (FileNotFoundError, NotADirectoryError):
        return []
    return listed


def _microseconds(time: object) -> int | None:
    """Microseconds since 1970, from a time with a zone, ISO 8601 text or a number of seconds; otherwise None."""
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time.replace("Z", "+00:00"))
        except ValueError:
            return None
    if isinstance(time, int | float):
        return int(time * 1_000_000)
    if isinstance(time, datetime) and time.tzinfo is not None:
        return (time - EPOCH) // timedelta(microseconds=1)
    return None
