"""Changes that mend what other tools, or crashes, left behind."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.catalog.changes import Edit, Wanted
from lance_spark.catalog.entries import Entry, Rows, new_rows
from lance_spark.catalog.names import NAMESPACE


@dataclass(frozen=True)
class AddNamespaces:
    """Namespaces that rows are in, but that nobody created."""

    object_ids: tuple[str, ...]
    doing: str = "add missing namespaces"

    @property
    def wanted(self) -> Wanted:
        """The ids."""
        return Wanted(ids=self.object_ids)

    def edit(self, rows: Rows) -> Edit:
        """Raises nothing."""
        entries = [Entry(found, NAMESPACE) for found in self.object_ids if rows.find(found) is None]
        return Edit(add=new_rows(rows.table.schema, entries))


@dataclass(frozen=True)
class RemoveRows:
    """Rows of some ids go, as they are; for repairs."""

    entries: tuple[Entry, ...]
    doing: str = "remove dead rows"

    @property
    def wanted(self) -> Wanted:
        """The ids."""
        return Wanted(ids=tuple(entry.object_id for entry in self.entries))

    def edit(self, rows: Rows) -> Edit:
        """Rows that were changed since stay."""
        gone = tuple(entry for entry in self.entries if entry in rows.entries)
        return Edit(remove=tuple(entry.object_id for entry in gone), before=gone)
