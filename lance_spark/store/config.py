"""A dataset's configuration, changed through pylance; each change is a version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lance_spark.location import DatasetLocation
from lance_spark.store.datasets import open_latest
from lance_spark.store.failures import translated


def update_config(location: DatasetLocation, branch: str | None, values: Mapping[str, str]) -> None:
    """Set keys on a branch."""
    dataset = open_latest(location, branch)
    with translated(location, "changing the configuration"):
        dataset.update_config(dict(values))


def delete_config(location: DatasetLocation, branch: str | None, keys: Iterable[str]) -> None:
    """Remove those of the keys that are set on a branch."""
    dataset = open_latest(location, branch)
    with translated(location, "changing the configuration"):
        present = [key for key in keys if key in dataset.config()]
        if present:
            dataset.delete_config_keys(present)
