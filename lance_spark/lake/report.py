"""What became of a publish, for users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lance_spark.core.show import Card, Grid, Shown, counted
from lance_spark.lake.rules import Journal, LakeConflict, PublishOutcome

UNFINISHED, READY, UP_TO_DATE = "unfinished", "ready", "up to date"


@dataclass(frozen=True)
class PublishedTable:
    """One table of a publish."""

    name: str
    before: int
    """Main's version before the publish."""
    after: int | None = None
    """Main's version with the changes, or without them again if the publish was taken back; None if there is none."""


@dataclass(frozen=True, repr=False)
class Publish(Shown):
    """A publish of the branches of one name of several tables: all of them, or none."""

    branch: str
    state: str
    """``published``, ``taken back``, ``unfinished``; without a publish ``ready`` or ``up to date``."""
    tables: tuple[PublishedTable, ...] = ()
    conflicts: tuple[str, ...] = ()
    """Why it cannot be published, or was taken back, by table."""
    made: str = ""
    """Time of the decision, UTC, ISO 8601; "" without one."""
    id: str = ""
    message: str = ""

    def _card(self) -> Card:
        facts = (("state", self.state), ("made", self.made), ("id", self.id), ("message", self.message))
        rows = [(each.name, str(each.before), "" if each.after is None else str(each.after)) for each in self.tables]
        grids = (Grid(("table", "main before", "main after"), tuple(rows), frozenset({1, 2})),)
        summary = f"{self.state}, {counted(len(self.tables), 'table')}"
        return Card(type(self).__name__, self.branch, summary, facts, grids, self.conflicts)


def report(journal: Journal, outcome: PublishOutcome | None) -> Publish:
    """A publish by what is stored of it."""
    done = {} if outcome is None else {table.location: table for table in outcome.tables}
    tables = []
    for table in journal.tables:
        found = done.get(table.location)
        tables.append(
            PublishedTable(table.name, table.since)
            if found is None
            else PublishedTable(table.name, found.before, found.after)
        )
    return Publish(
        branch=journal.branch,
        state=UNFINISHED if outcome is None else outcome.outcome,
        tables=tuple(tables),
        conflicts=() if outcome is None else tuple(map(str, outcome.conflicts)),
        made=journal.made,
        id=journal.id,
        message=journal.message,
    )


def report_plan(journal: Journal, conflicts: Sequence[LakeConflict]) -> Publish:
    """What a publish would do."""
    tables = tuple(PublishedTable(table.name, table.since) for table in journal.tables)
    state = UP_TO_DATE if not (tables or conflicts) else READY
    return Publish(journal.branch, state, tables, tuple(map(str, conflicts)), message=journal.message)
