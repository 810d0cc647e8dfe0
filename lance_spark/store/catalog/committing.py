"""Commits to ``__manifest`` on just the version that a change was decided on."""

from __future__ import annotations

from typing import Any

from lance_spark.errors import Conflict
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import files
from lance_spark.store.catalog.snapshots import CatalogVersion, newest
from lance_spark.store.commits import check_nothing_missing
from lance_spark.store.failures import translated


def commit(snapshot: CatalogVersion, operation: Any, added: list[Any], doing: str) -> None:
    """Commit on just this version. Without retries both kinds of operation are refused if any other came in between.

    Not so if a cleanup removed the one in between: pylance does not look at it, and writes an overwrite in its place,
    below the newest version, where it is never seen.
    """
    import lance

    try:
        check_nothing_missing(snapshot.manifest, PinnedVersion(None, snapshot.version))
        with translated(snapshot.manifest, doing):
            lance.LanceDataset.commit(
                snapshot.dataset,
                operation,
                read_version=snapshot.version,
                storage_options=snapshot.manifest.storage_options,
                max_retries=0,
                commit_message=doing,
            )
    except Conflict:
        _delete_unused(snapshot.manifest, {file.path for fragment in added for file in fragment.files})
        raise


def _delete_unused(manifest: DatasetLocation, paths: set[str]) -> None:
    """Delete what was written for a commit that was refused, unless it arrived all the same.

    A client that lost the store's answer tries again, and is told that its version is there already: by itself.
    """
    snapshot = newest(manifest)
    if snapshot is not None and paths:
        held = {file.path for fragment in snapshot.dataset.get_fragments() for file in fragment.metadata.files}
        files.delete(manifest, (f"data/{path}" for path in sorted(paths - held)))
