"""Single files of a dataset, through fsspec: list, read, delete. The only place that says ``fsspec``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from lance_spark.errors import LanceSparkError
from lance_spark.location import DatasetLocation
from lance_spark.options.storage import fsspec_options
from lance_spark.store.failures import from_fsspec

if TYPE_CHECKING:
    import fsspec


def list_names(location: DatasetLocation, directory: str) -> list[str]:
    """Names of the entries of a directory below the root, sorted; empty where there is no such directory."""
    with _reachable(location):
        try:
            found = _filesystem(location).ls(_path(location, directory), detail=False, refresh=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
    return sorted(str(entry).rstrip("/").rsplit("/", 1)[-1] for entry in found)


def list_files(location: DatasetLocation) -> list[str]:
    """Paths of all files below the root, relative to it, sorted."""
    root = _path(location, "")
    with _reachable(location):
        filesystem = _filesystem(location)
        filesystem.invalidate_cache()
        found = filesystem.find(root)
    return sorted(str(path)[len(root) :].lstrip("/") for path in found)


def read(location: DatasetLocation, path: str) -> bytes | None:
    """The content of a file below the root; None where the store says it is not there."""
    with _reachable(location):
        try:
            content: bytes = _filesystem(location).cat_file(_path(location, path))
        except (FileNotFoundError, NotADirectoryError):
            return None
    return content


def delete(location: DatasetLocation, paths: Iterable[str]) -> None:
    """Delete files and directories below the root; what is already gone does not matter."""
    filesystem = _filesystem(location)
    for path in paths:
        whole = _path(location, path)
        with _reachable(location):
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
    with _reachable(location):
        filesystem = _filesystem(location)
        filesystem.invalidate_cache()
        return bool(filesystem.exists(_path(location, path)))


def _filesystem(location: DatasetLocation) -> fsspec.AbstractFileSystem:
    import fsspec

    if location.is_local:
        return fsspec.filesystem("file")
    parts = urlsplit(location.uri)
    arguments = fsspec_options(parts.scheme, location.storage_options, os.environ)
    if parts.scheme == "s3":
        arguments = _with_s3_manners(arguments, parts.netloc)
    return fsspec.filesystem(parts.scheme, use_listings_cache=False, **arguments)


def _with_s3_manners(arguments: dict[str, Any], bucket: str) -> dict[str, Any]:
    """How s3fs should ask: once per file, with few retries, and with virtual hosts as pylance understands them.

    botocore tries five times, s3fs five times around that: half a minute for one throttled listing.
    """
    config = {**arguments.get("config_kwargs", {}), "retries": {"mode": "standard", "total_max_attempts": 3}}
    client = dict(arguments.get("client_kwargs", {}))
    if config.get("s3") == {"addressing_style": "virtual"}:
        # To pylance a virtual host's endpoint names the bucket already; botocore would put it before that again.
        client["endpoint_url"] = client["endpoint_url"].replace(f"://{bucket}.", "://", 1)
    # Concurrency inside one file costs a HEAD request before each GET, and a HEAD's failure does not say why.
    return {**arguments, "client_kwargs": client, "config_kwargs": config, "max_concurrency": 1}


def _path(location: DatasetLocation, relative: str) -> str:
    if location.is_local:
        return f"{location.uri}/{relative}".rstrip("/")
    parts = urlsplit(location.uri)
    return f"{parts.netloc}{unquote(parts.path)}/{relative}".rstrip("/")


@contextmanager
def _reachable(location: DatasetLocation) -> Iterator[None]:
    """Every failure but "not there" becomes a StorageFailure."""
    try:
        yield
    except (LanceSparkError, FileNotFoundError, NotADirectoryError):
        raise
    except Exception as problem:  # noqa: BLE001 - turned into an error that says so, never swallowed
        raise from_fsspec(problem, location) from None
