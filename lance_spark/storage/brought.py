"""Records of versions that brought rows which other branches may have: they outlive the versions.

A cherry-pick, a revert and a restore put the same rows into two branches, although neither holds everything of the
other. The version itself records that, but any cleanup removes versions, pylance's too. If rows were rewritten since,
nothing else shows that they are on both sides, and a merge would double them. So each such commit leaves a small file
in the directory of its branch. It is written before the commit: a process that is killed leaves one record too many,
never one too few.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from hashlib import sha256
from uuid import uuid4

from lance_spark.core import layout
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.stored_json import decode_json
from lance_spark.errors import LanceSparkError, StorageFailure, may_have_happened
from lance_spark.storage import files, refs


def recorded(
    location: DatasetLocation,
    read: PinnedVersion,
    why: str,
    commit: Callable[[], int],
    trace: Mapping[str, str] | None = None,
) -> int:
    """Run a commit on top of a version, and record that the version it makes brings rows; returns that version.

    ``why`` is for people who read the record, ``trace`` says whose rows they are. Raises what the commit raises, and
    PermissionDenied if nothing can be recorded; then nothing was committed.
    """
    from lance_spark.storage.small_files import write_below  # imports pyarrow, which commands do not wait for

    begun = layout.BroughtName(read.version + 1, None, _mark(location, read.branch), uuid4().hex)
    path, content = layout.brought_path(read.branch, begun), json.dumps({"action": why, **(trace or {})}).encode()
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


def brought_traces(location: DatasetLocation, branch: str | None, gone: Collection[int]) -> list[dict[str, str]]:
    """What the records of versions that are gone say about whose rows they brought; empty where one does not say it."""
    if not gone:
        return []
    directory = f"{layout.branch_root(branch)}{layout.BROUGHT}"
    records = layout.brought_records(files.list_names(location, directory), _mark(location, branch))
    paths = [layout.brought_path(branch, record) for record in records if any(map(record.covers, gone))]
    return [_trace_in(content) for content in files.read_many(location, paths)]


def _trace_in(content: bytes | None) -> dict[str, str]:
    try:
        return {str(key): str(value) for key, value in decode_json(content or b"{}").items()}
    except (ValueError, AttributeError):
        return {}


def _mark(location: DatasetLocation, branch: str | None) -> str:
    entry = None if branch is None else refs.read_branch(location, branch)
    return sha256(("" if entry is None else entry.identity).encode()).hexdigest()[:16]
