"""Changes of namespaces: add, remove."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lance_spark.catalog.changes import Edit, RowFilter, check_free, check_parent, find_namespace, refusal
from lance_spark.catalog.entries import Entry, Rows, encode_properties, new_rows
from lance_spark.catalog.names import NAMESPACE, Identifier, from_object_id
from lance_spark.errors import Conflict, Refused


@dataclass(frozen=True)
class AddNamespace:
    """A new namespace."""

    identifier: Identifier
    properties: Mapping[str, str]

    @property
    def doing(self) -> str:
        """Completes "Cannot ..."."""
        return f"create namespace '{self.identifier}'"

    @property
    def needs(self) -> RowFilter:
        """The id and its parent."""
        return RowFilter(ids=(self.identifier.object_id, self.identifier.parent.object_id))

    def edit(self, rows: Rows) -> Edit:
        """Raises AlreadyExists, NotFound for a missing parent."""
        check_free(rows, self.identifier, self.doing)
        check_parent(rows, self.identifier, self.doing)
        entry = Entry(self.identifier.object_id, NAMESPACE, None, encode_properties(self.properties))
        return Edit(add=new_rows(rows.table.schema, [entry]))


@dataclass(frozen=True)
class RemoveNamespace:
    """A namespace's row goes, with all that is in it if ``cascade``."""

    identifier: Identifier
    cascade: bool
    known: tuple[str, ...] | None = None
    """Ids of the rows that may go; None for all. What was created since a plan is not what its reader agreed to."""

    @property
    def doing(self) -> str:
        """Completes "Cannot ..."."""
        return f"drop namespace '{self.identifier}'"

    @property
    def needs(self) -> RowFilter:
        """The namespace and all that is in it; for a cascade, all rows, as any may name a directory."""
        own = self.identifier.object_id
        return RowFilter(everything=True) if self.cascade else RowFilter((own,), (own,))

    def edit(self, rows: Rows) -> Edit:
        """Raises NotFound, Refused for a namespace that is not empty, Conflict for rows that came since the plan."""
        entry = find_namespace(rows, self.identifier, self.doing)
        inside = rows.below(entry.object_id)
        if inside and not self.cascade:
            shown = ", ".join(f"'{row.identifier}'" for row in inside[:3])
            raise refusal(
                Refused,
                self.doing,
                f"it is not empty: {shown}{', ...' if len(inside) > 3 else ''}",
                hint="Drop what is in it first, or ask for a cascade.",
            )
        gone = (entry, *inside)
        ids = {row.object_id for row in gone}
        if self.known is not None and (new := sorted(ids.difference(self.known))):
            name = from_object_id(new[0])
            raise refusal(Conflict, self.doing, f"'{name}' was created in it in the meantime", hint="Run it again.")
        staying = {row.location for row in rows.entries if row.object_id not in ids and row.location}
        return Edit(
            remove=tuple(ids),
            before=gone,
            shared=frozenset(row.location for row in gone if row.location in staying and row.location),
        )
