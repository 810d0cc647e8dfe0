"""Asks a store whether a file may be written, without writing one."""

from __future__ import annotations

from contextlib import suppress

from lance_spark.errors import PermissionDenied, StorageFailure
from lance_spark.layout.names import versions_directory
from lance_spark.location import DatasetLocation
from lance_spark.store.filesystem import bucket_and_prefix, open_filesystem, reachable

_NEVER = "permission.manifest"
"""A name that no version's manifest has."""


def check_may_commit(location: DatasetLocation, branch: str | None) -> None:
    """Raise PermissionDenied if no version of a branch may be written, where the store can be asked: on S3.

    A verb that writes other files first asks this before, and leaves nothing behind.
    """
    check_may_put(location, f"{versions_directory(branch)}/{_NEVER}")


def check_may_put(location: DatasetLocation, path: str) -> None:
    """Raise PermissionDenied if a file may not be written, where the store can be asked; a path below the location.

    An upload in parts that is begun and given up needs the same permission as the file, and makes none.
    """
    if not location.uri.startswith("s3://"):
        return
    bucket, prefix = bucket_and_prefix(location)
    target = {"Bucket": bucket, "Key": prefix + path}
    filesystem = open_filesystem(location)
    try:
        with reachable(location, path):
            begun = filesystem.call_s3("create_multipart_upload", **target)
    except PermissionDenied:
        raise
    except (StorageFailure, FileNotFoundError):
        return  # what is about to be done finds out, and says it in its own words
    with suppress(StorageFailure, FileNotFoundError), reachable(location, path):
        # Where this is not allowed, an upload without any part stays, which holds nothing and is in no listing.
        filesystem.call_s3("abort_multipart_upload", UploadId=begun["UploadId"], **target)
