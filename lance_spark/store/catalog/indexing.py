"""The indexes of ``__manifest``: made by whoever changes it, and never in the way of a change."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from lance_spark.catalog.entries import INDEXES
from lance_spark.errors import AlreadyExists, Conflict, LanceSparkError
from lance_spark.location import DatasetLocation
from lance_spark.store.catalog.committing import commit
from lance_spark.store.catalog.snapshots import CatalogVersion, newest
from lance_spark.store.failures import translated


def index_if_possible(manifest: DatasetLocation) -> None:
    """The change is committed: whatever happens now must not look as if it were not. The next one tries again."""
    with suppress(LanceSparkError):
        ensure_indexes(manifest)


def ensure_indexes(manifest: DatasetLocation) -> tuple[str, ...]:
    """Make those of the indexes that are missing, in one commit; returns the names of those that were made.

    Another process's commit at the same time comes first: the next change, or the doctor, makes what is missing.
    """
    snapshot = newest(manifest)
    if snapshot is None:
        return ()
    there, columns = index_names(snapshot), snapshot.schema.names
    missing = [index for index in INDEXES if index[0] not in there and index[1] in columns]
    try:
        with translated(manifest, "making the catalog's indexes"):
            _index(snapshot, missing)
    except (Conflict, AlreadyExists):
        return ()
    return tuple(name for name, _, _ in missing)


def _index(snapshot: CatalogVersion, missing: Sequence[tuple[str, str, str]]) -> None:
    import lance

    dataset = snapshot.dataset
    fragments = [fragment.fragment_id for fragment in dataset.get_fragments()]
    if not fragments:  # pylance makes an index on nothing only one by one
        for name, column, kind in missing:
            lance.dataset(dataset.uri, storage_options=snapshot.manifest.storage_options).create_scalar_index(
                column, kind, name=name, replace=False
            )
    elif missing:
        made = [
            dataset.create_index_uncommitted(column, kind, name=name, fragment_ids=fragments)
            for name, column, kind in missing
        ]
        commit(snapshot, lance.LanceOperation.CreateIndex(made, []), [], "index the catalog")


def index_names(snapshot: CatalogVersion) -> frozenset[str]:
    """Names of the indexes a version has."""
    with translated(snapshot.manifest, "reading the indexes"):
        return frozenset(index.name for index in snapshot.dataset.describe_indices())


def has_indexes(snapshot: CatalogVersion) -> bool:
    """Whether a version has all indexes that its columns allow."""
    names = index_names(snapshot)
    return all(name in names or column not in snapshot.schema.names for name, column, _ in INDEXES)
