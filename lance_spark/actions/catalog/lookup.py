"""Finding a table: first in ``__manifest``, then as a directory (specification "Compatibility Mode")."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.actions.catalog.opening import need_manifest
from lance_spark.catalog.changes import Wanted, missing_table, refusal
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
class Found:
    """A table."""

    identifier: Identifier
    path: str | None
    """Its directory, relative to the root; None where another tool wrote a row without one."""
    entry: Entry | None
    """Its row; None for a table that is a directory only."""
    state: DirectoryState | None = None
    """What is in the directory; None where nobody looked, because there is a row."""

    @property
    def properties(self) -> dict[str, str]:
        """Its properties; directories have none."""
        return {} if self.entry is None else self.entry.properties


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


def describe(catalog: Catalog, found: Found) -> TableInfo:
    """A table that was found, described."""
    location = located(catalog, found)
    declared = not files.list_names(location, VERSIONS)
    return TableInfo(found.identifier, location, found.path or "", found.properties, found.entry is not None, declared)


def located(catalog: Catalog, found: Found) -> DatasetLocation:
    """The location of a table that was found. Raises CorruptData for a row that leads nowhere."""
    if found.path is None:
        raise CorruptData(
            f"The row of table '{found.identifier}' in the catalog has no location.",
            hint="Drop the table, and register its directory again.",
        )
    return catalog.at(found.path)


def find_table(catalog: Catalog, identifier: Identifier, doing: str, deregistered: bool = False) -> Found:
    """A table by its name; with ``deregistered`` also one that is a directory only and marked so.

    Raises NotFound, and Refused for a namespace in V1.
    """
    if not identifier.in_root:
        need_manifest(catalog, doing)
    directory = v1_directory(identifier) if catalog.reads_directories and identifier.in_root else None
    rows = no_rows()
    # Who claims the directory is asked last: there is no index on locations.
    for locations in _asked(catalog, directory):
        rows = read_rows(catalog.manifest, Wanted((identifier.object_id,), locations=locations))
        entry = rows.find(identifier.object_id)
        if entry is not None and entry.is_table:
            return Found(identifier, entry.location, entry)
    if directory is None:
        raise missing_table(rows, identifier, doing)
    return _find_directory(catalog, rows, identifier, directory, (doing, deregistered))


def _asked(catalog: Catalog, directory: str | None) -> tuple[tuple[str, ...], ...]:
    if not catalog.reads_manifest:
        return ()
    return ((),) if directory is None else ((), (directory,))


def _find_directory(
    catalog: Catalog, rows: Rows, identifier: Identifier, directory: str, how: tuple[str, bool]
) -> Found:
    doing, deregistered = how
    if claimed := rows.at(directory):
        raise _claimed(claimed[0], doing)
    if rows.find(identifier.object_id) is not None:  # a namespace: it comes first, as everything in the manifest
        raise missing_table(rows, identifier, doing)
    state = look_at(catalog.root, directory)
    if state.is_table:
        return Found(identifier, directory, None, state)
    if state.deregistered:
        if is_leaving(read_mark(markers.content_of(catalog.at(directory), DEREGISTERED))):
            raise being_taken(doing)
        if not deregistered:
            raise refusal(NotFound, doing, "it is deregistered", hint="Register it again.")
        return Found(identifier, directory, None, state)
    raise missing_table(rows, identifier, doing)


def being_taken(doing: str) -> LanceSparkError:
    """NotFound for a directory that somebody has marked to drop or to rename it."""
    return refusal(
        NotFound,
        doing,
        "it is being dropped or renamed by somebody else",
        hint="If that was interrupted: the job for orphans collects the rest of a drop, and the doctor shows a table "
        "again that was to be renamed.",
    )


def _claimed(entry: Entry, doing: str) -> LanceSparkError:
    return refusal(
        NotFound, doing, "there is no such table", hint=f"Its directory is that of table '{entry.identifier}' by now."
    )


def look_again(catalog: Catalog, found: Found, doing: str) -> Found:
    """A table that was a directory only, after the directory was marked: with its row, if it got one just before.

    From the mark on nobody gives the directory a row any more. Raises NotFound if it is another table's by now.
    """
    if found.entry is not None or not catalog.reads_manifest or found.path is None:
        return found
    claimed = read_rows(catalog.manifest, Wanted(locations=(found.path,))).at(found.path)
    if not claimed:
        return found
    if claimed[0].object_id != found.identifier.object_id or not claimed[0].is_table:
        raise _claimed(claimed[0], doing)
    return Found(found.identifier, found.path, claimed[0], found.state)
