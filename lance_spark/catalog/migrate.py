"""From V1 to V2: all directories that are tables get a row, in one commit (specification "Migration from V1 to V2").

Afterwards compatibility can be switched off. Writers of V1 may continue: the next run finds the tables that they
create, and adds only missing rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lance_spark.catalog import manifest_commits
from lance_spark.catalog.directories import list_root, look
from lance_spark.catalog.doctor_rules import RemoveRows
from lance_spark.catalog.entry_rules import LOCATION, OBJECT_ID, AddTables, Entry, RowFilter, v1_name
from lance_spark.catalog.name_rules import DELIMITER, TABLE, Catalog, Identifier, is_sound
from lance_spark.core.show import Card, Grid, Shown


@dataclass(frozen=True)
class Skipped:
    """A directory that gets no row."""

    directory: str
    why: str


@dataclass(frozen=True, repr=False)
class Migration(Shown):
    """The effects of a migration, planned or executed."""

    catalog: Catalog
    tables: tuple[Identifier, ...]
    """Tables that get a row."""
    registered: int
    """Directories named ``<name>.lance`` that a row already names."""
    skipped: tuple[Skipped, ...]
    executed: bool = False

    @property
    def state(self) -> str:
        """The state of the tables, now or after execution."""
        return "registered" if self.executed else "would be registered"

    @property
    def summary(self) -> str:
        tables = "1 table" if len(self.tables) == 1 else f"{len(self.tables):,} tables"
        return f"{tables} {self.state}, {self.registered:,} before, {len(self.skipped):,} skipped"

    def __str__(self) -> str:
        lines = [self.summary]
        lines += [f"skipped {skipped.directory}: {skipped.why}" for skipped in self.skipped]
        return "\n".join(lines)

    def _card(self) -> Card:
        rows = [(str(name), self.state) for name in self.tables]
        rows += [(skipped.directory, f"skipped: {skipped.why}") for skipped in self.skipped]
        return Card(type(self).__name__, self.catalog.uri, self.summary, grids=(Grid(("table", "state"), tuple(rows)),))


def plan_migration(catalog: Catalog) -> Migration:
    """Scan the catalog's directories by the rule of V1, in parallel. Changes nothing."""
    rows = manifest_commits.read_rows(catalog.manifest, RowFilter(everything=True))
    taken, claimed = set(rows.table[OBJECT_ID].to_pylist()), set(rows.table[LOCATION].to_pylist())
    directories, plain = list_root(catalog.root)
    names = {directory: name for directory in directories if (name := v1_name(directory)) is not None}
    open_directories = [directory for directory in names if directory not in claimed]
    states = look(catalog.root, open_directories)
    tables, skipped = [], [Skipped(directory, "it is a file") for directory in plain if directory.endswith(".lance")]
    for directory in open_directories:
        why = _why_not(names[directory], taken)
        if states[directory].deregistered:
            why = "it is deregistered"
        elif not states[directory].has_files:
            why = "it has no files"
        if why is None:
            tables.append(Identifier((names[directory],)))
        else:
            skipped.append(Skipped(directory, why))
    return Migration(catalog, tuple(sorted(tables)), len(names) - len(open_directories), tuple(skipped))


def _why_not(name: str, taken: set[str]) -> str | None:
    if name in taken:
        return f"something else in the catalog is called '{name}'"
    if DELIMITER in name or not is_sound(name):
        return "its name is not valid in a catalog; rename the directory"
    return None


def migrate(catalog: Catalog, dry_run: bool = False) -> Migration:
    """Give every table that is only a directory a row, in one commit; returns the result.

    Running it again adds tables created meanwhile. Of two simultaneous runs, each adds the rows that the other has not.
    """
    plan = plan_migration(catalog)
    return plan if dry_run else apply_migration(plan)


def apply_migration(plan: Migration) -> Migration:
    """Execute a plan. Leaves tables unchanged that got a row since it was made."""
    if not plan.tables:
        return Migration(plan.catalog, (), plan.registered, plan.skipped, executed=True)
    locations = {table.name: f"{table.name}.lance" for table in plan.tables}
    edit = manifest_commits.apply(plan.catalog.manifest, AddTables(locations))
    added = [] if edit.add is None else edit.add[OBJECT_ID].to_pylist()
    gone = _withdraw_dropped(plan.catalog, added)
    tables = tuple(Identifier((name,)) for name in added if name not in gone)
    skipped = tuple(Skipped(f"{name}.lance", "it has since been dropped or deregistered") for name in sorted(gone))
    return Migration(plan.catalog, tables, plan.registered, (*plan.skipped, *skipped), executed=True)


def _withdraw_dropped(catalog: Catalog, names: Sequence[str]) -> frozenset[str]:
    """Remove the rows of tables that a writer of V1 dropped or deregistered between the scan and the commit."""
    states = look(catalog.root, [f"{name}.lance" for name in names])
    gone = [name for name in names if not states[f"{name}.lance"].is_table]
    if gone:
        manifest_commits.apply(
            catalog.manifest, RemoveRows(tuple(Entry(name, TABLE, f"{name}.lance") for name in gone))
        )
    return frozenset(gone)
