"""Copies of a version as a new dataset, through pylance."""

from __future__ import annotations

import json
from hashlib import sha256

from lance_spark.errors import Refused
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import files, small_files
from lance_spark.store.datasets import open_latest
from lance_spark.store.failures import translated
from lance_spark.store.survey import CLONES, RECORD


def shallow_clone(source: DatasetLocation, pin: PinnedVersion, target: DatasetLocation) -> None:
    """A new dataset that shares the source's data files. Both must be in one store; checked by the caller."""
    dataset = open_latest(source)
    with translated(target, "making a shallow clone"):
        dataset.shallow_clone(target.uri, pin.reference, target.storage_options)


def record_name(target: DatasetLocation) -> str:
    """Name of the tag, and of the record, that protect what a clone needs."""
    return f"clone-{sha256(target.uri.encode()).hexdigest()[:16]}"


def write_record(source: DatasetLocation, target: DatasetLocation, pin: PinnedVersion) -> None:
    """Note down in the source where a clone of it is."""
    content = {"uri": target.uri, "branch": pin.branch, "version": pin.version}
    directory = DatasetLocation(f"{source.uri}/{CLONES}", source.options)
    # In one step: a cleanup that finds half of a record stops.
    small_files.write_file(directory, f"{record_name(target)}{RECORD}", json.dumps(content).encode())


def delete_record(source: DatasetLocation, target: DatasetLocation) -> None:
    """Forget a clone that failed."""
    files.delete(source, [f"{CLONES}/{record_name(target)}{RECORD}"])


def deep_clone(source: DatasetLocation, pin: PinnedVersion, target: DatasetLocation) -> None:
    """A new dataset with copies of the files of one version; the stores may differ.

    Raises Refused for a version on an object store that shares files with another branch or dataset.
    """
    dataset = open_latest(source)
    with translated(target, "making a deep clone"):
        try:
            dataset.deep_clone(target.uri, pin.reference, target.storage_options)
        except OSError as problem:
            if "empty path segment" not in str(problem):
                raise
            # pylance 14.0.2 takes the URI of the dataset with the other files for a path; it has written nothing.
            raise Refused(
                f"Version {pin} of {source.uri} has files of the branch or dataset it was made from, and pylance "
                "cannot copy those out of an object store.",
                hint="Write its rows: table.to_df().write.format('lance').mode('append').save(target).",
            ) from None
