"""The one door for commits that replace rows, files or indexes: no version since the one that was read is unseen.

pylance finds conflicts of such a commit in the versions between the one that was read and the newest one. A version
that a cleanup removed in between is silently skipped, and the rows that it deleted come back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lance_spark import hints
from lance_spark.errors import Conflict, NotFound
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import MAIN
from lance_spark.store.datasets import pin_version
from lance_spark.store.failures import translated
from lance_spark.store.protection import check_commit
from lance_spark.store.version_listing import newest_first


def commit_on(
    location: DatasetLocation,
    read: PinnedVersion,
    operation: Any,
    properties: Mapping[str, str] | None = None,
    retries: int = 0,
) -> PinnedVersion:
    """Commit an operation of pylance that was prepared on a version of a branch; returns the new version.

    ``retries`` is how often pylance tries again when another commit took the number meanwhile.

    Raises Refused for what a protected branch does not take, and Conflict when a version committed since then cannot be
    combined with the operation, or is missing, or when the version that was read was replaced; then nothing was
    committed.
    """
    import lance
    from lance.dataset import Transaction

    if read.stamp is not None:
        check_still_there(location, read)
    check_nothing_missing(location, read)
    check_commit(location, read.branch, operation, properties or {})
    with translated(location, "committing"):
        dataset = lance.LanceDataset.commit(
            location.branch_uri(read.branch),
            Transaction(read.version, operation, transaction_properties=dict(properties or {})),
            storage_options=location.storage_options,
            max_retries=retries,
        )
    return PinnedVersion(read.branch, int(dataset.version))


def check_still_there(location: DatasetLocation, start: PinnedVersion) -> None:
    """Raise Conflict when the version that a job started from is gone, or now belongs to another dataset.

    Into a dataset that was created again in the same place, pylance would commit files that went with the old dataset.
    """
    try:
        same = pin_version(location, start.branch, start.version) == start
    except NotFound:
        same = False
    if not same:
        raise Conflict(
            f"Version {start} of {location.uri}, which the job started from, is not there any more: it was cleaned "
            "up, or its branch or the whole dataset was deleted.",
            hint="Run it again.",
        )


def check_nothing_missing(location: DatasetLocation, read: PinnedVersion) -> None:
    """Raise Conflict if a version between the one that was read and the newest one is not there any more."""
    newer = [version for version, _ in newest_first(location, read.branch, above=read.version)]
    missing = sorted({*range(read.version + 1, max(newer, default=0))}.difference(newer))
    if missing:
        few = ", ".join(map(str, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise Conflict(
            f"Version {few} of branch '{read.branch or MAIN}' of {location.uri} was committed and cleaned up since "
            f"version {read.version} was read: what it changed is not known. Nothing was changed.",
            hint=hints.of(
                "Run it again. Let cleanups keep the versions of the longest job: ",
                hints.COMMIT_WINDOW,
                " (1d by default).",
            ),
        )
