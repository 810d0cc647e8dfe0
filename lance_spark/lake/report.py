"""What became of a publish, for users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lance_spark.catalog.name_rules import TABLE
from lance_spark.catalog.publish_rules import EntryChange, Journal, LakeConflict, PublishOutcome
from lance_spark.core.show import Card, Grid, Shown
from lance_spark.core.texts import counted, moment

UNFINISHED, READY, CLASHING, UP_TO_DATE = "unfinished", "ready", "in conflict", "up to date"


@dataclass(frozen=True)
class PublishedTable:
    name: str
    before: int
    """Main's version before the publish."""
    after: int | None = None
    """Main's version with the changes, or without them again if the publish was taken back; None if there is none."""
    columns_dropped: tuple[str, ...] = ()
    """Columns that main loses. Not stored: empty in a list of earlier publishes."""

    @property
    def change(self) -> str:
        return f"rows; dropped columns: {', '.join(self.columns_dropped)}" if self.columns_dropped else "rows"


@dataclass(frozen=True, repr=False)
class Publish(Shown):
    """A publish of the branches of one name of several tables: all of them, or none."""

    branch: str
    state: str
    """``published``, ``taken back``, ``unfinished``; without a publish ``ready``, ``in conflict`` or ``up to date``."""
    tables: tuple[PublishedTable, ...] = ()
    conflicts: tuple[str, ...] = ()
    """Why it cannot be published, or was taken back, by table."""
    made: str = ""
    """Time of the decision, UTC, ISO 8601; "" without one."""
    id: str = ""
    message: str = ""
    others: tuple[str, ...] = ()
    """New, dropped and renamed tables and namespaces, and changed properties: ``stage.new: new``."""

    def _card(self) -> Card:
        made = moment(datetime.fromisoformat(self.made)) if self.made else ""
        facts = (("state", self.state), ("made", made), ("id", self.id), ("message", self.message))
        rows = [
            (each.name, each.change, str(each.before), "" if each.after is None else str(each.after))
            for each in self.tables
        ]
        rows += [(*_named(other), "", "") for other in self.others]
        clashes = Grid(("table", "conflict"), tuple(map(_named, self.conflicts)))
        grids = (Grid(("table", "change", "main before", "main after"), tuple(rows), frozenset({2, 3})), clashes)
        summary = f"{self.state}, {counted(len(self.tables), 'table')}"
        return Card(type(self).__name__, self.branch, summary, facts, grids)


def _named(text: str) -> tuple[str, str]:
    """The table or namespace, and what there is to say of it."""
    name, _, said = text.partition(": ")
    return name, said


NEW, CHANGED, DROPPED, RENAMED, PROPERTIES = "new", "changed", "dropped", "renamed", "properties changed"


@dataclass(frozen=True)
class LakeChange:
    """What a branch of the lake changed of one table, or of one namespace."""

    name: str
    """On the branch; of a dropped one, its former name."""
    change: str
    """``new``, ``changed``, ``dropped``, ``renamed`` or ``properties changed``."""
    rows_added: int = 0
    rows_removed: int = 0
    before: str = ""
    """The former name of a renamed one."""
    kind: str = TABLE


@dataclass(frozen=True, repr=False)
class LakeDiff(Shown):
    """What a branch of the lake changed, since it began or since its last merge."""

    branch: str
    changes: tuple[LakeChange, ...] = ()
    """Namespaces first, then tables, by name."""

    @property
    def is_empty(self) -> bool:
        return not self.changes

    def _card(self) -> Card:
        rows = [
            (each.name, f"{each.change} from {each.before}" if each.before else each.change, *_signed(each))
            for each in self.changes
        ]
        header = ("table", "change", "rows added", "rows removed")
        summary = counted(len(rows), "change") if rows else "nothing changed"
        return Card(type(self).__name__, self.branch, summary, grids=(Grid(header, tuple(rows), frozenset({2, 3})),))


def _signed(change: LakeChange) -> tuple[str, str]:
    if change.kind != TABLE:
        return "", ""
    return f"{change.rows_added:,}", f"{change.rows_removed:,}"


def _others(journal: Journal) -> tuple[str, ...]:
    """What a publish changes of the catalog's rows, in words."""
    return tuple(sorted(map(_in_words, journal.rows)))


def _in_words(change: EntryChange) -> str:
    before, after = change
    if before is None or after is None:
        return f"{change.known.identifier}: {NEW if before is None else DROPPED}"
    moved = f"{RENAMED} from {before.identifier}"
    return f"{after.identifier}: {PROPERTIES if before.object_id == after.object_id else moved}"


Dropped = Mapping[str, tuple[str, ...]]
"""Columns that main loses, by the directory of the table."""


def report(journal: Journal, outcome: PublishOutcome | None, dropped: Dropped | None = None) -> Publish:
    lost = dropped or {}
    done = {} if outcome is None else {table.location: table for table in outcome.tables}
    tables = []
    for table in journal.tables:
        found = done.get(table.location)
        tables.append(
            PublishedTable(table.name, table.since, None, lost.get(table.location, ()))
            if found is None
            else PublishedTable(table.name, found.before, found.after, lost.get(table.location, ()))
        )
    return Publish(
        branch=journal.branch,
        state=UNFINISHED if outcome is None else outcome.outcome,
        tables=tuple(tables),
        conflicts=() if outcome is None else tuple(map(str, outcome.conflicts)),
        made=journal.made,
        id=journal.id,
        message=journal.message,
        others=_others(journal),
    )


def report_plan(journal: Journal, conflicts: Sequence[LakeConflict], dropped: Dropped) -> Publish:
    tables = tuple(
        PublishedTable(table.name, table.since, None, dropped.get(table.location, ())) for table in journal.tables
    )
    state, reasons = CLASHING if conflicts else READY, tuple(map(str, conflicts))
    return Publish(journal.branch, state, tables, reasons, message=journal.message, others=_others(journal))
