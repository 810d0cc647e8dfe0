"""What a maintenance did, or would do, for people and for programs. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from lance_spark.core.show import Card, Grid, Shown, counted, masked, readable
from lance_spark.maintenance.rules import DONE, NOTHING, WOULD, Memory, StepRecord, TableRecord, as_json

PARTLY = 6
"""Exit code: something went wrong, or a check found damage; what could be done was done."""


@dataclass(frozen=True)
class CatalogRecord:
    """What became of something of the catalog that is no table."""

    kind: str
    name: str
    state: str
    files: int = 0
    bytes: int = 0
    what: str = ""
    error: str = ""


@dataclass(frozen=True, repr=False)
class MaintenanceReport(Shown):
    """What a maintenance did, or would do. Sizes are in bytes."""

    root: str
    """URI of the catalog or of the dataset."""
    executed: bool
    tables: tuple[TableRecord, ...]
    """By name."""
    started: datetime = field(default_factory=lambda: datetime.fromtimestamp(0, timezone.utc))
    seconds: float = 0.0
    catalog: tuple[CatalogRecord, ...] = ()
    """The catalog's own table, and directories that no row names."""
    notes: tuple[str, ...] = ()
    memory: Memory = field(default_factory=Memory, compare=False)
    """What the next run has to know."""
    expected: int | None = None
    """Of a report that is written while the run goes on, and left by one that is killed: how many tables there are."""

    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        return self.expected is None

    @property
    def problems(self) -> list[tuple[str, str]]:
        """Table and reason of everything that somebody has to look at."""
        told = [(record.name, problem) for record in self.tables for problem in record.problems]
        return told + [(each.name, each.error) for each in self.catalog if each.error]

    @property
    def complete(self) -> bool:
        """Whether the run came to its end and nothing went wrong. What time did not allow is no failure."""
        return self.finished and not self.problems

    @property
    def exit_code(self) -> int:
        """0; 6 if something went wrong or is damaged; where no table could be worked on, the code of the error."""
        if self.complete:
            return 0
        if not self.finished:
            return PARTLY
        codes = [record.exit_code for record in self.tables]
        return min(codes) if codes and all(codes) else PARTLY

    @property
    def freed(self) -> int:
        """Bytes that go or went."""
        return sum(record.freed for record in self.tables) + sum(each.bytes for each in self.catalog)

    @property
    def left(self) -> list[tuple[str, StepRecord]]:
        """Table and step of what time did not allow."""
        return [(record.name, step) for record in self.tables for step in record.left]

    def steps(self, *states: str) -> list[tuple[TableRecord, StepRecord]]:
        """Steps of all tables in these states."""
        return [(record, step) for record in self.tables for step in record.steps if step.state in states]

    def to_json(self) -> str:
        """All of it as a JSON object."""
        return json.dumps(
            {
                "root": self.root,
                "executed": self.executed,
                "started": self.started.isoformat(),
                "seconds": self.seconds,
                "finished": self.finished,
                "expected_tables": len(self.tables) if self.expected is None else self.expected,
                "complete": self.complete,
                "exit_code": self.exit_code,
                "freed_bytes": self.freed,
                "left_steps": len(self.left),
                "tables": [as_json(record) for record in self.tables],
                "catalog": [vars(each) for each in self.catalog],
                "problems": [{"name": name, "problem": problem} for name, problem in self.problems],
                "notes": list(self.notes),
            },
            indent=2,
        )

    def __str__(self) -> str:
        """A line for each step that is to be done or was, what went wrong, and one line that sums it up."""
        parts = [self.steps_grid().text(), self._catalog_grid().text()]
        parts += ["\n".join(f"{name}: {problem}" for name, problem in self.problems)]
        parts += ["\n".join(f"note: {note}" for note in self._all_notes())]
        return masked("\n\n".join([*(part for part in parts if part), self.summary()]))

    def _card(self) -> Card:
        notes = (*(f"{name}: {problem}" for name, problem in self.problems), *self._all_notes())
        grids = (self.steps_grid(), self._catalog_grid())
        return Card(type(self).__name__, self.root, self.summary(), grids=grids, notes=notes)

    def _all_notes(self) -> tuple[str, ...]:
        return (*(f"{record.name}: {told}" for record in self.tables for told in record.told), *self.notes)

    def steps_grid(self) -> Grid:
        """The steps of all tables but those that had nothing to do."""
        rows = tuple(
            (record.name, step.step, step.branch or "", step.text())
            for record in self.tables
            for step in record.steps
            if step.state != NOTHING
        )
        return Grid(("table", "step", "branch", "what"), rows)

    def _catalog_grid(self) -> Grid:
        rows = tuple(
            (each.name, each.kind, each.state, f"{each.files:,}", readable(each.bytes), each.what)
            for each in self.catalog
        )
        return Grid(("directory", "kind", "state", "files", "bytes", "what"), rows, right=frozenset({3, 4}))

    def summary(self) -> str:
        """One line."""
        counts: Counter[str] = Counter(step.state for record in self.tables for step in record.steps)
        what = f"{counted(counts[DONE], 'step')} done" if self.executed else f"{counted(counts[WOULD], 'step')} to do"
        freed = f"{readable(self.freed)} {'freed' if self.executed else 'would be freed'}"
        left = f"; {counted(len(self.left), 'step')} left for next time" if self.left else ""
        bad = f"; {counted(len(self.problems), 'problem')}" if self.problems else ""
        tables = counted(len(self.tables), "table")
        if self.expected is not None:
            tables = f"unfinished, {len(self.tables):,} of {counted(self.expected, 'table')}"
        return f"{'' if self.executed else 'dry run: '}{tables}: {what}, {freed}{left}{bad}"


def totals(records: Sequence[TableRecord]) -> Mapping[str, Any]:
    """Sums over tables, for charts: bytes owned and freed by kind."""
    owned: Counter[str] = Counter()
    freed: Counter[str] = Counter()
    for record in records:
        for kind, size in record.kinds.items():
            owned[kind] += size.owned
            freed[kind] += size.freed
    return {"owned": owned, "freed": freed}
