"""Creates datasets, and versions, without rows, through pylance."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lance_spark.location import DatasetLocation
from lance_spark.manifest.transactions import MESSAGE
from lance_spark.refs.model import PinnedVersion
from lance_spark.store.commits import commit_on
from lance_spark.store.failures import translated


def create_dataset(location: DatasetLocation, schema: pa.Schema, **arguments: Any) -> int:
    """Create a dataset with these columns and no rows; returns its first version. Raises AlreadyExists.

    ``arguments`` are pylance's. This is not atomic as a commit is: of two jobs that create the dataset at the same
    time, the later one may win. The other's version stays in the history.
    """
    import lance

    with translated(location, "creating the dataset"):
        dataset = lance.write_dataset(
            schema.empty_table(), location.uri, mode="create", storage_options=location.storage_options, **arguments
        )
    return int(dataset.version)


def overwrite_without_rows(
    location: DatasetLocation, start: PinnedVersion, schema: pa.Schema, message: str | None = None
) -> PinnedVersion:
    """Commit a version with these columns and no rows on one that was read; older versions keep theirs.

    Settings, metadata and tags stay, indexes go. Raises Conflict; then nothing was committed.
    """
    import lance

    operation = lance.LanceOperation.Overwrite(schema, [])
    return commit_on(location, start, operation, {MESSAGE: message} if message else None)
