"""The final step of every change of rows: one version on top of the newest one, or a conflict and no change.

Prepared files, or a predicate in Lance's SQL, come in. A result comes out.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from lance_spark import errors
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import Engine, rewriting
from lance_spark.format.contents import Fragment
from lance_spark.layout.pruning import judge
from lance_spark.rows import row_commits
from lance_spark.rows.action_rules import ChangeResult, Prepared
from lance_spark.rows.row_commits import Added, DeletionItem, Terms
from lance_spark.rows.row_files import take_row
from lance_spark.scan.fragment_reads import Scan, ScanColumns, check_filter, count_rows, index_matches
from lance_spark.storage import commits, versions
from lance_spark.storage.datasets import pin_latest
from lance_spark.storage.followers import check_writable
from lance_spark.write.constraints import check_none_since
from lance_spark.write.data_files import read_target
from lance_spark.write.isolation import Since, is_serializable

Meets = Callable[[PinnedVersion, Sequence[int]], bool]
"""Whether a change would have changed or matched rows of fragments of a version."""


@dataclass(frozen=True)
class Finish:
    """A change of rows whose files are written, with everything that its commit needs."""

    location: DatasetLocation
    start: PinnedVersion
    """The version it was computed on."""
    change: Prepared
    terms: Terms
    meets: Meets | None
    inserts_by_key: bool
    check: Callable[[], None] | None = None
    """Called before each attempt to commit; raises to abort the change."""


def new_terms(verb: str, exclusive: bool, predicate: str, message: str | None) -> Terms:
    """The terms of another attempt at a change."""
    return Terms(verb, uuid.uuid4().hex, exclusive, predicate, message)


def check_unambiguous(location: DatasetLocation, start: PinnedVersion, change: Prepared, key: tuple[str, ...]) -> None:
    """Raise Refused, with the row's key, if two source rows would change one row; first delete all files."""
    if change.twice is None:
        return
    row = take_row(location, start, change.twice, key)
    with suppress(errors.StorageFailure):
        row_commits.discard(location, start.branch, [change])
    shown = ", ".join(f"{name} = {value!r}" for name, value in row.items())
    raise errors.Refused(
        f"Several rows of the source match the row with {shown}: the result would depend on their order. "
        "Nothing was changed.",
        hint="Give a source with one row for each key, e.g. source.dropDuplicates([...]).",
    )


def finish(work: Finish) -> ChangeResult:
    """Commit the change on the newest version of its branch; returns its result.

    Raises Conflict if commits in between changed the same rows, or rows that the change would have met; then its files
    are deleted. After most StorageFailures the outcome is unknown, and the files stay for cleanup.
    """
    tried: list[Prepared] = [work.change]
    undo = partial(row_commits.discard, work.location, work.start.branch, tried)
    with commits.undone_on_failure(undo, "files that were written"):
        version, change = _commit(work, tried)
    with suppress(errors.StorageFailure):
        _discard_replaced(work, tried, change)
    return _result(version, change)


def _commit(work: Finish, tried: list[Prepared]) -> tuple[PinnedVersion, Prepared]:
    location, branch = work.location, work.start.branch
    rebase: row_commits.Rebase | None = None
    since = Since(location, work.start)
    for left in commits.attempts():
        row_commits.check_written(location, branch, work.change)
        head, change = pin_latest(location, branch), work.change
        if head != work.start:
            commits.check_still_there(location, work.start)
            if work.change.written and not work.terms.reordered:
                check_none_since(location, work.start, head)
            rebase = rebase or row_commits.Rebase(location, work.start, work.change)
            head, change, added = rebase.on(head)
            tried.append(change)
            if not work.terms.reordered and is_serializable(location, head):
                since.check_rows(head)
            _check_new_rows(work, added)
        if work.check is not None:
            work.check()
        try:
            return row_commits.commit_rows(location, head, change, work.terms), change
        except (errors.Conflict, errors.StorageFailure) as failure:
            # The store may have taken the version and failed to confirm it: a second commit would duplicate its rows.
            found = row_commits.find_commit(location, branch, head.version, work.terms.identity)
            if found is not None:
                return found, change
            if isinstance(failure, errors.StorageFailure) or not left:
                raise
    raise commits.overtaken(branch)


def _check_new_rows(work: Finish, added: Sequence[Added]) -> None:
    """Raise Conflict if the change would have met rows that others added while it was computed."""
    if work.meets is None:
        return
    for entry in added:
        if (work.inserts_by_key or not entry.appended) and work.meets(entry.pin, entry.fragments):
            raise errors.Conflict(
                f"Rows that the change would have met were added, up to version {entry.pin}, while it was computed. "
                "Nothing was changed.",
                hint="Run it again, or use retries=3 to recompute it automatically.",
            )


