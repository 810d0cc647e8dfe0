"""The one door for commits that replace rows, files or indexes: on a version that was read, with nothing unseen since.

pylance tells such a commit of conflicts by the versions between the one that was read and the newest. One that a
cleanup removed in between it passes over without a word, and what that version deleted comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lance_spark.errors import Conflict, NotFound
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import MAIN
from lance_spark.store.datasets import pin_version
from lance_spark.store.failures import translated
from lance_spark.store.version_listing import newest_first


def commit_on(
    location: DatasetLocation,
    read: PinnedVersion,
    operation: Any,
    properties: Mapping[str, str] | None = None,
    retries: int = 0,
) -> PinnedVersion:
    """Commit one of pylance's operations that was made for a version of a branch; returns the new version.

    ``retries`` is how often pylance tries again when another commit took the number meanwhile.

    Raises Conflict when a version committed since cannot be combined with it, or is missing, or the one that was read
    is another one by now; then nothing was committed.
    """
    import lance
    from lance.dataset import Transaction

    if read.stamp is not None:
        check_still_there(location, read)
    check_nothing_missing(location, read)
    with translated(location, "committing"):
        dataset = lance.LanceDataset.commit(
            location.branch_uri(read.branch),
            Transaction(read.version, operation, transaction_properties=dict(properties or {})),
            storage_options=location.storage_options,
            max_retries=retries,
        )
    return PinnedVersion(read.branch, int(dataset.version))


def check_still_there(location: DatasetLocation, start: PinnedVersion) -> None:
    """Raise Conflict when the version a job started from is gone, or is another dataset's by now.

    Into a dataset that was made anew in the same place pylance would commit files that went with the old one.
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
    """Raise Conflict if a version between one that was read and the newest of its branch is not there any more."""
    newer = [version for version, _ in newest_first(location, read.branch, above=read.version)]
    missing = sorted({*range(read.version + 1, max(newer, default=0))}.difference(newer))
    if missing:
        few = ", ".join(map(str, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise Conflict(
            f"Version {few} of branch '{read.branch or MAIN}' of {location.uri} was committed and cleaned up since "
            f"version {read.version} was read: what it changed is not known. Nothing was changed.",
            hint="Run it again. Let cleanups keep the versions of the longest job: --commit-window (1d by default).",
        )
