"""What a relocation found and did, as values that can be printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lance_spark.refs.names import MAIN
from lance_spark.relocate.repair import BaseState
from lance_spark.relocate.wording import NOTHING_ELSEWHERE, base_grid, done, problems, relocation_lines
from lance_spark.show.card import Card, Shown
from lance_spark.show.lines import plain_text
from lance_spark.show.words import counted


@dataclass(frozen=True)
class Relocated:
    """What was done to one branch, or would be."""

    branch: str | None
    before: int
    """Its newest version before."""
    version: int | None
    """The newest version after it; None where nothing was done."""
    files: int
    """Files that are read from their new place."""
    indexes: tuple[str, ...] = ()
    """Names of indexes that are read from their new place."""
    dropped: tuple[str, ...] = ()
    """Names of indexes of which segments were given up."""
    older: int = 0
    """Versions, the newest one before among them, that read the old place for ever: versions do not change."""
    tags: tuple[str, ...] = ()
    """Tags on those."""

    def as_record(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "branch": self.branch or MAIN,
            "before": self.before,
            "version": self.version,
            "files": self.files,
            "indexes": list(self.indexes),
            "indexes_missing": list(self.dropped),
            "older_versions": self.older,
            "tags": list(self.tags),
        }


@dataclass(frozen=True, repr=False)
class Relocation(Shown):
    """Every base path of the newest versions, and what was changed, or would be."""

    uri: str
    bases: tuple[BaseState, ...]
    branches: tuple[Relocated, ...]
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    def __str__(self) -> str:
        """As ``lance-git relocate`` says it."""
        return plain_text(relocation_lines(self))

    def _card(self) -> Card:
        if not self.bases:
            return Card(type(self).__name__, self.uri, NOTHING_ELSEWHERE, notes=self.notes)
        did = "would be" if self.dry_run else "were"
        repaired = f"{len(self.repaired):,} of {len(self.bases):,} base paths {did} repaired"
        bad = f", {counted(len(self.problems), 'problem')}" if self.problems else ""
        notes = (*problems(self), *done(self), *self.notes)
        return Card(type(self).__name__, self.uri, repaired + bad, grids=(base_grid(self),), notes=notes)

    @property
    def repaired(self) -> tuple[BaseState, ...]:
        """Base paths of which something is, or would be, read from another place."""
        return tuple(found for found in self.bases if found.is_repaired)

    @property
    def problems(self) -> tuple[BaseState, ...]:
        """Base paths that lead to nothing, or nobody knows where."""
        return tuple(found for found in self.bases if found.is_problem)

    def as_record(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "action": "relocate",
            "dataset": self.uri,
            "bases": [found.as_record() for found in self.bases],
            "branches": [found.as_record() for found in self.branches],
            "notes": list(self.notes),
            "dry_run": self.dry_run,
        }
