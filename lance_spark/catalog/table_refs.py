"""Names of tables with a ref in them, ``flights@exp/delays@7``, and of their metadata tables, ``flights.branches``.

A table may be called ``a@b`` as well: other tools make what they like. So a name with ``@`` has several readings, and
which one holds is told by the tables that are there (see lance_spark.actions.catalog.table_refs).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from lance_spark.catalog.names import Identifier, identify_table
from lance_spark.errors import InvalidName
from lance_spark.metadata.names import METADATA_TABLES
from lance_spark.refs.typed import DEFAULT, MARK, TypedRef, split_refs


@dataclass(frozen=True)
class Reading:
    """One way to understand the name of a table."""

    table: Identifier
    ref: TypedRef = DEFAULT


def readings(identifier: Identifier) -> tuple[Reading, ...]:
    """All ways to understand a name: as it is, then split at each ``@`` with a ref behind it, the first ``@`` first.

    A name as it is can be none, ``flights@exp/delays``. Raises InvalidName if there is no way at all.
    """
    found = []
    for name, ref in split_refs(identifier.name):
        with suppress(InvalidName):
            found.append(Reading(identify_table(identifier.parent.child(name)), ref))
    try:
        return (Reading(identify_table(identifier)), *found)
    except InvalidName:
        if not found:
            raise
        return tuple(found)


def metadata_reading(identifier: Identifier) -> tuple[Identifier, str] | None:
    """The table and the metadata table that a name means, if it can mean one: ``ns1.flights`` and ``branches``.

    Spark does not tell ``flights.branches`` from a table ``branches`` in a namespace ``flights``; a table comes first.
    """
    if len(identifier.parts) < 2 or identifier.name.lower() not in METADATA_TABLES:
        return None
    return identifier.parent, identifier.name.lower()


def spelled(table: Identifier, ref: str) -> str:
    """A table at a ref as SQL takes it: with backticks, which ``@`` needs."""
    name = f"{table.name}{MARK}{ref}".replace("`", "``")
    return f"{table.parent}.`{name}`" if table.parent.parts else f"`{name}`"
