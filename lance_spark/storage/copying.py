"""Copying files, inside a store without reading them or between stores through this machine; schemas of copies."""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.errors import NotFound, StorageFailure
from lance_spark.format.contents import Contents, Field
from lance_spark.format.versions import Copy
from lance_spark.storage.files import ask, bucket_and_prefix, look, reachable, whole_path

if TYPE_CHECKING:
    import lance
    from lance.schema import LanceField, LanceSchema

_FRESH = 24 * 3600
"""Age in seconds up to which a copy is reused. A cleanup might delete older files of an interrupted copy."""


_LITTLE = 8 * 1024**2
"""Up to this many bytes, a local file is uploaded without looking for an earlier copy."""
_ONE_REQUEST = 5 * 1024**3
"""Maximum bytes that S3 copies in one request."""


def copy_file(source: DatasetLocation, path: str, target: DatasetLocation, target_path: str, size: int = 0) -> int:
    """Copy one file, and return its size in bytes. A copy of that size from the last hours is reused, if it is large.

    Paths are relative to the locations. ``size`` is the size in the manifest, 0 if the manifest does not record it.
    Raises NotFound for a missing source.
    """
    with reachable(target), reachable(source, path):
        # A copy inside S3 fails if the source is gone; every other copy is checked by its size.
        if not size or not _inside_s3(source, target):
            original = look(source, path)
            if original is None:
                raise _gone(source, path)
            size = original.size
        if size <= _LITTLE and source.is_local and target.uri.startswith("s3://"):
            _upload(source, path, target, target_path, size)
            return size
        there = look(target, target_path)
        if there is not None and there.size == size and time.time() - there.changed < _FRESH:
            return size
        # The source was readable: a later denial concerns the copy.
        with reachable(target, target_path):
            if _inside_s3(source, target) and size <= _ONE_REQUEST:
                _copy_inside_s3(source, path, target, target_path)
                return size
            _copy(source, whole_path(source, path), target, whole_path(target, target_path))
        after = look(target, target_path)
    found_size = None if after is None else after.size
    if found_size != size:
        raise StorageFailure(f"The copy {target.uri}/{target_path} has {found_size} bytes, not {size}.")
    return size


def _upload(source: DatasetLocation, path: str, target: DatasetLocation, target_path: str, size: int) -> None:
    """Upload a small local file in one request, instead of one to look for it, one to write and one to look again.

    S3 stores all bytes of a request or nothing; their number is known before they are sent. An earlier copy has the
    same bytes.
    """
    with open(whole_path(source, path), "rb") as file:
        content = file.read()
    if len(content) != size:
        raise StorageFailure(f"{source.uri}/{path} has {len(content)} bytes, not {size}: it changed while it was read.")
    with reachable(target, target_path):
        ask(target, lambda store: store.pipe_file(whole_path(target, target_path), content))


def copy_placed(source: DatasetLocation, copy: Copy, target: DatasetLocation) -> int:
    """Copy a planned file with its blobs, and return the bytes."""
    size = copy_file(source, copy.path, target, copy.target, copy.size)
    if copy.sidecars:
        directory, beside = copy.path.removesuffix(".lance"), copy.target.removesuffix(".lance")
        for path in files_below(source, directory):
            size += copy_file(source, path, target, beside + path[len(directory) :])
    return size


def files_below(location: DatasetLocation, directory: str) -> Iterator[str]:
    """Paths of all files in a directory, relative to the location; none if it does not exist."""
    root = whole_path(location, "")
    with reachable(location):
        whole = whole_path(location, directory)
        try:
            paths = ask(location, lambda store: store.find(whole))
        except FileNotFoundError:
            return
    yield from (str(path)[len(root) + 1 :] for path in paths)


def _inside_s3(source: DatasetLocation, target: DatasetLocation) -> bool:
    return source.uri.startswith("s3://") and target.uri.startswith("s3://") and source.options == target.options


