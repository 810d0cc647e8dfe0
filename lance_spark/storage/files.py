"""Files of a dataset through fsspec: single files, many small requests at once, listings of key ranges.

No other module imports ``fsspec``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from lance_spark.core.layout import KeyRange
from lance_spark.core.location import DatasetLocation
from lance_spark.core.options import fsspec_options
from lance_spark.core.show import EPOCH
from lance_spark.errors import LanceSparkError, NotFound, StorageFailure
from lance_spark.storage.failures import clean, from_fsspec

if TYPE_CHECKING:
    import fsspec

_S3_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z")
_CONNECTIONS = 32
"""How many requests to one store run at once; botocore's own limit is ten."""


def open_filesystem(location: DatasetLocation) -> fsspec.AbstractFileSystem:
    """The file system of a location, with its storage options; sends no request."""
    import fsspec

    if location.is_local:
        return fsspec.filesystem("file")
    parts = urlsplit(location.uri)
    arguments = fsspec_options(parts.scheme, location.storage_options, os.environ)
    if parts.scheme != "s3":
        return fsspec.filesystem(parts.scheme, use_listings_cache=False, **arguments)
    filesystem = fsspec.filesystem("s3", use_listings_cache=False, **_with_s3_manners(arguments, parts.netloc))
    if filesystem.session is None:  # not as an argument: fsspec would make a new file system for each call
        filesystem.session = _quick_session()
    return filesystem


def whole_path(location: DatasetLocation, relative: str) -> str:
    """A path below the root (the root for "") in the file system's form: not percent-encoded, no trailing slash."""
    if location.is_local:
        return f"{location.uri}/{relative}".rstrip("/")
    parts = urlsplit(location.uri)
    return f"{parts.netloc}{unquote(parts.path)}/{relative}".rstrip("/")


def bucket_and_prefix(location: DatasetLocation) -> tuple[str, str]:
    """The bucket of a location and the prefix of all its files' keys, which is empty or ends with a slash."""
    bucket, _, key = whole_path(location, "").partition("/")
    return bucket, f"{key}/" if key else ""


def entries(location: DatasetLocation, directory: str) -> list[tuple[str, bool]]:
    """The entries of a directory, as (name, whether it is a directory); nothing if it does not exist.

    Raises StorageFailure for anything that could not be listed.
    """
    with reachable(location, directory):
        try:
            if location.uri.startswith("s3://"):
                return list(_entries_on_s3(location, directory))
            if location.is_local:
                # fsspec would request the size and time of every entry: ten times as long, with 10,000 versions.
                with os.scandir(whole_path(location, directory)) as directory_entries:
                    return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in directory_entries]
            listed = open_filesystem(location).ls(whole_path(location, directory), detail=True, refresh=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
    return [(str(entry["name"]).rstrip("/").rpartition("/")[2], entry["type"] == "directory") for entry in listed]


def _entries_on_s3(location: DatasetLocation, directory: str) -> Iterator[tuple[str, bool]]:
    """One request per 1,000 entries; s3fs would also ask for the parent directory if it finds nothing."""
    bucket, prefix = bucket_and_prefix(location)
    prefix += f"{directory}/" if directory else ""
    asked: dict[str, Any] = {"Bucket": bucket, "Prefix": prefix, "Delimiter": "/"}
    while True:
        page = checked_page(location, open_filesystem(location).call_s3("list_objects_v2", **asked))
        yield from ((listed["Prefix"][len(prefix) :].rstrip("/"), True) for listed in page.get("CommonPrefixes", ()))
        yield from (
            (listed["Key"][len(prefix) :], False) for listed in page.get("Contents", ()) if listed["Key"] != prefix
        )
        if not page["IsTruncated"]:
            return
        asked["ContinuationToken"] = page["NextContinuationToken"]


def checked_page(location: DatasetLocation, page: dict[str, Any]) -> dict[str, Any]:
    """The page, if it is a listing: any other XML page of a gateway would pass for an empty listing."""
    if not isinstance(page.get("IsTruncated"), bool) or (page["IsTruncated"] and not page.get("NextContinuationToken")):
        raise StorageFailure(f"The store of {location.uri} answered with something that is not a listing.")
    return page


@contextmanager
def reachable(location: DatasetLocation, path: str | None = None) -> Iterator[None]:
    """Convert every failure except "not found" to a StorageFailure; ``path`` is the requested one."""
    try:
        yield
    except (LanceSparkError, FileNotFoundError, NotADirectoryError):
        raise
    except Exception as problem:  # noqa: BLE001 - converted to an error that reports it, never swallowed
        raise from_fsspec(problem, location, path) from None


def _quick_session() -> Any:
    """A botocore session with a fast parser for S3's times.

    botocore uses dateutil, which parses times in any style and takes two thirds of the time of a listing's page.
    """
    from aiobotocore.session import AioSession

    session = AioSession()
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=s3_time)
    return session


