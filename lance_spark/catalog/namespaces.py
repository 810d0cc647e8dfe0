"""Changes of namespaces: add, remove."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lance_spark.catalog.changes import Edit, Wanted, check_free, check_parent, find_namespace, refusal
from lance_spark.catalog.entries import Entry, Rows, encode_properties, new_rows
from lance_spark.catalog.names import NAMESPACE, Identifier
from lance_spark.errors import Refused


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
    def wanted(self) -> Wanted:
        """The id and its parent."""
        return Wanted(ids=(self.identifier.object_id, self.identifier.parent.object_id))

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

    @property
    def doing(self) -> str:
        """Completes "Cannot ..."."""
        return f"drop namespace '{self.identifier}'"

    @property
    def wanted(self) -> Wanted:
        """The namespace and all that is in it; for a cascade, everybody who names a directory."""
        found = self.identifier.object_id
        return Wanted(everything=True) if self.cascade else Wanted((found,), (found,))

    def edit(self, rows: Rows) -> Edit:
        """Raises NotFound, and Refused for a namespace that is not empty."""
        entry = find_namespace(rows, self.identifier, self.doing)
        inside = rows.below(entry.object_id)
        if inside and not self.cascade:
            shown = ", ".join(f"'{found.identifier}'" for found in inside[:3])
            raise refusal(
                Refused,
                self.doing,
                f"it is not empty: {shown}{', ...' if len(inside) > 3 else ''}",
                hint="Drop what is in it first, or ask for a cascade.",
            )
        gone = (entry, *inside)
        ids = {found.object_id for found in gone}
        staying = {found.location for found in rows.entries if found.object_id not in ids and found.location}
        return Edit(
            remove=tuple(ids),
            before=gone,
            shared=frozenset(found.location for found in gone if found.location in staying and found.location),
        )
