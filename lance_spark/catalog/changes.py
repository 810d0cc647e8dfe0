"""Changes to a catalog: (rows of ``__manifest``, wish) -> rows to delete and to add, or an error of ours. Pure.

A change says which rows it has to see. It is decided on one version and committed on just that version, so that what it
saw is still so: a parent exists, an id is free (specification "Manifest Table Commits").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from lance_spark.catalog.entries import LOCATION, OBJECT_ID, Entry, Rows
from lance_spark.catalog.names import DELIMITER, Identifier
from lance_spark.errors import AlreadyExists, Conflict, LanceSparkError, NotFound


@dataclass(frozen=True)
class RowFilter:
    """Which rows a decision needs."""

    ids: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    """Ids; all rows are needed whose ids go on from one of them."""
    locations: tuple[str, ...] = ()
    everything: bool = False

    def predicate(self) -> str | None:
        """For pylance; None for all rows."""
        if self.everything:
            return None
        parts = []
        if self.ids:
            parts.append(f"{OBJECT_ID} IN ({', '.join(map(quoted, self.ids))})")
        parts += [below(object_id) for object_id in self.below]
        if self.locations:
            parts.append(f"{LOCATION} IN ({', '.join(map(quoted, self.locations))})")
        return " OR ".join(parts) or "false"


def quoted(text: str) -> str:
    """Text inside a predicate. Names of other tools may hold quotes."""
    return "'{}'".format(text.replace("'", "''"))


def below(object_id: str) -> str:
    """A predicate for all rows whose ids go on from one: a range, which the index on the ids can serve."""
    after = chr(ord(DELIMITER) + 1)
    return f"({OBJECT_ID} >= {quoted(object_id + DELIMITER)} AND {OBJECT_ID} < {quoted(object_id + after)})"


@dataclass(frozen=True)
class Edit:
    """What a change does to the rows. The ids in ``remove`` go, then the rows in ``add`` come."""

    remove: tuple[str, ...] = ()
    add: pa.Table | None = None
    before: tuple[Entry, ...] = ()
    """The rows that go or change, as they were."""
    shared: frozenset[str] = field(default=frozenset())
    """Directories of rows that go, which rows that stay name as well."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be done."""
        return not self.remove and (self.add is None or self.add.num_rows == 0)


class CatalogChange(Protocol):
    """A wish."""

    @property
    def doing(self) -> str:
        """Completes "Cannot ..."."""

    @property
    def needs(self) -> RowFilter:
        """The rows it is decided on."""

    def edit(self, rows: Rows) -> Edit:
        """The decision. Raises an error of ours where the wish cannot be granted."""


def refusal(kind: type[LanceSparkError], doing: str, why: str, hint: str | None = None) -> LanceSparkError:
    """An error that tells the operation, the id and the reason, in the same words everywhere."""
    return kind(f"Cannot {doing}: {why}.", hint=hint)


def check_parent(rows: Rows, identifier: Identifier, doing: str) -> None:
    """Raise NotFound unless the namespace that something is to be put into exists."""
    parent = identifier.parent
    if parent.is_root:
        return
    entry = rows.find(parent.object_id)
    if entry is None or not entry.is_namespace:
        raise refusal(NotFound, doing, f"there is no namespace '{parent}'", hint="Create the namespace first.")


def check_free(rows: Rows, identifier: Identifier, doing: str) -> None:
    """Raise AlreadyExists if the id is taken, whatever by."""
    entry = rows.find(identifier.object_id)
    if entry is not None:
        raise refusal(AlreadyExists, doing, f"there is a {entry.object_type} of that name already")


def check_unclaimed(rows: Rows, location: str, doing: str) -> None:
    """Raise AlreadyExists if a row names the directory: with two, dropping one table deletes the other's rows."""
    entry = rows.at(location)
    if entry:
        raise refusal(AlreadyExists, doing, f"the directory '{location}' is that of '{entry[0].identifier}'")


def find_table(rows: Rows, identifier: Identifier, doing: str) -> Entry:
    """The row of a table. Raises NotFound."""
    entry = rows.find(identifier.object_id)
    if entry is None or not entry.is_table:
        raise missing_table(rows, identifier, doing)
    return entry


def missing_table(rows: Rows, identifier: Identifier, doing: str) -> LanceSparkError:
    """NotFound, which tells if there is a namespace of that name."""
    entry = rows.find(identifier.object_id)
    hint = "There is a namespace of that name." if entry is not None and entry.is_namespace else None
    return refusal(NotFound, doing, "there is no such table", hint=hint)


def find_namespace(rows: Rows, identifier: Identifier, doing: str) -> Entry:
    """The row of a namespace. Raises NotFound."""
    entry = rows.find(identifier.object_id)
    if entry is None or not entry.is_namespace:
        hint = "There is a table of that name." if entry is not None and entry.is_table else None
        raise refusal(NotFound, doing, "there is no such namespace", hint=hint)
    return entry


def check_same(entry: Entry, location: str | None, doing: str) -> None:
    """Raise Conflict when a table is not in the directory any more where it was when it was looked up."""
    if entry.location != location:
        raise refusal(Conflict, doing, "it was moved or created again in the meantime", hint="Run it again.")
