"""Finding a table: first in ``__manifest``, then as a directory (specification "Compatibility Mode")."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.actions.catalog.opening import need_manifest
from lance_spark.catalog.changes import RowFilter, missing_table, refusal
from lance_spark.catalog.directory import DEREGISTERED, VERSIONS, DirectoryState, is_leaving, read_mark, v1_directory
from lance_spark.catalog.entries import Entry, Rows, no_rows
from lance_spark.catalog.model import Catalog, TableInfo
from lance_spark.catalog.names import Identifier, Name, identify_table
from lance_spark.errors import CorruptData, LanceSparkError, NotFound
from lance_spark.location import DatasetLocation
from lance_spark.store import files
from lance_spark.store.catalog import markers
from lance_spark.store.catalog.directories import look_at
from lance_spark.store.catalog.snapshots import read_rows


@dataclass(frozen=True)
class FoundTable:
    """A table."""

    identifier: Identifier
    path: str | None
    """Its directory, relative to the root; None where another tool wrote a row without one."""
    entry: Entry | None
    """Its row; None for a table that is a directory only."""
    state: DirectoryState | None = None
    """What is in the directory; None where there is a row: then the directory is not looked at."""

    @property
    def properties(self) -> dict[str, str]:
        """Its properties; directories have none."""
        return {} if self.entry is None else self.entry.properties

    @property
    def was_deregistered(self) -> bool:
        """Whether the directory had the mark when it was looked at."""
        return self.state is not None and self.state.deregistered


def locate_table(catalog: Catalog, name: Name) -> DatasetLocation:
    """Where a table's data is. Raises InvalidName, NotFound.

    One look into ``__manifest``; whether there is data in that place is not looked at.
    """
    identifier = identify_table(name)
    return located(catalog, find_table(catalog, identifier, f"open table '{identifier}'"))


def table_exists(catalog: Catalog, name: Name) -> bool:
    """Whether there is such a table, with data or only declared. Raises InvalidName."""
    identifier = identify_table(name)
    try:
        find_table(catalog, identifier, f"look for table '{identifier}'")
    except NotFound:
        return False
    return True


def describe_table(catalog: Catalog, name: Name) -> TableInfo:
    """A table's location and properties. Raises InvalidName, NotFound."""
    identifier = identify_table(name)
    return describe(catalog, find_table(catalog, identifier, f"describe table '{identifier}'"))


def describe(catalog: Catalog, table: FoundTable) -> TableInfo:
    """A table that was found, described."""
    location = located(catalog, table)
    declared = not files.list_names(location, VERSIONS)
    return TableInfo(table.identifier, location, table.path or "", table.properties, table.entry is not None, declared)


def located(catalog: Catalog, table: FoundTable) -> DatasetLocation:
    """The location of a table that was found. Raises CorruptData for a row that leads nowhere."""
    if table.path is None:
        raise CorruptData(
            f"The row of table '{table.identifier}' in the catalog has no location.",
            hint="Drop the table, and register its directory again.",
        )
    return catalog.at(table.path)


def find_table(catalog: Catalog, identifier: Identifier, doing: str, deregistered: bool = False) -> FoundTable:
    """A table by its name; with ``deregistered`` also one that is a directory only and marked so.

    Raises NotFound, and Refused for a namespace in V1.
    """
    if not identifier.in_root:
        need_manifest(catalog, doing)
    directory = v1_directory(identifier) if catalog.reads_directories and identifier.in_root else None
    rows = no_rows()
    # Which row names the directory is asked last: there is no index on locations.
    for locations in _asked(catalog, directory):
        rows = read_rows(catalog.manifest, RowFilter((identifier.object_id,), locations=locations))
        entry = rows.find(identifier.object_id)
        if entry is not None and entry.is_table:
            return FoundTable(identifier, entry.location, entry)
    if directory is None:
        raise missing_table(rows, identifier, doing)
    table = _find_directory(catalog, rows, identifier, doing)
    if table.was_deregistered and not deregistered:
        raise refusal(NotFound, doing, "it is deregistered", hint="Register it again.")
    return table


def _asked(catalog: Catalog, directory: str | None) -> tuple[tuple[str, ...], ...]:
    if not catalog.reads_manifest:
        return ()
    return ((),) if directory is None else ((), (directory,))


def _find_directory(catalog: Catalog, rows: Rows, identifier: Identifier, doing: str) -> FoundTable:
    directory = v1_directory(identifier)
    if claimed := rows.at(directory):
        raise _claimed(claimed[0], doing)
    if rows.find(identifier.object_id) is not None:  # a namespace: it comes first, as everything in the manifest
        raise missing_table(rows, identifier, doing)
    state = look_at(catalog.root, directory)
    if not state.has_files:
        raise missing_table(rows, identifier, doing)
    if state.deregistered and is_leaving(read_mark(markers.content_of(catalog.at(directory), DEREGISTERED))):
        raise being_taken(doing)
    return FoundTable(identifier, directory, None, state)


def being_taken(doing: str) -> LanceSparkError:
    """NotFound for a directory that another process has marked, to drop or to rename it."""
    return refusal(
        NotFound,
        doing,
        "another process is dropping or renaming it",
        hint="If that was interrupted: the job for orphans collects the rest of a drop, and the doctor shows a table "
        "again that was to be renamed.",
    )


def _claimed(entry: Entry, doing: str) -> LanceSparkError:
    return refusal(
        NotFound, doing, "there is no such table", hint=f"Its directory is that of table '{entry.identifier}' by now."
    )


def look_again(catalog: Catalog, table: FoundTable, doing: str) -> FoundTable:
    """A table that was a directory only, after the directory was marked: with its row, if it got one just before.

    From the mark on no process gives the directory a row any more. Raises NotFound if it is another table's by now.
    """
    if table.entry is not None or not catalog.reads_manifest or table.path is None:
        return table
    claimed = read_rows(catalog.manifest, RowFilter(locations=(table.path,))).at(table.path)
    if not claimed:
        return table
    if claimed[0].object_id != table.identifier.object_id or not claimed[0].is_table:
        raise _claimed(claimed[0], doing)
    return FoundTable(table.identifier, table.path, claimed[0], table.state)
