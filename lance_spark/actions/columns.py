"""Changing columns on any branch: add, drop, rename, alter; one version, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lance_spark.actions.attempts import attempts, overtaken
from lance_spark.actions.denied import left_after
from lance_spark.actions.sync.write_guards import check_writable
from lance_spark.errors import (
    Conflict,
    LanceSparkError,
    PermissionDenied,
    Refused,
    StorageFailure,
    may_have_happened,
)
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Contents, Fragment
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import MAIN
from lance_spark.runner.interface import Engine
from lance_spark.runner.work import Work
from lance_spark.schema.column_changes import ColumnChange, shown
from lance_spark.schema.evolution import Evolution, plan_evolution
from lance_spark.show.card import ShownInOneLine
from lance_spark.store import version_reader
from lance_spark.store.column_commit import CAST_FILES, CastItem, cast_fragment, commit_columns, discard_casts
from lance_spark.store.datasets import open_pinned, pin_latest

OPERATION = "alter columns"
FIRST_FORMATS = frozenset({"", "0.1"})


@dataclass(frozen=True, repr=False)
class AlterResult(ShownInOneLine):
    """What a change of columns made."""

    version: PinnedVersion
    """The new version; the newest one where nothing was to be done."""
    plan: Evolution

    def __str__(self) -> str:
        changed = ", ".join(shown(step.path) for step in self.plan.steps) or "nothing"
        return f"{self.version.branch or MAIN}@{self.version.version}: changed {changed}"

    def _facts(self) -> tuple[tuple[str, str], ...]:
        changed = ", ".join(shown(step.path) for step in self.plan.steps)
        return ("version", str(self.version)), ("columns", changed or "nothing was to be changed")


def alter_columns(
    location: DatasetLocation,
    branch: str | None,
    changes: Sequence[ColumnChange],
    engine: Engine,
    message: str | None = None,
) -> AlterResult:
    """Apply changes to a branch (None for main), all of them in one version.

    Only a wider type reads and writes values: those of that column, fragment by fragment on the engine. Commits made
    meanwhile are kept, as the changes are planned again on top of them; a column that somebody else dropped or added
    in between is an error then. Appends under way go on if columns are only added; else they end with a conflict.
    Raises as :func:`lance_spark.schema.evolution.plan_evolution`, and Conflict; then nothing was changed.
    """
    check_writable(location, branch)
    casting = CastFiles(location, branch, engine)
    try:
        for left in attempts():
            head = pin_latest(location, branch)
            plan = plan_evolution(open_pinned(location, head).schema, changes)
            if not plan.steps:
                return AlterResult(head, plan)
            contents = version_reader.read_contents(location, head)
            check_format(contents, plan)
            files = casting.files(head, contents, plan)
            try:
                made = commit_columns(location, head, contents, plan, files, message)
            except Conflict:
                if not left:
                    raise
                continue
            casting.keep(files)
            return AlterResult(made, plan)
    except LanceSparkError as failure:
        if isinstance(failure, PermissionDenied) and failure.before_commit:
            raise failure.saying(left_after(casting.delete, "files of columns")) from None
        casting.discard(failure)
        raise
    raise overtaken(branch)


def check_format(contents: Contents, plan: Evolution) -> None:
    """Raise Refused for new columns in files of the first format, which have to hold every column."""
    if contents.storage_version in FIRST_FORMATS and contents.fragment_count and plan.adds:
        raise Refused(
            "Cannot add a column: the data files are of format 0.1, where every file has every column.",
            hint="Write the rows to a new table, which gets a newer format.",
        )


class CastFiles:
    """Files with columns in their new types. What was written for one attempt serves the next one."""

    def __init__(self, location: DatasetLocation, branch: str | None, engine: Engine) -> None:
        self._location = location
        self._branch = branch
        self._engine = engine
        self._made: dict[tuple[object, ...], str] = {}

    def files(self, head: PinnedVersion, contents: Contents, plan: Evolution) -> Mapping[int, str]:
        """The files of all fragments of a version; those that are not there yet are written."""
        if not plan.casts:
            return {}
        keys = {fragment.id: (fragment.id, fragment.files, plan.casts) for fragment in contents.fragments()}
        wanted = [fragment for fragment in contents.fragments() if keys[fragment.id] not in self._made]
        for row in self._write(head, plan, wanted):
            self._made[keys[row["fragment"]]] = row["file"]
        return {fragment: self._made[key] for fragment, key in keys.items()}

    def _write(self, head: PinnedVersion, plan: Evolution, wanted: Sequence[Fragment]) -> list[dict[str, Any]]:
        if not wanted:
            return []
        work = Work(copies=len(wanted), copied_bytes=sum(fragment.size for fragment in wanted))
        runner = self._engine.for_work(OPERATION, work)
        items = [CastItem(self._location, head, fragment.id, plan.casts) for fragment in wanted]
        written = runner.flat_map("write columns", items, cast_fragment, CAST_FILES)
        rows: list[dict[str, Any]] = runner.collect("write columns", written).to_pylist()
        return rows

    def keep(self, files: Mapping[int, str]) -> None:
        """Delete the files of fragments that are not there any more; the others are committed."""
        used = set(files.values())
        self._discard([file for file in self._made.values() if file not in used])

    def discard(self, failure: LanceSparkError) -> None:
        """Delete all files unless the commit may have happened although it seemed to fail: then cleanup finds them."""
        if not may_have_happened(failure):
            self._discard(list(self._made.values()))

    def delete(self) -> None:
        """Delete all files. Raises StorageFailure."""
        discard_casts(self._location, self._branch, list(self._made.values()))

    def _discard(self, files: Sequence[str]) -> None:
        with suppress(StorageFailure):  # what was done, or why it failed, is worth more to the user
            discard_casts(self._location, self._branch, files)
