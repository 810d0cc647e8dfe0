"""Records of versions that brought rows which other branches may have: they outlive the versions.

A cherry-pick, a revert and a restore put the same rows into two branches, although neither holds everything of the
other. The version itself records that, but any cleanup removes versions, pylance's too. If rows were rewritten since,
nothing else shows that they are on both sides, and a merge would double them. So each such commit leaves a small file
in the directory of its branch. It is written before the commit: a process that is killed leaves one record too many,
never one too few.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from contextlib import suppress
from hashlib import sha256
from uuid import uuid4

from lance_spark.core import layout
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import LanceSparkError, StorageFailure, may_have_happened
from lance_spark.storage import files, refs


def recorded(location: DatasetLocation, read: PinnedVersion, why: str, commit: Callable[[], int]) -> int:
    """Run a commit on top of a version, and record that the version it makes brings rows; returns that version.

    ``why`` is for people who read the record. Raises what the commit raises, and PermissionDenied if nothing can be
    recorded; then nothing was committed.
    """
    from lance_spark.storage.small_files import write_below  # imports pyarrow, which commands do not wait for

    begun = layout.BroughtName(read.version + 1, None, _mark(location, read.branch), uuid4().hex)
    path, content = layout.brought_path(read.branch, begun), json.dumps({"action": why}).encode()
    write_below(location, path, content)
    try:
        made = commit()
    except LanceSparkError as problem:
        if not may_have_happened(problem):
            files.delete(location, [path])
        raise
    with suppress(StorageFailure):  # committed is committed; the first record stays, which says more than it must
        write_below(location, layout.brought_path(read.branch, begun._replace(first=made, last=made)), content)
        files.delete(location, [path])
    return made


def brought_versions(location: DatasetLocation, branch: str | None, gone: Collection[int]) -> tuple[int, ...]:
    """The versions among those of a branch that are gone that brought rows, or may have. Ascending.

    No request if none is gone.
    """
    if not gone:
        return ()
    names = files.list_names(location, f"{layout.branch_root(branch)}{layout.BROUGHT}")
    return layout.brought_versions(names, _mark(location, branch), gone) if names else ()


def _mark(location: DatasetLocation, branch: str | None) -> str:
    entry = None if branch is None else refs.read_branch(location, branch)
    return sha256(("" if entry is None else entry.identity).encode()).hexdigest()[:16]
