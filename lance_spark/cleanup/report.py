"""Reports of cleanups: of one dataset, many tables or a catalog. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pyarrow as pa

from lance_spark.cleanup import retention_rules
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.cleanup.sweep_rules import DELETE, DELETED, FAILED, GONE, KEEP, KEPT, UNKNOWN_KIND
from lance_spark.core.location import is_within
from lance_spark.core.show import Card, Grid, Report
from lance_spark.core.texts import counted, masked, readable
from lance_spark.errors import PermissionDenied

PARTLY = 6
"""Exit code: some files could not be deleted, or some tables not cleaned, and the next run finishes."""


@dataclass(frozen=True, repr=False)
class CleanupReport(Report):
    """The result of a plan, or of carrying it out."""

    plan_id: str
    dataset: str
    executed: bool
    planned: Sequence[Mapping[str, Any]]
    """Rows of SUMS: files and bytes by kind, branch, action and reason."""
    outcomes: Sequence[Mapping[str, Any]] = ()
    """Rows of OUTCOMES; empty for a dry run."""
    versions: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By branch: how many versions are removed (``removed``), and why the others stay."""
    warnings: Sequence[str] = ()
    ran_on: str = ""
    """Where the work ran: "local", threads of one process, or "spark"."""

    def count(self, outcome: str) -> tuple[int, int]:
        """(files, bytes) with that outcome: ``deleted``, ``already gone``, ``failed`` or ``kept``."""
        rows = [row for row in self.outcomes if row["outcome"] == outcome]
        return sum(row["files"] for row in rows), sum(row["bytes"] for row in rows)

    @property
    def to_delete(self) -> tuple[int, int]:
        """(files, bytes) the plan would delete."""
        rows = [row for row in self.planned if row["action"] == DELETE]
        return sum(row["files"] for row in rows), sum(row["bytes"] for row in rows)

    @property
    def complete(self) -> bool:
        return self.count(FAILED)[0] == 0

    @property
    def is_denied(self) -> bool:
        """Whether files could not be deleted, and a missing permission was the reason for all of them."""
        failed = [row for row in self.outcomes if row["outcome"] == FAILED]
        return bool(failed) and all(row.get("denied") for row in failed)

    @property
    def exit_code(self) -> int:
        """0; 21 if a permission is missing, so that the next run ends in the same way; otherwise 6 for failures."""
        return 0 if self.complete else PermissionDenied.exit_code if self.is_denied else PARTLY

    @property
    def failure(self) -> str:
        """Which files could not be deleted, and what is missing; "" if nothing failed."""
        if self.complete:
            return ""
        said = f"{counted(self.count(FAILED)[0], 'file')} could not be deleted"
        denied = sorted({row["denied"] for row in self.outcomes if row["outcome"] == FAILED and row.get("denied")})
        if not denied:
            return f"{said}; the next run finishes"
        return f"{said}: {denied[0]}" + (f", and {len(denied) - 1:,} more" if len(denied) > 1 else "")

    def as_document(self) -> dict[str, Any]:
        totals = {name: dict(zip(("files", "bytes"), self.count(name), strict=True)) for name in _ENDS}
        return {
            "plan": self.plan_id,
            "dataset": self.dataset,
            "executed": self.executed,
            "ran_on": self.ran_on,
            "to_delete": dict(zip(("files", "bytes"), self.to_delete, strict=True)),
            "totals": totals if self.executed else {},
            "versions": {branch: dict(counts) for branch, counts in self.versions.items()},
            "planned": [dict(row) for row in self.planned],
            "outcomes": [dict(row) for row in self.outcomes],
            "warnings": list(self.warnings),
        }

    def __str__(self) -> str:
        """Tables of versions and of files and bytes by kind and branch, and a one-line summary."""
        files = self._files_table().text() or _NOTHING
        parts = [self._versions_table().text(), files, *(f"warning: {text}" for text in self.warnings)]
        parts.append(self.failure)
        return masked("\n\n".join(part for part in [*parts, self.summary()] if part))

    def _card(self) -> Card:
        grids = (self._versions_table(), self._files_table())
        notes = () if grids[1].rows else (_NOTHING,)
        notes = (*notes, *self.warnings, *([self.failure] if self.failure else []))
        return Card(type(self).__name__, self.dataset, self.summary(), grids=grids, notes=notes)

    def summary(self) -> str:
        if not self.executed:
            files, size = self.to_delete
            return f"dry run: {files:,} files, {readable(size)} would be deleted ({self._origin()})"
        ends = [f"{self.count(end)[0]:,} {end}" for end in _ENDS if end == DELETED or self.count(end)[0]]
        return f"{', '.join(ends)}; {readable(self.count(DELETED)[1])} freed ({self._origin()})"

    def _origin(self) -> str:
        return ", ".join([f"plan {self.plan_id}", *([f"ran on {self.ran_on}"] if self.ran_on else [])])

    def _versions_table(self) -> Grid:
        rows = [(branch, f"{counts.get('removed', 0):,}", _reasons(counts)) for branch, counts in self.versions.items()]
        return Grid(("branch", "versions that go", "versions that stay"), tuple(rows), right=frozenset({1}))

    def _files_table(self) -> Grid:
        if self.executed:
            shown = [
                (row["branch"], row["kind"], row["outcome"], row["reason"], row["files"], row["bytes"], row["example"])
                for row in self.outcomes
            ]
        else:
            shown = [
                (row["branch"], row["kind"], row["action"], row["reason"], row["files"], row["bytes"], row["example"])
                for row in self.planned
                if row["action"] != KEEP or row["reason"] == UNKNOWN_KIND
            ]
        rows = [
            (*map(str, row[:4]), f"{row[4]:,}", readable(row[5]), str(row[6]) if _worth_showing(row) else "")
            for row in shown
        ]
        header = ("branch", "kind", "what", "why", "files", "bytes", "such as")
        return Grid(header, tuple(rows), right=frozenset({4, 5}))


