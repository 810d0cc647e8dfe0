"""Deletes rows by a predicate through pylance: fragment by fragment, then one commit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from lance_spark.location import DatasetLocation
from lance_spark.manifest.transactions import MESSAGE
from lance_spark.refs.model import PinnedVersion
from lance_spark.store.commits import commit_on
from lance_spark.store.datasets import open_pinned
from lance_spark.store.failures import translated
from lance_spark.store.fragment_json import fragments_from

DELETIONS = pa.schema([("fragment", pa.int64()), ("rows", pa.int64()), ("metadata", pa.string())])
"""A fragment that was looked into, how many of its rows match, and what it is without them, as pylance's JSON; null
where no row is left, or none matched."""


class DeletionItem(NamedTuple):
    """A fragment of which rows are deleted; runs on executors."""

    location: DatasetLocation
    pin: PinnedVersion
    fragment: int
    predicate: str


def delete_in_fragment(item: DeletionItem) -> Iterator[pa.RecordBatch]:
    """DELETIONS of one fragment: pylance writes a deletion file, which nobody reads before the commit."""
    dataset = open_pinned(item.location, item.pin)
    with translated(item.location, "deleting rows"):
        fragment = dataset.get_fragment(item.fragment)
        before = fragment.count_rows()
        left = fragment.delete(item.predicate)
        found = None if left is None else left.to_json()
    deletion = None if found is None else found["deletion_file"]
    after = 0 if found is None else fragment.physical_rows - (deletion["num_deleted_rows"] if deletion else 0)
    metadata = json.dumps(found) if found is not None and after < before else None
    yield pa.record_batch([pa.array([item.fragment]), pa.array([before - after]), pa.array([metadata])], DELETIONS)


def commit_deletions(
    location: DatasetLocation,
    pin: PinnedVersion,
    predicate: str,
    deleted: Mapping[int, str | None],
    message: str | None = None,
) -> PinnedVersion:
    """Commit what :func:`delete_in_fragment` found, by fragment. Raises Conflict; then nothing was committed."""
    import lance

    updated: list[Any] = [json.loads(metadata) for metadata in deleted.values() if metadata is not None]
    removed = [fragment for fragment, metadata in deleted.items() if metadata is None]
    operation = lance.LanceOperation.Delete(fragments_from(updated), removed, predicate)
    return commit_on(location, pin, operation, {MESSAGE: message} if message else None)
