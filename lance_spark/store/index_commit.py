"""Commits that segments of indexes come and go, and deletes those that were never committed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from lance_spark.errors import StorageFailure
from lance_spark.location import DatasetLocation
from lance_spark.manifest.indexes import IndexRecord, decode_indexes
from lance_spark.manifest.transactions import MESSAGE
from lance_spark.refs.model import PinnedVersion
from lance_spark.show.moments import EPOCH
from lance_spark.store import files
from lance_spark.store.commits import commit_on
from lance_spark.store.version_reader import read_manifest


def commit_segments(
    location: DatasetLocation,
    head: PinnedVersion,
    new: Iterable[Any],
    removed: Collection[str],
    message: str | None = None,
) -> PinnedVersion:
    """Let a branch have new segments, pylance's descriptions, and not have those of these ids any more. One version.

    Their files stay where they are: older versions, and other branches, read them. Raises Conflict.
    """
    gone = [as_index(record) for record in _records(location, head) if record.uuid in removed]
    return _commit(location, head, list(new), gone, {MESSAGE: message} if message else {})


def commit_indexes(
    location: DatasetLocation,
    head: PinnedVersion,
    new: Iterable[IndexRecord],
    removed: Iterable[IndexRecord],
    properties: Mapping[str, str],
) -> PinnedVersion:
    """Register segments of indexes whose files are there, and take others out. Raises Conflict.

    pylance lets a segment forget fragments that another commit changed meanwhile.
    """
    return _commit(
        location, head, [as_index(index) for index in new], [as_index(index) for index in removed], properties
    )


def _commit(
    location: DatasetLocation, head: PinnedVersion, new: list[Any], removed: list[Any], properties: Mapping[str, str]
) -> PinnedVersion:
    import lance

    return commit_on(location, head, lance.LanceOperation.CreateIndex(new, removed), properties)


def discard_segments(location: DatasetLocation, branch: str | None, uuids: Iterable[str]) -> None:
    """Delete segments that no version names. What cannot be deleted now is a cleanup's."""
    with suppress(StorageFailure):
        delete_segments(location, branch, uuids)


def delete_segments(location: DatasetLocation, branch: str | None, uuids: Iterable[str]) -> None:
    """Delete segments that no version names. Raises StorageFailure."""
    root = DatasetLocation(location.branch_uri(branch), location.options)
    files.delete(root, [f"_indices/{uuid}" for uuid in uuids])


def as_index(record: IndexRecord) -> Any:
    """An index as pylance takes it."""
    from lance.dataset import Index, IndexFile

    made = None if record.created_at is None else EPOCH + timedelta(milliseconds=record.created_at)
    return Index(
        uuid=record.uuid,
        name=record.name,
        fields=list(record.fields),
        dataset_version=record.dataset_version,
        fragment_ids=set(record.fragments or ()),
        index_version=record.index_version,
        created_at=made,
        base_id=record.base_id,
        files=[IndexFile(path, size) for path, size in record.files] or None,
        index_details=record.details,
        covering_fields=list(record.covering_fields),
    )


def _records(location: DatasetLocation, pin: PinnedVersion) -> tuple[IndexRecord, ...]:
    return decode_indexes(read_manifest(location, pin))
