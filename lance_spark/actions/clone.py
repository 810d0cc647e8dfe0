"""Cloning a version to a place of its own."""

from __future__ import annotations

from lance_spark.errors import AlreadyExists, Refused
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import clones
from lance_spark.store.datasets import find_latest


def shallow_clone(source: DatasetLocation, pin: PinnedVersion, target: DatasetLocation) -> None:
    """Clone metadata only. Raises Refused for another store and AlreadyExists for a target in use.

    pylance 14.0.2 writes a clone that should go to another bucket into the source's bucket, under the target's
    key, and then fails to open it (research/format.md section 4); so that is refused before anything is written.
    """
    if source.store != target.store:
        raise Refused(
            f"A shallow clone cannot leave its store: the source is in {source.store}, the target in {target.store}.",
            hint="Use deep_clone(), which copies the data, or a target in the same bucket.",
        )
    _check_free(target)
    clones.shallow_clone(source, pin, target)


def deep_clone(source: DatasetLocation, pin: PinnedVersion, target: DatasetLocation) -> None:
    """Clone one version with its data. Raises AlreadyExists for a target in use."""
    _check_free(target)
    clones.deep_clone(source, pin, target)


def _check_free(target: DatasetLocation) -> None:
    if find_latest(target, None) is not None:
        raise AlreadyExists(f"There is a dataset at {target.uri} already.", hint="Choose another target.")
