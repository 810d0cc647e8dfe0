"""Copies of a version as a dataset of its own, through pylance."""

from __future__ import annotations

from lance_spark.errors import Refused
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
    """A new dataset with copies of the files of one version; the stores may differ.

    Raises Refused for a version on an object store that shares files with another branch or dataset.
    """
    dataset = open_latest(source)
    with translated(target, "making a deep clone"):
        try:
            dataset.deep_clone(target.uri, _reference(pin), target.storage_options)
        except OSError as problem:
            if "empty path segment" not in str(problem):
                raise
            # pylance 14.0.2 takes the URI of the dataset that has the other files for a path; it has written nothing.
            raise Refused(
                f"Version {pin} of {source.uri} has files of the branch or dataset it was made from, and pylance "
                "cannot copy those out of an object store.",
                hint="Write its rows: table.to_df().write.format('lance').mode('append').save(target).",
            ) from None


def _reference(pin: PinnedVersion) -> tuple[str, int]:
    return (pin.branch or MAIN, pin.version)
