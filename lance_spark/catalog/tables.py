"""Changes of tables: add, remove, rename."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lance_spark.catalog.changes import (
    Edit,
    RowFilter,
    check_free,
    check_parent,
    check_same,
    check_unclaimed,
    find_table,
)
from lance_spark.catalog.entries import LOCATION, OBJECT_ID, Entry, Rows, changed_rows, encode_properties, new_rows
from lance_spark.catalog.names import NAMESPACE, TABLE, Identifier

_KNOWN = (TABLE, NAMESPACE)


@dataclass(frozen=True)
class AddTable:
    """A row for a table's directory."""

    identifier: Identifier
    location: str
    properties: Mapping[str, str]
    verb: str = "create"
    unique: bool = False
    """Whether no other process can have made up this location."""

    @property
    def doing(self) -> str:
        """Completes "Cannot ..."."""
        return f"{self.verb} table '{self.identifier}'"

    @property
    def entry(self) -> Entry:
        """The row."""
        return Entry(self.identifier.object_id, TABLE, self.location, encode_properties(self.properties))

    @property
    def needs(self) -> RowFilter:
        """The id, its parent, and whoever names the directory."""
        return RowFilter((self.identifier.object_id, self.identifier.parent.object_id), locations=(self.location,))

    def edit(self, rows: Rows) -> Edit:
        """Raises AlreadyExists, NotFound for a missing parent."""
        same = rows.find(self.identifier.object_id)
        if self.unique and same is not None and same.location == self.location:
            return Edit()  # an attempt that seemed to fail had arrived
        check_free(rows, self.identifier, self.doing)
        check_parent(rows, self.identifier, self.doing)
        check_unclaimed(rows, self.location, self.doing)
        return Edit(add=new_rows(rows.table.schema, [self.entry]))


@dataclass(frozen=True)
class AddTables:
    """Rows for many directories of tables in the root, in one commit; what is there already stays as it is."""

    locations: Mapping[str, str]
    """Directory by name of the table."""
    doing: str = "add tables"

    @property
    def needs(self) -> RowFilter:
        """All rows: any of them may name one of the directories."""
        return RowFilter(everything=True)

    def edit(self, rows: Rows) -> Edit:
        """Raises nothing: two that migrate at once have the same wish."""
        taken = set(rows.table[OBJECT_ID].to_pylist())
        claimed = set(rows.table[LOCATION].to_pylist())
        entries = [
            Entry(name, TABLE, location)
            for name, location in sorted(self.locations.items())
            if name not in taken and location not in claimed
        ]
        return Edit(add=new_rows(rows.table.schema, entries))


@dataclass(frozen=True)
class RemoveTable:
    """A table's row goes, with the rows that belong to it."""

    identifier: Identifier
    location: str | None
    """As it was when the table was looked up."""
    verb: str = "drop"

    @property
    def doing(self) -> str:
        """Completes "Cannot ..."."""
        return f"{self.verb} table '{self.identifier}'"

    @property
    def needs(self) -> RowFilter:
        """The id, what belongs to it, and whoever names the same directory."""
        own = self.identifier.object_id
        return RowFilter((own,), (own,), () if self.location is None else (self.location,))

    def edit(self, rows: Rows) -> Edit:
        """Raises NotFound, and Conflict for a table that was created again in another directory."""
        entry = find_table(rows, self.identifier, self.doing)
        check_same(entry, self.location, self.doing)
        family = _family(rows, entry)
        others = self.location and [row for row in rows.at(self.location) if row.object_id != entry.object_id]
        return Edit(
            remove=tuple(row.object_id for row in family),
            before=tuple(family),
            shared=frozenset({self.location}) if self.location and others else frozenset(),
        )


@dataclass(frozen=True)
class RenameTable:
    """A table gets another name, maybe in another namespace, and maybe another directory."""

    old: Identifier
    new: Identifier
    location: str
    """As it was when the table was looked up."""
    new_location: str

    @property
    def doing(self) -> str:
        """Completes "Cannot ..."."""
        return f"rename table '{self.old}' to '{self.new}'"

    @property
    def needs(self) -> RowFilter:
        """Both ids, the new parent, what belongs to the table, and whoever names the new directory."""
        ids = (self.old.object_id, self.new.object_id, self.new.parent.object_id)
        return RowFilter(ids, (self.old.object_id,), (self.location, self.new_location))

    def edit(self, rows: Rows) -> Edit:
        """Raises NotFound, AlreadyExists, and Conflict for a table that was created again."""
        renamed = rows.find(self.new.object_id)
        if rows.find(self.old.object_id) is None and renamed is not None and self._is_done(renamed):
            return Edit()  # an attempt that seemed to fail had arrived
        entry = find_table(rows, self.old, self.doing)
        check_same(entry, self.location, self.doing)
        check_free(rows, self.new, self.doing)
        check_parent(rows, self.new, self.doing)
        if self.new_location != self.location:
            check_unclaimed(rows, self.new_location, self.doing)
        family = _family(rows, entry)
        ids = [row.object_id for row in family]
        table = rows.only(ids)
        names = [self.new.object_id + name[len(self.old.object_id) :] for name in table[OBJECT_ID].to_pylist()]
        places = [self.new_location if path == self.location else path for path in table[LOCATION].to_pylist()]
        moved = changed_rows(changed_rows(table, OBJECT_ID, names), LOCATION, places)
        others = [row for row in rows.at(self.location) if row.object_id != entry.object_id]
        return Edit(
            remove=tuple(ids),
            add=moved,
            before=tuple(family),
            shared=frozenset({self.location} if others else ()),
        )

    def _is_done(self, renamed: Entry) -> bool:
        return self.new_location != self.location and renamed.location == self.new_location


def _family(rows: Rows, entry: Entry) -> list[Entry]:
    """A table's row, and the rows of other types that belong to it: ``table_version`` has the id ``<table>$<n>``.

    Left behind, they would be taken for those of the next table of that name.
    """
    return [entry, *(row for row in rows.below(entry.object_id) if row.object_type not in _KNOWN)]
