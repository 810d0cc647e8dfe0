"""A new dataset, with the columns of a file or of another table."""

from __future__ import annotations

import pyarrow as pa

from lance_spark.errors import AlreadyExists, SchemaMismatch
from lance_spark.location import DatasetLocation
from lance_spark.store.creating import create_dataset
from lance_spark.store.datasets import find_latest
from lance_spark.store.schemas import read_schema_of
from lance_spark.write.plan import check_names


def plan_init(location: DatasetLocation, source: DatasetLocation | None) -> pa.Schema:
    """The columns a new dataset would have; none without a source.

    Raises AlreadyExists for a dataset that is there, and what :func:`read_schema_of` raises.
    """
    if find_latest(location, None) is not None:
        raise AlreadyExists(f"There is a dataset at {location.uri} already.", hint="Choose another place.")
    if source is None:
        return pa.schema([])
    schema = read_schema_of(source)
    try:
        check_names(schema, new=True)
    except SchemaMismatch as problem:
        raise SchemaMismatch(f"{source.uri}: {problem.message}", hint="Rename or drop the column there.") from None
    return schema


def init_dataset(location: DatasetLocation, schema: pa.Schema) -> int:
    """Create the dataset, without rows; returns its first version. Raises AlreadyExists."""
    return create_dataset(location, schema)
