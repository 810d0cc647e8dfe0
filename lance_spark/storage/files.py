"""Files of a dataset through fsspec: single files, many small requests at once, listings of key ranges.

No other module imports ``fsspec``.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from lance_spark.core.location import DatasetLocation
from lance_spark.core.services import check_directory
from lance_spark.core.storage_options import fsspec_options
from lance_spark.errors import LanceSparkError, StorageFailure
from lance_spark.storage.credentials import again_if_refused, options_now
from lance_spark.storage.failures import from_fsspec

if TYPE_CHECKING:
    import fsspec

_S3_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z")
_CONNECTIONS = 32
"""How many requests to one store run at once; botocore's own limit is ten."""
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def open_filesystem(location: DatasetLocation) -> fsspec.AbstractFileSystem:
    """The file system of a location, with its storage options; sends no request, unless these are to be renewed."""
    import fsspec

    check_directory(location)
    if location.is_local:
        return fsspec.filesystem("file")
    parts = urlsplit(location.uri)
    arguments = fsspec_options(parts.scheme, options_now(location), os.environ)
    if parts.scheme != "s3":
        return fsspec.filesystem(parts.scheme, use_listings_cache=False, **arguments)
    filesystem = fsspec.filesystem("s3", use_listings_cache=False, **_with_s3_manners(arguments, parts.netloc))
    if filesystem.session is None:  # not as an argument: fsspec would make a new file system for each call
        filesystem.session = _quick_session()
    return filesystem


def ask(location: DatasetLocation, request: Callable[[fsspec.AbstractFileSystem], _Result]) -> _Result:
    """What the file system of a location answers to a request that may be repeated, with keys that are good now."""
    return again_if_refused(location, lambda: request(open_filesystem(location)))


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
                return again_if_refused(location, lambda: list(_entries_on_s3(location, directory)))
            if location.is_local:
                # fsspec would request the size and time of every entry: ten times as long, with 10,000 versions.
                with os.scandir(whole_path(location, directory)) as directory_entries:
                    return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in directory_entries]
            whole = whole_path(location, directory)
            listed = ask(location, lambda store: store.ls(whole, detail=True, refresh=True))
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


def each(
    location: DatasetLocation, ask: Callable[[_Item], _Result], items: Iterable[_Item], at_once: int = THREADS
) -> list[_Result]:
    """The answer for each of the items, in order; ``at_once`` are asked at the same time.

    One after the other on a local disk, where starting a thread takes longer than the answer.
    """
    requests = list(items)
    if location.is_local or len(requests) < 2:
        return [ask(request) for request in requests]
    with ThreadPoolExecutor(min(at_once, len(requests))) as pool:
        return list(pool.map(ask, requests))


# --- Single files of a dataset: list, read, delete


def list_names(location: DatasetLocation, directory: str) -> list[str]:
    """Names of the entries of a directory below the root, sorted; empty if it does not exist."""
    return sorted(name for name, _ in entries(location, directory))


def list_files(location: DatasetLocation) -> list[str]:
    """Paths of all files below the root, relative to it, sorted."""
    root = whole_path(location, "")
    with reachable(location):
        paths = ask(location, lambda store: (store.invalidate_cache(), store.find(root))[1])
    return sorted(str(path)[len(root) :].lstrip("/") for path in paths)


def read(location: DatasetLocation, path: str) -> bytes | None:
    """The content of a file below the root; None if the store reports that it does not exist."""
    with reachable(location, path):
        try:
            if location.is_local:
                with open(whole_path(location, path), "rb") as file:
                    return file.read()
            whole = whole_path(location, path)
            content: bytes = ask(location, lambda store: store.cat_file(whole))
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

        def all_of(store: fsspec.AbstractFileSystem) -> list[bytes | None]:
            return [_content(answer) for answer in store.cat_ranges(whole, None, None, on_error="return")]

        return ask(location, all_of)


def _content(answer: bytes | Exception) -> bytes | None:
    if isinstance(answer, FileNotFoundError | NotADirectoryError):
        return None
    if isinstance(answer, Exception):
        raise answer
    return answer


def delete(location: DatasetLocation, paths: Iterable[str]) -> None:
    """Delete files and directories below the root; missing ones do not matter."""
    for path in paths:
        whole = whole_path(location, path)
        with reachable(location, path):
            try:
                if location.is_local:
                    open_filesystem(location).rm(whole, recursive=True)
                    continue
                # Not rm(): on object stores it reads '*' and '[' in a key as a pattern.
                for file in ask(location, methodcaller("find", whole)):
                    ask(location, methodcaller("rm_file", file))
            except (FileNotFoundError, NotADirectoryError):
                continue


def exists(location: DatasetLocation, path: str = "") -> bool:
    """Whether anything exists at a path below the root."""
    with reachable(location):
        whole = whole_path(location, path)
        return bool(ask(location, lambda store: _with_reason(store, whole, lambda: store.exists(whole))))


class FoundFile(NamedTuple):
    """What a store says about a file."""

    size: int
    """Bytes."""
    tag: str
    """Another one if the object was written again: its ETag, or on a local disk the time of its last change."""
    changed: float
    """Seconds since 1970 of its last change; 0.0 if the store does not say."""


def look(location: DatasetLocation, path: str = "") -> FoundFile | None:
    """What is at a path below the root, or at the location itself; None if there is no file, or a directory.

    Raises StorageFailure, PermissionDenied: a store that does not answer proves nothing.
    """
    whole = whole_path(location, path)
    with reachable(location, path):
        try:
            if location.is_local:
                found = os.stat(whole)
                if stat.S_ISDIR(found.st_mode):
                    return None
                return FoundFile(found.st_size, f"{found.st_mtime_ns:x}", found.st_mtime)
            told: dict[str, Any] = ask(location, lambda store: _with_reason(store, whole, lambda: _info(store, whole)))
        except (FileNotFoundError, NotADirectoryError):
            return None
    if told.get("type") == "directory":
        return None
    tag = next((told[name] for name in ("ETag", "etag") if told.get(name)), told.get("LastModified", ""))
    changed = told.get("mtime") or getattr(told.get("LastModified"), "timestamp", float)()
    return FoundFile(int(told.get("ContentLength", told.get("size")) or 0), str(tag), float(changed))


def _info(store: fsspec.AbstractFileSystem, whole: str) -> Any:
    if "s3" not in (store.protocol if isinstance(store.protocol, tuple | list) else (store.protocol,)):
        return store.info(whole, refresh=True)
    bucket, _, key = whole.partition("/")
    return store.call_s3("head_object", Bucket=bucket, Key=key)  # info() would also list a directory of that name


def _with_reason(store: fsspec.AbstractFileSystem, whole: str, head: Callable[[], _Result]) -> _Result:
    """What HEAD answers. That answer has no body, so it never says that a key expired; that to GET does, and raises."""
    store.invalidate_cache()
    try:
        return head()
    except (FileNotFoundError, NotADirectoryError):
        raise
    except Exception:
        store.cat_file(whole, start=0, end=1)
        raise