_NOTHING = "Nothing to delete."
_ENDS = (DELETED, GONE, FAILED, KEPT)


def _worth_showing(row: tuple[Any, ...]) -> bool:
    return row[2] in (FAILED, KEPT, KEEP)


def _reasons(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in sorted(counts.items()) if reason != "removed")


# --- The cleanup of many tables: clones among them, and one report for all
# Pure.

State = Literal["done", "partly", "would", "empty", "failed"]
"""Cleaned; some files could not be deleted; would be cleaned; empty or dropped meanwhile; not cleaned."""

LOOKS = pa.schema(
    [
        ("table", pa.string()),
        ("base", pa.string()),
        ("versions", pa.int64()),
        ("files", pa.int64()),
        ("error", pa.string()),
        ("exit_code", pa.int64()),
    ]
)
"""What a table's manifests show: a row for each base path that it reads files from, and a row without a base path, with
the number of versions and the approximate number of files. Or a single row with the error that prevented reading."""
ROWS = pa.schema(
    [
        ("table", pa.string()),
        ("uri", pa.string()),
        ("state", pa.string()),
        ("versions", pa.int64()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
        ("failed", pa.int64()),
        ("error", pa.string()),
        ("exit_code", pa.int64()),
        ("report", pa.string()),
    ]
)
"""The result for each table: versions, files and bytes that were or would be removed, and its own report as JSON."""


@dataclass(frozen=True, repr=False)
class FleetReport(Report):
    """What a cleanup of many tables did, or would do."""

    rows: Sequence[Mapping[str, Any]]
    """Rows of ROWS, by table."""
    executed: bool
    ran_on: str = ""
    """Where the tables were cleaned: "local", threads of one process, or "spark"."""

    @property
    def problems(self) -> list[Mapping[str, Any]]:
        """Tables that were not, or not completely, cleaned."""
        return [row for row in self.rows if row["state"] == "failed" or row["failed"]]

    @property
    def complete(self) -> bool:
        return not self.problems

    def as_document(self) -> dict[str, Any]:
        tables = [{**row, "report": json.loads(row["report"]) if row["report"] else None} for row in self.rows]
        totals = {name: sum(row[name] for row in self.rows) for name in ("versions", "files", "bytes", "failed")}
        return {"executed": self.executed, "ran_on": self.ran_on, "totals": totals, "tables": tables}

    def __str__(self) -> str:
        """A row per table, the errors of tables that were not cleaned, and a one-line summary."""
        parts = [self._table().text(), *self._problem_lines()]
        return masked("\n\n".join([*(part for part in parts if part), self.summary()]))

    def _card(self) -> Card:
        return Card(type(self).__name__, "", self.summary(), grids=(self._table(),), notes=tuple(self._problem_lines()))

    def _table(self) -> Grid:
        rows = tuple(
            (
                row["table"],
                shown_state(row["state"]),
                f"{row['versions']:,}",
                f"{row['files']:,}",
                readable(row["bytes"]),
            )
            for row in self.rows
        )
        return Grid(("table", "state", "versions", "files", "bytes"), rows, right=frozenset({2, 3, 4}))

    def _problem_lines(self) -> list[str]:
        return [f"{row['table']}: {row['error']}" for row in self.problems]

    def summary(self) -> str:
        what = "deleted" if self.executed else "would be deleted"
        files, size = (sum(row[name] for row in self.rows) for name in ("files", "bytes"))
        bad = f"; {len(self.problems)} of them with problems" if self.problems else ""
        where = f" (ran on {self.ran_on})" if self.ran_on else ""
        return f"{len(self.rows):,} tables: {files:,} files, {readable(size)} {what}{bad}{where}"


def shared_warnings(report: FleetReport) -> list[str]:
    """The warnings that every table has: they are about the policy, such as a rule for a branch that no table has."""
    each = [json.loads(row["report"])["warnings"] for row in report.rows if row["report"]]
    return [text for text in each[0] if all(text in others for others in each)] if each else []


def why_nothing(report: FleetReport) -> list[str]:
    """Why no version of any table goes, as a note: how many stay, and for which reasons; empty if one goes."""
    told = [json.loads(row["report"])["versions"] for row in report.rows if row["report"]]
    if any(row["versions"] or row["files"] for row in report.rows) or not told:
        return []
    stay: Counter[str] = Counter()
    for branches in told:
        for counts in branches.values():
            stay.update({reason: count for reason, count in counts.items() if reason != "removed"})
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in stay.most_common())
    return [f"nothing to delete: of all tables, {counted(sum(stay.values()), 'version')} stay: {reasons}"]


