"""What a relocation found and did, or would do: as values, as lines and as cards. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lance_spark.refs.names import MAIN
from lance_spark.relocate.repair import BaseState
from lance_spark.show.card import Card, Grid, ShownInLines
from lance_spark.show.lines import Line, said_of_places
from lance_spark.show.tables import table_lines
from lance_spark.show.words import counted

_NOTHING_ELSEWHERE = "No branch has a base path: nothing is read from anywhere else."


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
    """Versions that always read from the old place, as versions do not change; the newest one before is one of them."""
    tags: tuple[str, ...] = ()
    """Tags on those versions."""

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

    def told(self, dry_run: bool) -> str:
        """What was done, or would be, in one sentence."""
        name = self.branch or MAIN
        indexes = f" and {counted(len(self.indexes), 'index', 'indexes')}" if self.indexes else ""
        read = f"{'would be' if dry_run else 'are'} read from the new place"
        now = "" if self.version is None else f" ({name}@{self.version})"
        told = [f"{name}: {counted(self.files, 'file')}{indexes} {read}{now}"]
        told += [f"indexes to be made again: {', '.join(self.dropped)}"] if self.dropped else []
        told += [f"{counted(self.older, 'older version')} can only be read with the old place"] if self.older else []
        told += [f"tags on those: {', '.join(self.tags)}"] if self.tags else []
        return "; ".join(told) + "."


@dataclass(frozen=True, repr=False)
class Relocation(ShownInLines):
    """Every base path of the newest versions, and what was changed, or would be."""

    uri: str
    bases: tuple[BaseState, ...]
    branches: tuple[Relocated, ...]
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    def lines(self) -> Iterator[Line]:
        """The base paths, what is wrong with some of them, and what was done to branches."""
        if not self.bases:
            yield said_of_places(_NOTHING_ELSEWHERE)
            return
        yield from self.base_lines()
        yield from (said_of_places(f"  {problem}") for problem in self._problems_told())
        yield from (said_of_places(branch.told(self.dry_run)) for branch in self.branches)
        if not self.branches:
            yield said_of_places("Nothing to do.")
        yield from (said_of_places(f"  note: {note}") for note in self.notes)

    def base_lines(self) -> list[Line]:
        """The base paths as a table."""
        grid = self._grid()
        bright = [row for row, base in enumerate(self.bases) if base in self.repaired]
        return table_lines(grid.header, grid.shown, grid.right, bright)

    def _grid(self) -> Grid:
        """The base paths: state, files, and where they are read from afterwards."""
        rows = tuple(
            (
                base.branch or MAIN,
                base.path,
                base.state,
                f"{base.files:,}",
                base.target.uri if base in self.repaired and base.target is not None else "",
            )
            for base in self.bases
        )
        return Grid(("branch", "base path", "state", "files", "read from"), rows, right=frozenset({3}))

    def _problems_told(self) -> Iterator[str]:
        """Why base paths are left as they are."""
        for base in self.problems:
            yield f"{base.branch or MAIN}: {base.path} is left alone: {_why(base)}"

    def _card(self) -> Card:
        if not self.bases:
            return Card(type(self).__name__, self.uri, _NOTHING_ELSEWHERE, notes=self.notes)
        did = "would be" if self.dry_run else "were"
        repaired = f"{len(self.repaired):,} of {len(self.bases):,} base paths {did} repaired"
        bad = f", {counted(len(self.problems), 'problem')}" if self.problems else ""
        notes = (*self._problems_told(), *(branch.told(self.dry_run) for branch in self.branches), *self.notes)
        return Card(type(self).__name__, self.uri, repaired + bad, grids=(self._grid(),), notes=notes)

    @property
    def repaired(self) -> tuple[BaseState, ...]:
        """Base paths of which something is, or would be, read from another place."""
        return tuple(base for base in self.bases if base.is_repaired)

    @property
    def problems(self) -> tuple[BaseState, ...]:
        """Base paths that lead to nothing, or to a place that is not known."""
        return tuple(base for base in self.bases if base.is_problem)

    def as_record(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "action": "relocate",
            "dataset": self.uri,
            "bases": [base.as_record() for base in self.bases],
            "branches": [branch.as_record() for branch in self.branches],
            "notes": list(self.notes),
            "dry_run": self.dry_run,
        }


def _why(base: BaseState) -> str:
    if base.state == "unclear":
        return "files of these names are here, but the names are not unique; if they are the same files, use --from"
    if base.target is None:
        return base.state
    few = ", ".join(base.missing[:3]) + (", ..." if len(base.missing) > 3 else "")
    return f"{len(base.missing)} of its files are not in {base.target.uri}: {few}"
