"""Commits versions without fragments that cannot be read, and tells the versions that repairs made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lance_spark.checkup.record import PROPERTY
from lance_spark.location import DatasetLocation
from lance_spark.manifest.transactions import Transaction
from lance_spark.refs.model import PinnedVersion
from lance_spark.store.commits import commit_on
from lance_spark.store.version_listing import version_numbers
from lance_spark.store.version_reader import read_transaction

RESTORED = "restored"


def leave_out(
    location: DatasetLocation, head: PinnedVersion, fragments: Sequence[int], properties: Mapping[str, str]
) -> PinnedVersion:
    """A version in which all rows of some fragments are deleted, without reading any of them. Raises Conflict."""
    import lance

    operation = lance.LanceOperation.Delete([], list(fragments), "a repair left out what cannot be read")
    return commit_on(location, head, operation, properties)


def versions_after(location: DatasetLocation, branch: str | None, version: int) -> dict[int, str]:
    """The versions of a branch after one, and by which repair each was made.

    RESTORED for one that made an older version the newest again, "" for one of somebody else.
    """
    found = {}
    for number in version_numbers(location, branch):
        if number > version:
            transaction = read_transaction(location, PinnedVersion(branch, number))
            found[number] = "" if transaction is None else _maker(transaction)
    return found


def _maker(transaction: Transaction) -> str:
    return RESTORED if transaction.operation == "Restore" else transaction.properties.get(PROPERTY, "")
