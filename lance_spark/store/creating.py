"""Creates a dataset without rows, through pylance."""

from __future__ import annotations

import pyarrow as pa

from lance_spark.location import DatasetLocation
from lance_spark.store.failures import translated


def create_dataset(location: DatasetLocation, schema: pa.Schema) -> int:
    """Create a dataset with these columns and no rows; returns its first version. Raises AlreadyExists."""
    import lance

    with translated(location, "creating the dataset"):
        dataset = lance.write_dataset(
            schema.empty_table(), location.uri, mode="create", storage_options=location.storage_options
        )
    return int(dataset.version)
