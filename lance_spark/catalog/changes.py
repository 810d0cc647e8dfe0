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
class Wanted:
    """Which rows a decision needs."""

    ids: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    """Ids of which all rows are wanted whose ids go on from them."""
    locations: tuple[str, ...] = ()
    everything: bool = False

    def filter(self) -> str | None:
        """As a predicate for pylance; None for all rows."""
        if self.everything:
            return None
        parts = []
        if self.ids:
            parts.append(f"{OBJECT_ID} IN ({', '.join(map(quoted, self.ids))})")
        parts += [below(found) for found in self.below]
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


class Change(Protocol):
    """A wish."""

    @property
    def doing(self) -> str:
        """Completes "Cannot ..."."""

    @property
    def wanted(self) -> Wanted:
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
    found = rows.find(parent.object_id)
    if found is None or not found.is_namespace:
        raise refusal(NotFound, doing, f"there is no namespace '{parent}'", hint="Create the namespace first.")


def check_free(rows: Rows, identifier: Identifier, doing: str) -> None:
    """Raise AlreadyExists if the id is taken, whatever by."""
    found = rows.find(identifier.object_id)
    if found is not None:
        raise refusal(AlreadyExists, doing, f"there is a {found.object_type} of that name already")


def check_unclaimed(rows: Rows, location: str, doing: str) -> None:
    """Raise AlreadyExists if a row names the directory: with two, dropping one table deletes the other's rows."""
    found = rows.at(location)
    if found:
        raise refusal(AlreadyExists, doing, f"the directory '{location}' is that of '{found[0].identifier}'")


def find_table(rows: Rows, identifier: Identifier, doing: str) -> Entry:
    """The row of a table. Raises NotFound."""
    found = rows.find(identifier.object_id)
    if found is None or not found.is_table:
        raise missing_table(rows, identifier, doing)
    return found


def missing_table(rows: Rows, identifier: Identifier, doing: str) -> LanceSparkError:
    """NotFound, which tells if there is a namespace of that name."""
    found = rows.find(identifier.object_id)
    hint = "There is a namespace of that name." if found is not None and found.is_namespace else None
    return refusal(NotFound, doing, "there is no such table", hint=hint)


def find_namespace(rows: Rows, identifier: Identifier, doing: str) -> Entry:
    """The row of a namespace. Raises NotFound."""
    found = rows.find(identifier.object_id)
    if found is None or not found.is_namespace:
        hint = "There is a table of that name." if found is not None and found.is_table else None
        raise refusal(NotFound, doing, "there is no such namespace", hint=hint)
    return found


def check_same(entry: Entry, location: str | None, doing: str) -> None:
    """Raise Conflict when a table is not in the directory any more where it was when it was looked up."""
    if entry.location != location:
        raise refusal(Conflict, doing, "it was moved or made anew in this moment", hint="Run it again.")
