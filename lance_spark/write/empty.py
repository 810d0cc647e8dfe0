"""Datasets and versions with columns but no rows."""

from __future__ import annotations

import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.core.table_options import WriteOptions
from lance_spark.storage.commits import check_writable, create_dataset, overwrite_without_rows
from lance_spark.storage.datasets import pin_latest
from lance_spark.write.pylance import read_target, storage_schema
from lance_spark.write.rules import check_names, check_replaces


def write_without_rows(
    location: DatasetLocation, branch: str | None, schema: pa.Schema, options: WriteOptions, new: bool
) -> None:
    """Create a dataset; or give a branch (None for main) other columns and no rows, as one version.

    Raises SchemaMismatch; AlreadyExists if a ``new`` dataset exists; and otherwise NotFound, Conflict, and Refused for
    another file format or other row ids.
    """
    check_names(schema, new=True)
    if new:
        version = options.files.data_storage_version
        settings = {"data_storage_version": version, "enable_stable_row_ids": bool(options.enable_stable_row_ids)}
        create_dataset(location, storage_schema(schema, version), **settings)
        return
    check_writable(location, branch)
    start = pin_latest(location, branch)
    target = read_target(location, start)
    check_replaces(target, options)
    stored = storage_schema(schema, target.data_storage_version)
    overwrite_without_rows(location, start, stored, options.commit_message)
