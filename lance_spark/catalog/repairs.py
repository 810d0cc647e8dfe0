"""Changes that mend what other tools, or crashes, left behind."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.catalog.changes import Edit, RowFilter
from lance_spark.catalog.entries import Entry, Rows, new_rows
from lance_spark.catalog.names import NAMESPACE


@dataclass(frozen=True)
class AddNamespaces:
    """Namespaces that rows are in, but that were never created."""

    object_ids: tuple[str, ...]
    doing: str = "add missing namespaces"

    @property
    def needs(self) -> RowFilter:
        """The ids."""
        return RowFilter(ids=self.object_ids)

    def edit(self, rows: Rows) -> Edit:
        """Raises nothing."""
        entries = [Entry(object_id, NAMESPACE) for object_id in self.object_ids if rows.find(object_id) is None]
        return Edit(add=new_rows(rows.table.schema, entries))


@dataclass(frozen=True)
class RemoveRows:
    """Rows of some ids go, as they are; for repairs."""

    entries: tuple[Entry, ...]
    doing: str = "remove dead rows"

    @property
    def needs(self) -> RowFilter:
        """The ids."""
        return RowFilter(ids=tuple(entry.object_id for entry in self.entries))

    def edit(self, rows: Rows) -> Edit:
        """Rows that were changed since stay."""
        gone = tuple(entry for entry in self.entries if entry in rows.entries)
        return Edit(remove=tuple(entry.object_id for entry in gone), before=gone)
