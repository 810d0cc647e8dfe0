"""What a cleanup of a whole catalog did, or would do: its tables, its own table, and stray directories. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lance_spark.cleanup.multi_table import FleetReport, State
from lance_spark.cleanup.policy import (
    DEFAULT_COMMIT_WINDOW,
    DEFAULT_OLDER_THAN,
    DEFAULT_UNVERIFIED_AGE,
    CleanupPolicy,
)
from lance_spark.show.card import Card, Grid, Shown
from lance_spark.show.words import counted, masked, readable

CATALOG, ORPHAN = "catalog", "orphan"
KEPT_VERSIONS = 100
"""Of the catalog's own table: so many of the newest versions stay, however old they are."""


def catalog_policy(policy: CleanupPolicy) -> CleanupPolicy:
    """The policy for the catalog's own table, if ``policy`` is that of the tables.

    pylance's namespace keeps a version open and then asks for exactly the next one. If that version is gone, it answers
    with an error, or with the catalog of long ago. With this policy that happens only to a process that asked nothing
    for two weeks in which the catalog changed a hundred times. Files that no version names stay for a week at least:
    jobs are at work on other tables all the time.
    """
    return CleanupPolicy(
        older_than=max(policy.older_than or DEFAULT_OLDER_THAN, DEFAULT_OLDER_THAN),
        retain_versions=max(policy.retain_versions or 1, KEPT_VERSIONS),
        commit_window=max(policy.commit_window, DEFAULT_COMMIT_WINDOW),
        unverified_age=max(policy.unverified_age, DEFAULT_UNVERIFIED_AGE),
        error_if_tagged_old_versions=False,
    )


@dataclass(frozen=True)
class Upkeep:
    """What became of something other than a table."""

    kind: str
    """CATALOG or ORPHAN."""
    name: str
    """Its directory, relative to the catalog's root."""
    state: State
    files: int = 0
    bytes: int = 0
    versions: int = 0
    what: str = ""
    """What the directory is, or what was done to it."""
    error: str = ""
    exit_code: int = 0

    @classmethod
    def of_catalog(cls, name: str, row: Mapping[str, Any], compacted: str) -> Upkeep:
        """The catalog's own table, from the row of its cleanup."""
        failed = f"{row['failed']} files could not be deleted" if row["failed"] else ""
        return cls(
            CATALOG,
            name,
            row["state"],
            row["files"],
            row["bytes"],
            row["versions"],
            compacted,
            row["error"] or failed,
            row["exit_code"],
        )


@dataclass(frozen=True, repr=False)
class LakeReport(Shown):
    """What a cleanup of a catalog did, or would do."""

    catalog: str
    tables: FleetReport
    upkeep: Sequence[Upkeep] = ()
    notes: Sequence[str] = ()

    @property
    def executed(self) -> bool:
        """Whether anything was to be deleted."""
        return self.tables.executed

    @property
    def problems(self) -> list[tuple[str, str]]:
        """Name and reason of what was not cleaned, or not wholly."""
        tables = [
            (row["table"], row["error"] or f"{row['failed']} files could not be deleted")
            for row in self.tables.problems
        ]
        return tables + [(each.name, each.error) for each in self.upkeep if each.error]

    @property
    def complete(self) -> bool:
        """Whether everything was cleaned."""
        return not self.problems

    @property
    def exit_code(self) -> int | None:
        """The code of an error that stopped everything; None if anything was cleaned, or there was nothing to clean."""
        codes = [row["exit_code"] for row in self.tables.rows if row["state"] != "empty"]
        return min(codes) if codes and all(codes) else None

    def to_json(self) -> str:
        """All of it as a JSON object."""
        return json.dumps(
            {
                "catalog": self.catalog,
                **json.loads(self.tables.to_json()),
                "upkeep": [vars(each) for each in self.upkeep],
                "notes": list(self.notes),
            },
            indent=2,
        )

    def __str__(self) -> str:
        """A row per table, what else was looked after, what went wrong, and one line that sums it up."""
        parts = [self._table().text()]
        parts += ["\n".join(self._problem_lines())]
        parts += ["\n".join(f"note: {note}" for note in self.notes)]
        return masked("\n\n".join([*(part for part in parts if part), self.summary()]))

    def _card(self) -> Card:
        notes = (*self._problem_lines(), *self.notes)
        return Card(type(self).__name__, self.catalog, self.summary(), grids=(self._table(),), notes=notes)

    def _table(self) -> Grid:
        rows = [
            (row["table"], row["state"], row["versions"], row["files"], row["bytes"], "") for row in self.tables.rows
        ]
        rows += [(each.name, each.state, each.versions, each.files, each.bytes, each.what) for each in self.upkeep]
        header = ("table", "state", "versions", "files", "bytes", "")
        return Grid(header, tuple(map(_formatted, rows)), right=frozenset({2, 3, 4}))

    def _problem_lines(self) -> list[str]:
        return [f"{name}: {why}" for name, why in self.problems]

    def summary(self) -> str:
        """One line."""
        files = sum(row["files"] for row in self.tables.rows) + sum(each.files for each in self.upkeep)
        size = sum(row["bytes"] for row in self.tables.rows) + sum(each.bytes for each in self.upkeep)
        orphans = sum(each.kind == ORPHAN for each in self.upkeep)
        looked_at = counted(len(self.tables.rows), "table")
        looked_at += f", {counted(orphans, 'directory', 'directories')} of no table" if orphans else ""
        bad = f"; {len(self.problems)} with problems" if self.problems else ""
        said = f"{counted(files, 'file')}, {readable(size)} {'deleted' if self.executed else 'would be deleted'}"
        where = f" (ran on {self.tables.ran_on})" if self.tables.ran_on else ""
        return f"{'' if self.executed else 'dry run: '}{looked_at}: {said}{bad}{where}"


def _formatted(row: tuple[Any, ...]) -> tuple[str, ...]:
    name, state, versions, files, size, what = row
    return name, state, f"{versions:,}", f"{files:,}", readable(size), what


def without(report: FleetReport, name: str) -> tuple[FleetReport, list[Mapping[str, Any]]]:
    """A report without the row of one table, and that row if there is one."""
    rows = [row for row in report.rows if row["table"] == name]
    return replace(report, rows=[row for row in report.rows if row["table"] != name]), rows
