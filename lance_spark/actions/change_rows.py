"""The end of every change of rows: one version on top of the newest one, or a conflict and nothing."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from lance_spark.actions.attempts import attempts, overtaken
from lance_spark.actions.denied import left_after
from lance_spark.errors import (
    Conflict,
    LanceSparkError,
    PermissionDenied,
    Refused,
    StorageFailure,
    may_have_happened,
)
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.rows.messages import Prepared
from lance_spark.rows.result import ChangeResult
from lance_spark.store.commits import check_still_there
from lance_spark.store.datasets import pin_latest
from lance_spark.store.row_commit import Terms, commit_rows, discard, find_commit
from lance_spark.store.row_files import take_row
from lance_spark.store.row_rebase import Added, rebase

Meets = Callable[[PinnedVersion, Sequence[int]], bool]
"""Whether a change would have changed or matched rows of fragments of a version."""


@dataclass(frozen=True)
class Finish:
    """A change of rows whose files are written, with what its commit has to know."""

    location: DatasetLocation
    start: PinnedVersion
    """The version it was computed on."""
    change: Prepared
    terms: Terms
    meets: Meets | None
    inserts_by_key: bool
    check: Callable[[], None] | None = None
    """Asked before each attempt to commit; raises what is to end the change."""


def new_terms(verb: str, exclusive: bool, predicate: str, message: str | None) -> Terms:
    """The terms of another attempt at a change."""
    return Terms(verb, uuid.uuid4().hex, exclusive, predicate, message)


def check_unambiguous(location: DatasetLocation, start: PinnedVersion, change: Prepared, key: tuple[str, ...]) -> None:
    """Raise Refused, with the row's key, if two rows of the source would change one row; then delete all files."""
    if change.twice is None:
        return
    row = take_row(location, start, change.twice, key)
    with suppress(StorageFailure):
        discard(location, start.branch, [change])
    shown = ", ".join(f"{name} = {value!r}" for name, value in row.items())
    raise Refused(
        f"Several rows of the source match the row with {shown}: what becomes of it would depend on their order. "
        "Nothing was changed.",
        hint="Give a source with one row for each key, e.g. source.dropDuplicates([...]).",
    )


def finish(work: Finish) -> ChangeResult:
    """Commit the change on the newest version of its branch, and return what it did.

    Raises Conflict where commits in between changed the same rows, or rows that the change would have met; then its
    files are deleted. After most StorageFailures it is not certain whether it was committed: files stay for cleanup.
    """
    tried: list[Prepared] = [work.change]
    try:
        version, change = _commit(work, tried)
    except LanceSparkError as failure:
        if isinstance(failure, PermissionDenied) and failure.before_commit:
            undo = partial(discard, work.location, work.start.branch, tried)
            raise failure.saying(left_after(undo, "files that were written")) from None
        if not may_have_happened(failure):
            with suppress(StorageFailure):  # why it failed is worth more to the user
                discard(work.location, work.start.branch, tried)
        raise
    with suppress(StorageFailure):
        _discard_replaced(work, tried, change)
    return _result(version, change)


def _commit(work: Finish, tried: list[Prepared]) -> tuple[PinnedVersion, Prepared]:
    location, branch = work.location, work.start.branch
    seen = work.start.version
    for left in attempts():
        head = pin_latest(location, branch)
        change = work.change
        if head != work.start:
            check_still_there(location, work.start)
            rebased = rebase(location, work.start, head, work.change)
            change = rebased.change
            tried.append(change)
            _check_new_rows(work, rebased.added, seen)
            seen = head.version
        if work.check is not None:
            work.check()
        try:
            return commit_rows(location, head, change, work.terms), change
        except (Conflict, StorageFailure) as failure:
            # The store may have taken the version and failed to say so: committed again, its rows would be there twice.
            found = _look_for(work, head)
            if found is not None:
                return found, change
            if isinstance(failure, StorageFailure) or not left:
                raise
    raise overtaken(branch)


def _look_for(work: Finish, head: PinnedVersion) -> PinnedVersion | None:
    return find_commit(work.location, head.branch, head.version, work.terms.identity)


def _check_new_rows(work: Finish, added: Sequence[Added], seen: int) -> None:
    """Raise Conflict if the change would have met rows that were added meanwhile, and were not looked at before."""
    for entry in added:
        looks = work.meets is not None and (work.inserts_by_key or not entry.appended)
        if looks and entry.pin.version > seen and work.meets is not None and work.meets(entry.pin, entry.fragments):
            raise Conflict(
                f"Rows that the change would have met were added until version {entry.pin}, while it was computed. "
                "Nothing was changed.",
                hint="Run it again, or give retries=3 to have it computed again.",
            )


def _discard_replaced(work: Finish, tried: Sequence[Prepared], kept: Prepared) -> None:
    """Delete deletion files that later ones stand for."""
    used = set(kept.changed.values())
    for change in tried:
        left = {key: metadata for key, metadata in change.changed.items() if metadata not in used}
        if left:
            discard(work.location, work.start.branch, [Prepared(left, (), 0, 0, 0)])


def _result(version: PinnedVersion, change: Prepared) -> ChangeResult:
    files = [file for entry in change.written for file in json.loads(entry)["files"]]
    deletions = sum(metadata is not None for metadata in change.changed.values())
    return ChangeResult(
        version=version,
        rows_deleted=change.deleted,
        rows_updated=change.updated,
        rows_inserted=change.inserted,
        files=len(files) + deletions,
        bytes=sum(file["file_size_bytes"] or 0 for file in files),
    )
