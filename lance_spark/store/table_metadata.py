"""The key-value pairs that users keep with a dataset, through pylance; each change is a version."""

from __future__ import annotations

from collections.abc import Mapping

from lance_spark.location import DatasetLocation
from lance_spark.store.datasets import open_latest
from lance_spark.store.failures import translated
from lance_spark.store.protection import check_unprotected


def read_table_metadata(location: DatasetLocation, branch: str | None) -> dict[str, str]:
    """The pairs of the newest version of a branch."""
    dataset = open_latest(location, branch)
    with translated(location, "reading the metadata"):
        return dict(dataset.metadata)


def change_table_metadata(location: DatasetLocation, branch: str | None, values: Mapping[str, str | None]) -> None:
    """Set pairs on a branch, and remove those whose value is None. Others stay as they are."""
    check_unprotected(location, branch)
    dataset = open_latest(location, branch)
    with translated(location, "changing the metadata"):
        dataset.update_metadata(dict(values))
