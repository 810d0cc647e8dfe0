"""Copies of a version as a dataset of its own, through pylance."""

from __future__ import annotations

from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import MAIN
from lance_spark.store.datasets import open_latest
from lance_spark.store.failures import translated


def shallow_clone(source: DatasetLocation, pin: PinnedVersion, target: DatasetLocation) -> None:
    """A new dataset that shares the source's data files. Both must be in one store; checked by the caller."""
    dataset = open_latest(source)
    with translated(target, "making a shallow clone"):
        dataset.shallow_clone(target.uri, _reference(pin), target.storage_options)


def deep_clone(source: DatasetLocation, pin: PinnedVersion, target: DatasetLocation) -> None:
    """A new dataset with copies of the files of one version; the stores may differ."""
    dataset = open_latest(source)
    with translated(target, "making a deep clone"):
        dataset.deep_clone(target.uri, _reference(pin), target.storage_options)


def _reference(pin: PinnedVersion) -> tuple[str, int]:
    return (pin.branch or MAIN, pin.version)
