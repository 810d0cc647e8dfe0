"""Moves files of a dataset to its quarantine and back, and keeps the records of repairs. Copies first, deletes last.

A file counts as moved once its complete copy exists. So a crash leaves the file in its place, in the quarantine, or in
both; it is never lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from lance_spark.core.layout import QUARANTINE
from lance_spark.core.location import DatasetLocation
from lance_spark.core.records.repair_record import RECORD, Digest, Kept, RepairRecord, read_record
from lance_spark.errors import Conflict, NotFound, StorageFailure
from lance_spark.storage import files
from lance_spark.storage.deleting import delete_batch, deletion_failure, remove_empty_directories
from lance_spark.storage.small_files import write_below


def digest_of(path: str, content: bytes) -> Digest:
    return Digest(path, len(content), hashlib.sha256(content).hexdigest())


def look_at_file(location: DatasetLocation, path: str) -> Digest | None:
    """The digest of a file now; None if it does not exist."""
    content = files.read(location, path)
    return None if content is None else digest_of(path, content)


def keep(location: DatasetLocation, kept: Kept) -> None:
    """Copy a file to the quarantine. Raises Conflict if it has changed."""
    content = files.read(location, kept.file.path)
    if content is None or digest_of(kept.file.path, content) != kept.file:
        raise Conflict(f"{kept.file.path} was changed or removed after the check.", hint="Check the dataset again.")
    write_below(location, kept.to, content)
    if look_at_file(location, kept.to) != Digest(kept.to, kept.file.size, kept.file.sha256):
        raise StorageFailure(f"{kept.to} does not hold what was written to it.", hint="Nothing was removed.")


def take_away(location: DatasetLocation, moved: Sequence[Kept]) -> None:
    """Move files to the quarantine, all or none. Raises Conflict like :func:`keep`; then all are in their places.

    A skipped step reports that nothing was done, and its copies are removed with its record. If the first file had been
    deleted by then, it would be lost.
    """
    for kept in moved:
        keep(location, kept)
    for kept in moved:
        remove(location, kept.file.path)


def put_back(location: DatasetLocation, kept: Kept) -> None:
    """Write a file back to its place. The copy stays until the record is removed. Does nothing without a copy."""
    content = files.read(location, kept.to)
    if content is not None and look_at_file(location, kept.file.path) != kept.file:
        write_below(location, kept.file.path, content)


def remove(location: DatasetLocation, path: str) -> None:
    """Delete one file. Raises StorageFailure if that fails."""
    failure = deletion_failure(f"{{}} of {location.uri} could not be removed", [delete_batch(location, [path])])
    if failure is not None:
        raise failure


def write_record(location: DatasetLocation, record: RepairRecord) -> None:
    """Store a record before anything is changed."""
    write_below(location, record.path, record.to_json().encode())


def list_records(location: DatasetLocation) -> list[str]:
    """Ids of the repairs that can be undone, oldest first."""
    names = files.list_names(location, QUARANTINE)
    return [name for name in names if files.exists(location, f"{QUARANTINE}/{name}/{RECORD}")]


def load_record(location: DatasetLocation, name: str) -> RepairRecord:
    """A record by its id; ``last`` for the newest one. Raises NotFound, CorruptData."""
    known = list_records(location)
    chosen = known[-1] if name == "last" and known else name
    content = files.read(location, f"{QUARANTINE}/{chosen}/{RECORD}") if chosen in known else None
    if content is None:
        hint = f"There are {', '.join(known)}." if known else "Nothing was repaired here, or every repair was undone."
        raise NotFound(f"{location.uri}/{QUARANTINE} has no record of a repair '{name}'.", hint=hint)
    return read_record(content)


def holds_the_only_copy(location: DatasetLocation, record: RepairRecord) -> bool:
    """Whether a file that a repair keeps is missing from its place."""
    return any(
        look_at_file(location, kept.file.path) is None and look_at_file(location, kept.to) is not None
        for kept in record.kept()
    )


def forget_record(location: DatasetLocation, record: RepairRecord) -> None:
    """Remove a record with its copies, the record last."""
    for kept in record.kept():
        remove(location, kept.to)
    remove(location, record.path)
    remove_empty_directories(location, [record.directory, QUARANTINE])