def clones_among(bases: Iterable[Mapping[str, Any]], uris: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """By table, the URIs of other tables that read its files. ``uris`` gives every table's place."""
    clones: dict[str, set[str]] = {name: set() for name in uris}
    owners = sorted(((uri, name) for name, uri in uris.items()), key=lambda entry: len(entry[0]), reverse=True)
    for row in bases:
        base, reader = row["base"], row["table"]
        owner = next((name for uri, name in owners if base and is_within(base, uri)), None)
        if owner is not None and uris[owner] != uris[reader]:
            clones[owner].add(uris[reader])
    return {name: tuple(sorted(readers)) for name, readers in clones.items()}


def unreadable(bases: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, int]]:
    """By table, why its reads are unknown, and the exit code of that error."""
    return {row["table"]: (row["error"], row["exit_code"]) for row in bases if row["error"]}


def failed(name: str, uri: str, error: str, exit_code: int) -> dict[str, Any]:
    """The row of a table that was not cleaned."""
    return {**empty(name, uri), "state": "failed", "error": error, "exit_code": exit_code}


def empty(name: str, uri: str) -> dict[str, Any]:
    """The row of a table that is still empty."""
    nothing = dict.fromkeys(("versions", "files", "bytes", "failed"), 0)
    return {"table": name, "uri": uri, "state": "empty", **nothing, "error": "", "exit_code": 0, "report": ""}


def held_back(blind: Mapping[str, tuple[str, int]]) -> tuple[str, int]:
    """Why a table is left alone while others cannot be read, and the exit code of the error that caused it."""
    listed = ", ".join(sorted(blind)[:3])
    reason = f"left alone, because {listed} cannot be read and may be a clone that needs its files"
    return reason, max(code for _, code in blind.values())


# --- The cleanup of a whole catalog
# Pure.

CATALOG, ORPHAN = "catalog", "orphan"
KEPT_VERSIONS = 100
"""Number of the newest versions of the catalog's own table that stay at any age."""