def _copy_inside_s3(source: DatasetLocation, path: str, target: DatasetLocation, target_path: str) -> None:
    """Copy an object of up to 5 GiB in one request, which creates the whole object or nothing."""
    (bucket, prefix), (from_bucket, from_prefix) = bucket_and_prefix(target), bucket_and_prefix(source)
    try:
        told: dict[str, Any] = {"Bucket": bucket, "Key": prefix + target_path}
        told |= {"CopySource": {"Bucket": from_bucket, "Key": from_prefix + path}}
        ask(target, lambda store: store.call_s3("copy_object", **told))
    except FileNotFoundError:
        raise _gone(source, path) from None


def _gone(source: DatasetLocation, path: str) -> NotFound:
    return NotFound(f"{source.uri}/{path} no longer exists.", hint="Run it again.")


def _copy(source: DatasetLocation, path: str, target: DatasetLocation, target_path: str) -> None:
    if target.is_local:
        directory = target_path.rpartition("/")[0]
        os.makedirs(directory, exist_ok=True)
        # A file under its final name is complete: a killed copy leaves a name that cleanups recognize.
        part = f"{directory}/.tmp{uuid.uuid4().hex}"
        try:
            ask(source, lambda store: store.get_file(path, part))
            os.replace(part, target_path)
        finally:
            if os.path.exists(part):
                os.remove(part)
    elif source.is_local:
        ask(target, lambda store: store.put_file(path, target_path))
    elif _scheme(source) == _scheme(target) and source.options == target.options:
        ask(target, lambda store: store.cp_file(path, target_path))
    else:
        with tempfile.TemporaryDirectory() as directory:
            between = os.path.join(directory, "file")
            ask(source, lambda store: store.get_file(path, between))
            ask(target, lambda store: store.put_file(between, target_path))


def _scheme(location: DatasetLocation) -> str:
    return location.store.partition(":")[0]


# --- Schemas with pylance's field ids, made by pylance itself on a table without rows


def composed(start: LanceSchema, contents: Contents, alter: Callable[[lance.LanceDataset], None]) -> LanceSchema:
    """A schema after the changes that ``alter`` makes to a dataset without rows, whose columns are those of ``start``.

    Field ids of new columns exceed all ids in the version's files, including those of dropped columns: otherwise the
    old values would come back under the new name. So the dataset first gets as many columns as needed.
    """
    import lance

    with tempfile.TemporaryDirectory() as directory:
        columns = lance.LanceOperation.Overwrite(start, [])
        lance.LanceDataset.commit(directory, columns)
        # A new dataset renumbers fields; a replaced one keeps their ids.
        scratch = lance.LanceDataset.commit(directory, columns, read_version=1)
        files = (file for fragment in contents.fragments() for file in fragment.files)
        highest = max((key for file in files for key in file.fields), default=-1)
        missing = highest - max((entry.id for entry in contents.fields), default=-1)
        spare = [f"__spare_{count}" for count in range(max(0, missing))]
        if spare:
            scratch.add_columns(pa.schema([pa.field(name, pa.int8()) for name in spare]))
        alter(scratch)
        if spare:
            scratch.drop_columns(spare)
        return lance.dataset(directory).lance_schema


def flattened(schema: LanceSchema) -> list[Field]:
    """A pylance schema flattened like in a manifest: parents first."""
    fields: list[Field] = []

    def walk(entry: LanceField, parent: int) -> None:
        fields.append(Field(entry.id(), parent, entry.name(), "", True, ()))
        for child in entry.children():
            walk(child, entry.id())

    for column in schema.fields():
        walk(column, -1)
    return fields


def without_dead_files(fragment: dict[str, Any], live: Collection[int]) -> dict[str, Any]:
    """A fragment, as pylance's JSON, without the files of dropped columns, like the result of pylance's own drop.

    pylance treats a fragment with such files as corrupt.
    """
    in_use = [file for file in fragment["files"] if any(key in live for key in file["fields"])]
    return {**fragment, "files": in_use or fragment["files"][:1]}
