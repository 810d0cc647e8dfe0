"""Objects elsewhere that blobs refer to: what is there, and their bytes. With storage options of their own, if given.

Nothing here writes or deletes: these objects belong to somebody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from lance_spark.core.location import DatasetLocation
from lance_spark.core.storage_options import for_blobs, settled_endpoint
from lance_spark.errors import CorruptData, LanceSparkError, NotFound
from lance_spark.format.blob_references import BlobReference
from lance_spark.storage import files

AT_ONCE = 8
"""Objects that are read at the same time."""
_LOST = "Restore the object, or give these rows another blob. A deep check lists all that are gone."


class StoredObject(NamedTuple):
    """What a store says about an object."""

    size: int
    """Bytes."""
    tag: str
    """Another one if the object was written again: its ETag, or on a local disk the time of its last change."""


def has_own_options(location: DatasetLocation) -> bool:
    """Whether objects elsewhere have other storage options than the table: pylance knows only the table's."""
    return bool(for_blobs(location.storage_options))


def place_of(location: DatasetLocation, address: str) -> DatasetLocation:
    """An object as a place of its own, with the storage options that open it."""
    options = for_blobs(location.storage_options) or location.storage_options
    return DatasetLocation.at(address, settled_endpoint(options) if address.startswith("s3://") else options)


def look(location: DatasetLocation, address: str) -> StoredObject | None:
    found = files.look(place_of(location, address))
    return None if found is None else StoredObject(found.size, found.tag)


def look_many(location: DatasetLocation, addresses: Sequence[str]) -> dict[str, StoredObject | str | None]:
    """What is at each address, or why the store did not say. Runs on executors."""
    found = files.each(_any_store(location, addresses), partial(_look_or_why, location), addresses)
    return dict(zip(addresses, found, strict=True))


def _look_or_why(location: DatasetLocation, address: str) -> StoredObject | str | None:
    try:
        return look(location, address)
    except LanceSparkError as problem:
        return problem.message


def _any_store(location: DatasetLocation, addresses: Sequence[str]) -> DatasetLocation:
    """A place that says whether asking many at once is worth a thread each."""
    return place_of(location, next((each for each in addresses if "://" in each), location.uri))


def read(location: DatasetLocation, reference: BlobReference, start: int = 0, size: int | None = None) -> bytes:
    """The bytes of a blob elsewhere, or some of them: ``start`` and ``size`` count in the blob.

    Raises NotFound for an object that is gone, CorruptData for one that ends too early.
    """
    place = place_of(location, reference.address)
    left = None if not reference.size else max(0, reference.size - start)
    wanted = left if size is None else size if left is None else min(size, left)
    if wanted == 0:
        return b""
    first = reference.position + start
    with files.reachable(place):
        try:
            content = _local(reference.address, first, wanted) if place.is_local else _range(place, first, wanted)
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"The object {reference.address}, to which a blob refers, is gone.", hint=_LOST) from None
    if reference.size and wanted is not None and len(content) < wanted:
        raise CorruptData(
            f"The object {reference.address} ends before the range that a blob refers to: bytes {reference.position:,} "
            f"to {reference.position + reference.size:,}. It was replaced.",
            hint=_LOST,
        )
    return content


def _local(path: str, first: int, size: int | None) -> bytes:
    with open(path, "rb") as file:
        file.seek(first)
        return file.read(-1 if size is None else size)


def _range(place: DatasetLocation, first: int, size: int | None) -> bytes:
    end = None if size is None else first + size
    whole = files.whole_path(place, "")
    try:
        content: bytes = files.ask(place, lambda store: store.cat_file(whole, start=first or None, end=end))
    except (FileNotFoundError, NotADirectoryError):
        raise
    except Exception as problem:
        if "InvalidRange" in f"{problem} {problem.__cause__}" or "416" in str(problem):
            return b""  # the object ends before
        raise
    return content


def read_many(location: DatasetLocation, references: Sequence[BlobReference | None]) -> list[bytes | None]:
    """The bytes of many blobs elsewhere, in order."""
    addresses = [one.address for one in references if one is not None]

    def one(reference: BlobReference | None) -> bytes | None:
        return None if reference is None else read(location, reference)

    return files.each(_any_store(location, addresses), one, references, AT_ONCE)
