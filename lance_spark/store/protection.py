"""Whether a branch is protected, looked up at the moment it matters."""

from __future__ import annotations

from collections.abc import Mapping

from lance_spark.location import DatasetLocation
from lance_spark.merge.protection import may_commit, protected_refused
from lance_spark.refs.lifetime import read_lifetime
from lance_spark.refs.names import MAIN
from lance_spark.store.refs import read_branches, read_main, read_metadata


def check_unprotected(location: DatasetLocation, branch: str | None) -> None:
    """Raise Refused for a branch (None for main) that is protected. One that does not exist passes."""
    if read_lifetime(read_metadata(location, branch) or {}).protected:
        raise protected_refused(branch)


def protected_branches(location: DatasetLocation) -> list[str]:
    """Names of the protected branches, main among them. Raises CorruptData for a ref that cannot be understood."""
    main = [MAIN] if read_lifetime(read_main(location)).protected else []
    return main + sorted(name for name, ref in read_branches(location).branches.items() if ref.lifetime.protected)


def check_commit(
    location: DatasetLocation, branch: str | None, operation: object, properties: Mapping[str, str]
) -> None:
    """Raise Refused for an operation that a protected branch does not take; right before it is committed.

    A job may run for hours after it was planned. The protection may have come meanwhile.
    """
    if not may_commit(operation, properties):
        check_unprotected(location, branch)