def s3_time(text: Any) -> datetime:
    """A time in S3's listing format, ``2026-11-22T08:13:28.000Z``; botocore parses all others."""
    if isinstance(text, str) and _S3_TIME.fullmatch(text):
        return datetime.fromisoformat(f"{text[:-1]}+00:00")
    from botocore.utils import parse_timestamp

    time: datetime = parse_timestamp(text)
    return time


def _with_s3_manners(arguments: dict[str, Any], bucket: str) -> dict[str, Any]:
    """s3fs's arguments: one request per file, few retries, and virtual hosts in pylance's sense.

    botocore tries five times, and s3fs five times around that: half a minute for one throttled listing.
    """
    config = {
        **arguments.get("config_kwargs", {}),
        "retries": {"mode": "standard", "total_max_attempts": 3},
        "max_pool_connections": _CONNECTIONS,
    }
    client = dict(arguments.get("client_kwargs", {}))
    if config.get("s3") == {"addressing_style": "virtual"}:
        # To pylance, a virtual host's endpoint already names the bucket; botocore would add the bucket again.
        client["endpoint_url"] = client["endpoint_url"].replace(f"://{bucket}.", "://", 1)
    # Concurrency inside one file costs a HEAD request before each GET, and a HEAD's failure gives no reason.
    return {**arguments, "client_kwargs": client, "config_kwargs": config, "max_concurrency": 1}


# --- Many small requests at once, to a store that answers each only after tens of milliseconds

THREADS = 16
"""How many requests of one task run at once."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def each(location: DatasetLocation, ask: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """The answer for each of the items, in order.

    One after the other on a local disk, where starting a thread takes longer than the answer.
    """
    requests = list(items)
    if location.is_local or len(requests) < 2:
        return [ask(request) for request in requests]
    with ThreadPoolExecutor(min(THREADS, len(requests))) as pool:
        return list(pool.map(ask, requests))


# --- Single files of a dataset: list, read, delete


def list_names(location: DatasetLocation, directory: str) -> list[str]:
    """Names of the entries of a directory below the root, sorted; empty if it does not exist."""
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
    """The content of a file below the root; None if the store reports that it does not exist."""
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
    """The contents of files below the root, in order; None for a file that the store reports as missing.

    On S3 without a thread per file, which would cost more than waiting for the file.
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
    """Delete files and directories below the root; missing ones do not matter."""
    filesystem = open_filesystem(location)
    for path in paths:
        whole = whole_path(location, path)
        with reachable(location, path):
            try:
                if location.is_local:
                    filesystem.rm(whole, recursive=True)
                    continue
                # Not rm(): on object stores it reads '*' and '[' in a key as a pattern.
                for file in filesystem.find(whole):
                    filesystem.rm_file(file)
            except (FileNotFoundError, NotADirectoryError):
                continue


def exists(location: DatasetLocation, path: str = "") -> bool:
    """Whether anything exists at a path below the root."""
    with reachable(location):
        filesystem = open_filesystem(location)
        filesystem.invalidate_cache()
        return bool(filesystem.exists(whole_path(location, path)))


# --- Listing the files of one key range: path, size, time
# A failure is an error, never a shorter list.
#
# A file missing from a listing looks as if it did not exist, and listings decide what to delete.

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
    rows = _rows(location, part)
    while block := list(islice(rows, BATCH_ROWS)):
        columns = zip(*block, strict=True)
        yield pa.record_batch(
            [pa.array(column, field.type) for column, field in zip(columns, LISTING, strict=True)], LISTING
        )


def list_paths(location: DatasetLocation, part: KeyRange) -> Iterator[str]:
    """The paths within a range, in the order of :func:`list_range`. Pages are requested on demand."""
    return (path for path, _, _ in _rows(location, part))


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
            page: dict[str, Any] = open_filesystem(location).call_s3("list_objects_v2", **asked)
        except FileNotFoundError as problem:
            raise NotFound(
                f"The bucket of {location.uri} does not exist: {clean(str(problem.__cause__ or problem), location)}",
                hint="Check the bucket name and the endpoint.",
            ) from None
    return checked_page(location, page)


def _rows_on_disk(location: DatasetLocation, part: KeyRange) -> Iterator[_Row]:
    with reachable(location):
        pending = _first_directories(location, part)
        while pending:
            directory = pending.pop()
            for entry in _entries(os.path.join(location.uri, directory)):
                path = f"{directory}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    if part.meets(path):
                        pending.append(f"{path}/")
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
        filesystem = open_filesystem(location)
        while pending:
            directory = pending.pop()
            for entry in _entries_elsewhere(filesystem, directory):
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
                    yield path, entry["size"], _last_modified(entry)


def _entries_elsewhere(filesystem: Any, directory: str) -> list[dict[str, Any]]:
    try:
        listed: list[dict[str, Any]] = filesystem.ls(directory.lstrip("/"), detail=True, refresh=True)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return listed


def _last_modified(entry: dict[str, Any]) -> int | None:
    return _microseconds(next((entry[name] for name in _TIMES if entry.get(name) is not None), None))


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
