"""What a killed creation of a branch leaves behind: the branch's first manifest, and no ref file."""

from __future__ import annotations

import time

from lance_spark.layout.key_ranges import KeyRange
from lance_spark.layout.names import VERSIONS, branch_root
from lance_spark.location import DatasetLocation
from lance_spark.refs.names import is_dataset_directory
from lance_spark.store import files

GRACE = 60
"""Seconds for which another process may still be about to write the ref file: it takes a few requests."""


def clear_unfinished(location: DatasetLocation, name: str) -> bool:
    """Remove what a killed creation left of a branch that has no ref file; False where it may be something else.

    That is one manifest and transactions, which hold nothing that the branch's parent does not have. Anything else may
    be data of a deleted branch, and anything younger than :data:`GRACE` a branch of another job; both stay.
    """
    from lance_spark.store.listing import list_range  # pulls in pyarrow, for which commands do not wait

    root = branch_root(name)
    files_there: list[tuple[str, int | None]] = []
    for batch in list_range(location, KeyRange.below(root.rstrip("/"))):
        paths, times = batch["path"].to_pylist(), batch["last_modified"].cast("int64").to_pylist()
        files_there += [(path[len(root) :], moment) for path, moment in zip(paths, times, strict=True)]
    own = [(path, moment) for path, moment in files_there if is_dataset_directory(path.partition("/")[0])]
    oldest = (time.time() - GRACE) * 1_000_000
    if any(moment is None or moment > oldest for _, moment in own):
        return False
    if any(path.partition("/")[0] not in (VERSIONS, "_transactions") for path, _ in own):
        return False
    if sum(path.endswith(".manifest") for path, _ in own) > 1:
        return False
    # The manifest goes first: without it the rest does not look like a branch, should this process be killed as well.
    files.delete(location, [root + path for path, _ in sorted(own, reverse=True)])
    return True
