"""What a cleanup would do or did, for people and for programs. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lance_spark.cleanup.candidates import DELETED, FAILED, GONE, KEPT
from lance_spark.cleanup.sweep import DELETE, KEEP, UNKNOWN_KIND
from lance_spark.show.card import Card, Grid, Shown
from lance_spark.show.words import masked, readable


@dataclass(frozen=True, repr=False)
class CleanupReport(Shown):
    """The result of a plan, or of carrying it out."""

    plan_id: str
    dataset: str
    executed: bool
    planned: Sequence[Mapping[str, Any]]
    """Rows of SUMS: files and bytes by kind, branch, action and reason."""
    outcomes: Sequence[Mapping[str, Any]] = ()
    """Rows of OUTCOMES; empty for a dry run."""
    versions: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By branch: how many versions go (``removed``), and why the others stay."""
    warnings: Sequence[str] = ()
    ran_on: str = ""
    """Where the work was done: "local", which is threads of one process, or "spark"."""

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
        """Whether nothing failed."""
        return self.count(FAILED)[0] == 0

    def to_json(self) -> str:
        """All of it as a JSON object."""
        totals = {name: dict(zip(("files", "bytes"), self.count(name), strict=True)) for name in _ENDS}
        return json.dumps(
            {
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
            },
            indent=2,
        )

    def __str__(self) -> str:
        """Tables of versions and of files and bytes by kind and branch, and one line that sums it up."""
        files = self._files_table().text() or _NOTHING
        parts = [self._versions_table().text(), files, *(f"warning: {text}" for text in self.warnings)]
        return masked("\n\n".join(part for part in [*parts, self.summary()] if part))

    def _card(self) -> Card:
        grids = (self._versions_table(), self._files_table())
        notes = () if grids[1].rows else (_NOTHING,)
        return Card(type(self).__name__, self.dataset, self.summary(), grids=grids, notes=(*notes, *self.warnings))

    def summary(self) -> str:
        """One line."""
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
