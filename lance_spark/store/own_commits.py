"""Tells a commit of one's own from those of others: one whose answer was lost ends as a conflict with itself."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

from lance_spark.location import DatasetLocation
from lance_spark.manifest.transactions import MESSAGE
from lance_spark.refs.model import PinnedVersion
from lance_spark.store.version_listing import newest_first
from lance_spark.store.version_reader import read_transactions

CALL = "lance_spark.call"
"""Property of a version: which call made it."""


def own_properties(message: str | None = None) -> dict[str, str]:
    """Properties for all attempts of one call, by which its commit is known."""
    return {CALL: uuid4().hex, **({MESSAGE: message} if message else {})}


def find_own(location: DatasetLocation, read: PinnedVersion, properties: Mapping[str, str]) -> PinnedVersion | None:
    """The version after ``read`` that a call with these properties made; None if there is none.

    To be asked after a conflict: tried again, rows would be appended twice, or an update made on top of itself.
    """
    return find_noted(location, read, CALL, properties[CALL])


def find_noted(location: DatasetLocation, read: PinnedVersion, key: str, value: str) -> PinnedVersion | None:
    """The version after ``read`` whose writer noted that value of a property; None if there is none."""
    versions = [version for version, _ in newest_first(location, read.branch, above=read.version)]
    for version, transaction in read_transactions(location, read.branch, versions).items():
        if transaction is not None and transaction.properties.get(key) == value:
            return PinnedVersion(read.branch, version)
    return None