def catalog_policy(policy: CleanupPolicy) -> CleanupPolicy:
    """The policy for the catalog's own table, given the ``policy`` of the tables.

    pylance's namespace keeps a version open and then requests exactly the next one. If that version is gone, it returns
    an error or the catalog of long ago. With this policy, that happens only to a process that sent no request for two
    weeks in which the catalog changed a hundred times. Files that no version names stay for at least a week, as jobs
    work on other tables all the time.
    """
    return CleanupPolicy(
        older_than=max(policy.older_than or retention_rules.DEFAULT_OLDER_THAN, retention_rules.DEFAULT_OLDER_THAN),
        retain_versions=max(policy.retain_versions or 1, KEPT_VERSIONS),
        commit_window=max(policy.commit_window, retention_rules.DEFAULT_COMMIT_WINDOW),
        unverified_age=max(policy.unverified_age, retention_rules.DEFAULT_UNVERIFIED_AGE),
        error_if_tagged_old_versions=False,
    )


@dataclass(frozen=True)
class Upkeep:
    """The result for something other than a table."""

    kind: str
    """CATALOG or ORPHAN; in a maintenance also ``publish``, ``audit``, ``lake branch`` or ``leftover``."""
    name: str
    """Its directory, relative to the catalog's root; or the name of the branch of the lake."""
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
        return cls(
            CATALOG,
            name,
            row["state"],
            row["files"],
            row["bytes"],
            row["versions"],
            compacted,
            row["error"],
            row["exit_code"],
        )


@dataclass(frozen=True, repr=False)
class LakeReport(Report):
    """What a cleanup of a catalog did, or would do."""

    catalog: str
    tables: FleetReport
    upkeep: Sequence[Upkeep] = ()
    notes: Sequence[str] = ()

    @property
    def executed(self) -> bool:
        """Whether this was a real run rather than a dry run."""
        return self.tables.executed

    @property
    def problems(self) -> list[tuple[str, str]]:
        """Name and reason of everything that was not, or not completely, cleaned."""
        tables = [(row["table"], row["error"]) for row in self.tables.problems]
        return tables + [(each.name, each.error) for each in self.upkeep if each.error]

    @property
    def complete(self) -> bool:
        return not self.problems

    @property
    def exit_code(self) -> int | None:
        """The code of an error that stopped everything, or of a missing permission that was behind all problems.

        None if anything was cleaned or nothing needed cleaning.
        """
        wrong = [row["exit_code"] for row in self.tables.problems]
        wrong += [each.exit_code for each in self.upkeep if each.error]
        if wrong and set(wrong) == {PermissionDenied.exit_code}:
            return PermissionDenied.exit_code
        codes = [row["exit_code"] for row in self.tables.rows if row["state"] != "empty"]
        return min(codes) if codes and all(codes) else None

    def as_document(self) -> dict[str, Any]:
        return {
            "catalog": self.catalog,
            **self.tables.as_document(),
            "upkeep": [vars(each) for each in self.upkeep],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        """A row per table, other upkeep, problems, and a one-line summary."""
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
        files = sum(row["files"] for row in self.tables.rows) + sum(each.files for each in self.upkeep)
        size = sum(row["bytes"] for row in self.tables.rows) + sum(each.bytes for each in self.upkeep)
        orphans = sum(each.kind == ORPHAN for each in self.upkeep)
        looked_at = counted(len(self.tables.rows), "table")
        looked_at += f", {counted(orphans, 'directory', 'directories')} of no table" if orphans else ""
        bad = f"; {len(self.problems)} with problems" if self.problems else ""
        said = f"{counted(files, 'file')}, {readable(size)} {'deleted' if self.executed else 'would be deleted'}"
        where = f" (ran on {self.tables.ran_on})" if self.tables.ran_on else ""
        return f"{'' if self.executed else 'dry run: '}{looked_at}: {said}{bad}{where}"


def shown_state(state: str) -> str:
    """A state as people read it: "would" needs a verb behind it."""
    return "planned" if state == "would" else state


def _formatted(row: tuple[Any, ...]) -> tuple[str, ...]:
    name, state, versions, files, size, what = row
    return name, shown_state(state), f"{versions:,}", f"{files:,}", readable(size), what


def without(report: FleetReport, name: str) -> tuple[FleetReport, list[Mapping[str, Any]]]:
    """A report without the row of one table, and that row if there is one."""
    rows = [row for row in report.rows if row["table"] == name]
    return replace(report, rows=[row for row in report.rows if row["table"] != name]), rows
