"""Deleting rows on any branch: those that match a predicate, or all; one version, or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lance_spark.actions.attempts import attempts, overtaken
from lance_spark.actions.sync.write_guards import check_writable
from lance_spark.errors import Conflict, InvalidOption
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Fragment
from lance_spark.refs.model import PinnedVersion
from lance_spark.runner.interface import Engine
from lance_spark.runner.work import Work
from lance_spark.store import version_reader
from lance_spark.store.creating import overwrite_without_rows
from lance_spark.store.datasets import pin_latest
from lance_spark.store.row_deletions import (
    DELETIONS,
    DeletionItem,
    commit_deletions,
    delete_in_fragment,
)
from lance_spark.store.scanning import Scan, ScanColumns, check_filter, count_rows, index_matches
from lance_spark.store.writing import read_target

OPERATION = "delete"


@dataclass(frozen=True)
class DeleteResult:
    """What a deletion did."""

    version: PinnedVersion
    """The new version; the newest one where no row was deleted."""
    rows: int


def delete_where(
    location: DatasetLocation, branch: str | None, predicate: str, engine: Engine, message: str | None = None
) -> DeleteResult:
    """Delete the rows of a branch (None for main) that a predicate in Lance's SQL holds for, as one version.

    Rows for which it is neither true nor false stay. Files are not written anew: each fragment with such rows gets a
    deletion file, on the engine. Commits made meanwhile are kept, and only fragments that they changed are looked
    into again; rows that are appended meanwhile are not deleted, unless the commit had to be tried again. Raises
    InvalidOption for what is no predicate, NotFound, Refused and Conflict; then nothing was changed.
    """
    if not predicate.strip():
        raise InvalidOption("The predicate is empty.", hint="Give one such as id > 5; to delete all rows: truncate.")
    check_writable(location, branch)
    deleting = _Deleting(location, predicate, engine)
    for left in attempts():
        head = pin_latest(location, branch)
        found = deleting.look(head)
        rows = sum(count for count, _ in found.values())
        if not rows:
            return DeleteResult(head, 0)
        try:
            hit = {fragment: metadata for fragment, (count, metadata) in found.items() if count}
            return DeleteResult(commit_deletions(location, head, predicate, hit, message), rows)
        except Conflict:
            if not left:
                raise
    raise overtaken(branch)


def truncate(location: DatasetLocation, branch: str | None, message: str | None = None) -> DeleteResult:
    """Delete all rows of a branch as one version; columns, comments and settings stay, indexes go.

    Raises NotFound, Refused and Conflict; then nothing was changed.
    """
    check_writable(location, branch)
    start = pin_latest(location, branch)
    rows = count_rows(location, start)
    if not rows:
        return DeleteResult(start, 0)
    schema = read_target(location, start).schema
    return DeleteResult(overwrite_without_rows(location, start, schema, message), rows)


_Found = tuple[int, "str | None"]
"""How many rows of a fragment match, and what it is without them."""


class _Deleting:
    """What was found in fragments. Those that a commit in between left as they were are not looked into again."""

    def __init__(self, location: DatasetLocation, predicate: str, engine: Engine) -> None:
        self._location = location
        self._predicate = predicate
        self._engine = engine
        self._known: dict[Fragment, _Found] = {}

    def look(self, head: PinnedVersion) -> Mapping[int, _Found]:
        """What there is to delete in each fragment of a version that may have such rows.

        Fragments that an index knows to have none are not looked into. Raises InvalidOption for what is no predicate.
        """
        scan = Scan(self._location, head, ScanColumns(()), self._predicate)
        check_filter(scan)
        matches = index_matches(scan)
        fragments = {
            fragment.id: fragment for fragment in version_reader.read_contents(self._location, head).fragments()
        }
        if matches is not None:
            may_match = {*matches.rows} | (fragments.keys() - matches.covered)
            fragments = {key: fragment for key, fragment in fragments.items() if key in may_match}
        wanted = [fragment for fragment in fragments.values() if fragment not in self._known]
        if wanted:
            work = Work(copies=len(wanted), copied_bytes=sum(fragment.size for fragment in wanted))
            runner = self._engine.for_work(OPERATION, work)
            items = [DeletionItem(self._location, head, fragment.id, self._predicate) for fragment in wanted]
            table = runner.collect("delete", runner.flat_map("delete", items, delete_in_fragment, DELETIONS))
            for row in table.to_pylist():
                self._known[fragments[row["fragment"]]] = row["rows"], row["metadata"]
        return {key: self._known[fragment] for key, fragment in fragments.items()}
