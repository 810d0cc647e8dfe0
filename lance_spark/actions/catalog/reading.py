"""Reading a table of a catalog: found by its name, at a ref, with errors that speak of the catalog."""

from __future__ import annotations

import difflib
from contextlib import suppress

from lance_spark.actions.catalog.listing import list_tables
from lance_spark.actions.catalog.lookup import locate_table
from lance_spark.actions.resolve import resolve
from lance_spark.catalog.changes import refusal
from lance_spark.catalog.directory import VERSIONS
from lance_spark.catalog.model import Catalog
from lance_spark.catalog.names import Identifier, Name, identify_table
from lance_spark.errors import NotFound
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion, RefSpec
from lance_spark.store import files

_NEAR = 1000
"""Tables among which a misspelt name is looked for."""


def open_table(catalog: Catalog, name: Name, spec: RefSpec) -> tuple[DatasetLocation, PinnedVersion]:
    """Where a table is, and the version that a ref means right now.

    Raises InvalidName, and NotFound for an unknown table, one that has no data yet, and an unknown branch, tag or
    version.
    """
    identifier = identify_table(name)
    try:
        location = locate_table(catalog, identifier)
    except NotFound as missing:
        raise NotFound(missing.message, hint=missing.hint or _hint(catalog, identifier)) from None
    try:
        return location, resolve(location, spec)
    except NotFound:
        if files.list_names(location, VERSIONS):
            raise
    raise refusal(
        NotFound,
        f"open table '{identifier}'",
        "it has no data yet, only its name was taken",
        hint=f"A job is writing it, or was killed at that. Append to it, or drop it. The catalog is {catalog.uri}.",
    )


def _hint(catalog: Catalog, identifier: Identifier) -> str:
    known: list[str] = []
    with suppress(NotFound):
        known = [str(table) for table in list_tables(catalog, identifier.parent, limit=_NEAR)]
    near = difflib.get_close_matches(str(identifier), known, n=3)
    if near:
        return f"Near names in the catalog {catalog.uri}: {', '.join(near)}."
    within = "" if identifier.in_root else f"namespace '{identifier.parent}' of "
    return f"It was looked for in {within}the catalog {catalog.uri}."
