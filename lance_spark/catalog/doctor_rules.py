"""Problems of a catalog, found in its rows and a listing of its directories, and changes that repair them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.catalog.entry_rules import (
    INDEXES,
    OBJECT_ID,
    PRIMARY_KEY,
    SCHEMA,
    SUFFIX,
    DirectoryState,
    Edit,
    Entry,
    RowFilter,
    Rows,
    new_rows,
    v1_name,
)
from lance_spark.catalog.name_rules import DELIMITER, NAMESPACE, is_inside, is_sound

DEAD_ROW = "dead row"
DUPLICATE_ID = "duplicate id"
DUPLICATE_LOCATION = "duplicate location"
MISSING_PARENT = "missing namespace"
ODD_NAME = "odd name"
OUTSIDE = "location outside"
STRAY_ROW = "stray row"
MISSING_INDEX = "missing index"
MISSING_KEY = "missing primary key"
LOST_COLUMN = "lost column"
HIDDEN = "hidden from V1"
UNREGISTERED = "not registered"
GHOST = "ghost"
ORPHAN = "orphan directory"
LEFTOVER = "left behind"
MENDABLE = frozenset({DEAD_ROW, MISSING_PARENT, STRAY_ROW, MISSING_INDEX, MISSING_KEY, HIDDEN})
"""The kinds that can be repaired reversibly."""


@dataclass(frozen=True, order=True)
class Finding:
    kind: str
    subject: str
    """The id of a row, or a path below the root."""
    message: str

    @property
    def mendable(self) -> bool:
        return self.kind in MENDABLE


def row_findings(entries: Collection[Entry]) -> Iterator[Finding]:
    ids = Counter(entry.object_id for entry in entries)
    kinds = {entry.object_id: entry.object_type for entry in entries}
    namespaces = {object_id for object_id, kind in kinds.items() if kind == "namespace"}
    locations: dict[str, list[str]] = {}
    for entry in entries:
        if entry.location:
            locations.setdefault(entry.location, []).append(entry.object_id)
    for object_id, count in ids.items():
        if count > 1:
            yield Finding(DUPLICATE_ID, object_id, f"{count} rows have this id, so it is ambiguous for every tool.")
    for location, owners in locations.items():
        if len(owners) > 1:
            names = " and ".join(f"'{owner}'" for owner in sorted(owners))
            yield Finding(DUPLICATE_LOCATION, location, f"It is the directory of {names}: dropping one empties both.")
    for entry in entries:
        yield from _of_row(entry, kinds, namespaces)


def _of_row(entry: Entry, kinds: Mapping[str, str], namespaces: Collection[str]) -> Iterator[Finding]:
    parent = entry.object_id.rpartition(DELIMITER)[0]
    if not entry.is_table and not entry.is_namespace:
        if parent and parent not in kinds:
            yield Finding(STRAY_ROW, entry.object_id, f"'{entry.object_type}' of something that no longer exists.")
        return
    if parent and parent not in namespaces:
        yield Finding(MISSING_PARENT, entry.object_id, f"There is no namespace '{parent}': pylance does not check it.")
    if not is_sound(entry.object_id):
        yield Finding(ODD_NAME, entry.object_id, "New objects cannot have such a name; rename it.")
    if entry.is_table and not is_inside(entry.location):
        yield Finding(OUTSIDE, entry.object_id, f"'{entry.location}' is not below the root; it is never touched.")


def dead_rows(entries: Collection[Entry], states: Mapping[str, bool]) -> Iterator[Finding]:
    """Rows whose directory has no file. ``states`` is, by location, whether it has one."""
    for entry in entries:
        if entry.is_table and entry.location and not states.get(entry.location, True):
            yield Finding(DEAD_ROW, entry.object_id, f"There is no file in its directory '{entry.location}'.")


def table_findings(schema: pa.Schema, indexes: Collection[str], older: Mapping[str, int]) -> Iterator[Finding]:
    """Parts that the table itself lacks. ``older`` are columns of older versions, with the newest one that has each."""
    for name, column, _ in INDEXES:
        if name not in indexes:
            yield Finding(MISSING_INDEX, name, f"pylance's namespace removes the index on '{column}' with every write.")
    if OBJECT_ID in schema.names and PRIMARY_KEY not in (schema.field(OBJECT_ID).metadata or {}):
        yield Finding(MISSING_KEY, OBJECT_ID, "The column is not marked as the table's primary key.")
    for name in sorted(set(SCHEMA.names) - set(schema.names)):
        yield Finding(MISSING_KEY, name, "The table lacks this column of the specification.")
    for name, version in sorted(older.items()):
        if name not in schema.names:
            yield Finding(
                LOST_COLUMN,
                name,
                f"Version {version} of __manifest has this column; pylance's namespace drops columns it does not know.",
            )


def directory_findings(
    entries: Collection[Entry], states: Mapping[str, DirectoryState], plain: Collection[str], reads_directories: bool
) -> Iterator[Finding]:
    """Problems of directories named ``<name>.lance``. ``plain`` are files directly in the root."""
    owners = {entry.location: entry for entry in entries if entry.location}
    for name in plain:
        if name.endswith(SUFFIX):
            yield Finding(GHOST, name, "It is a file; pylance lists it as a table.")
    for directory, state in states.items():
        owner = owners.get(directory)
        if v1_name(directory) is None:
            if directory.endswith(SUFFIX):
                yield Finding(GHOST, directory, "pylance lists it as a table without a name.")
        elif owner is not None:
            if reads_directories and state.deregistered:
                yield Finding(HIDDEN, directory, f"The table '{owner.object_id}' is marked as deregistered in V1.")
        elif not state.has_files:
            yield Finding(GHOST, directory, "It has no files; pylance lists it as a table.")
        elif not state.deregistered:
            yield Finding(UNREGISTERED, directory, "It is a table of V1 only; migrate the catalog.")


# --- Changes that repair damage by other tools or crashes


@dataclass(frozen=True)
class AddNamespaces:
    """Adds namespaces that contain rows but were never created."""

    object_ids: tuple[str, ...]
    doing: str = "add missing namespaces"

    @property
    def needs(self) -> RowFilter:
        return RowFilter(ids=self.object_ids)

    def edit(self, rows: Rows) -> Edit:
        """Raises nothing."""
        entries = [Entry(object_id, NAMESPACE) for object_id in self.object_ids if rows.find(object_id) is None]
        return Edit(add=new_rows(rows.table.schema, entries))


@dataclass(frozen=True)
class RemoveRows:
    """Removes the rows of some ids as they are; for repairs."""

    entries: tuple[Entry, ...]
    doing: str = "remove dead rows"

    @property
    def needs(self) -> RowFilter:
        return RowFilter(ids=tuple(entry.object_id for entry in self.entries))

    def edit(self, rows: Rows) -> Edit:
        """Rows that were changed since are kept."""
        gone = tuple(entry for entry in self.entries if entry in rows.entries)
        return Edit(remove=tuple(entry.object_id for entry in gone), before=gone)
