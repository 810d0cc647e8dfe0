"""Changes of properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lance_spark.catalog.changes import Edit, RowFilter, find_namespace, find_table
from lance_spark.catalog.entries import METADATA, Rows, changed_rows, decode_metadata, encode_properties
from lance_spark.catalog.names import TABLE, Identifier


@dataclass(frozen=True)
class AlterProperties:
    """Other properties for a namespace or a table."""

    identifier: Identifier
    kind: str
    put: Mapping[str, str]
    unset: Sequence[str] = ()

    @property
    def doing(self) -> str:
        """Completes "Cannot ..."."""
        return f"alter the properties of {self.kind} '{self.identifier}'"

    @property
    def needs(self) -> RowFilter:
        """The id."""
        return RowFilter(ids=(self.identifier.object_id,))

    def after(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """The properties afterwards."""
        return {key: value for key, value in {**before, **self.put}.items() if key not in self.unset}

    def edit(self, rows: Rows) -> Edit:
        """Raises NotFound. What another tool wrote beside the properties stays as it is."""
        find = find_table if self.kind == TABLE else find_namespace
        entry = find(rows, self.identifier, self.doing)
        before = decode_metadata(entry.metadata, entry.object_id)
        after = self.after(before)
        if after == before:
            return Edit(before=(entry,))
        altered = changed_rows(rows.only([entry.object_id]), METADATA, [encode_properties(after)])
        return Edit(remove=(entry.object_id,), add=altered, before=(entry,))