def _discard_replaced(work: Finish, tried: Sequence[Prepared], kept: Prepared) -> None:
    """Delete deletion files that later ones replaced."""
    used = set(kept.changed.values())
    for change in tried:
        left = {key: metadata for key, metadata in change.changed.items() if metadata not in used}
        if left:
            row_commits.discard(work.location, work.start.branch, [Prepared(left, (), 0, 0, 0)])


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


# --- Deleting rows on any branch

OPERATION = "delete"


@dataclass(frozen=True)
class DeleteResult:
    version: PinnedVersion
    """The new version; the newest one if no row was deleted."""
    rows: int


def delete_where(
    location: DatasetLocation, branch: str | None, predicate: str, engine: Engine, message: str | None = None
) -> DeleteResult:
    """Delete the rows of a branch (None for main) for which a predicate in Lance's SQL is true, as one version.

    Rows for which it is null stay. No data file is rewritten: the engine gives each fragment with matching rows a
    deletion file. Concurrent commits are kept, and only fragments that they changed are searched again. Rows appended
    meanwhile are not deleted, unless the commit had to be retried. Raises InvalidOption for an invalid predicate,
    NotFound, Refused and Conflict; then nothing was changed.
    """
    if not predicate.strip():
        raise errors.InvalidOption(
            "The predicate is empty.", hint="Give one such as id > 5; to delete all rows: truncate."
        )
    check_writable(location, branch)
    deleting = _Deleting(location, predicate, engine)
    for left in commits.attempts():
        head = pin_latest(location, branch)
        found = deleting.look(head)
        rows = sum(count for count, _ in found.values())
        if not rows:
            return DeleteResult(head, 0)
        hit = {fragment: metadata for fragment, (count, metadata) in found.items() if count}
        row_commits.check_written(location, branch, Prepared(hit, (), 0, 0, 0))
        try:
            if is_serializable(location, head):  # look again at what others committed meanwhile
                Since(location, head).check_rows(pin_latest(location, branch))
            return DeleteResult(row_commits.commit_deletions(location, head, predicate, hit, message), rows)
        except errors.Conflict:
            if not left:
                raise
    raise commits.overtaken(branch)


def truncate(location: DatasetLocation, branch: str | None, message: str | None = None) -> DeleteResult:
    """Delete all rows of a branch as one version; keeps columns, comments and settings, drops indexes.

    Raises NotFound, Refused and Conflict; then nothing was changed.
    """
    check_writable(location, branch)
    start = pin_latest(location, branch)
    rows = count_rows(location, start)
    if not rows:
        return DeleteResult(start, 0)
    schema = read_target(location, start).schema
    return DeleteResult(commits.overwrite_without_rows(location, start, schema, message), rows)


_Found = tuple[int, "str | None"]
"""How many rows of a fragment match, and the fragment without them."""


class _Deleting:
    """Matches by fragment. Fragments that a concurrent commit left unchanged are not searched again."""

    def __init__(self, location: DatasetLocation, predicate: str, engine: Engine) -> None:
        self._location, self._predicate, self._engine = location, predicate, engine
        self._known: dict[Fragment, _Found] = {}

    def look(self, head: PinnedVersion) -> Mapping[int, _Found]:
        """The rows to delete in each fragment of a version that may have any.

        Skips fragments that an index excludes. Raises InvalidOption for an invalid predicate.
        """
        scan = Scan(self._location, head, ScanColumns(()), self._predicate)
        check_filter(scan)
        matches = index_matches(scan)
        contents = versions.read_contents(self._location, head)
        judged = judge(self._location, head, self._predicate)
        fragments = {each.id: each for each in contents.fragments() if each.id not in judged.excluded}
        for key in judged.whole if contents.counts_rows else ():
            if key in fragments:
                self._known[fragments[key]] = fragments[key].rows, None
        if matches is not None:
            may_match = {*matches.rows} | (fragments.keys() - matches.covered)
            fragments = {key: fragment for key, fragment in fragments.items() if key in may_match}
        wanted = [fragment for fragment in fragments.values() if fragment not in self._known]
        if wanted:
            work = rewriting(fragment.size for fragment in wanted)
            runner = self._engine.for_work(OPERATION, work)
            items = [DeletionItem(self._location, head, fragment.id, self._predicate) for fragment in wanted]
            table = runner.collect(
                "delete", runner.flat_map("delete", items, row_commits.delete_in_fragment, row_commits.DELETIONS)
            )
            for row in table.to_pylist():
                self._known[fragments[row["fragment"]]] = row["rows"], row["metadata"]
        return {key: self._known[fragment] for key, fragment in fragments.items()}
