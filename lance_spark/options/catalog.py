"""The options that name a table by its catalog: what was typed, turned into what was meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lance_spark.errors import InvalidOption

OWN_NAME = "lance_spark"
"""Name under which handles register the data source: ``lance`` may belong to the JVM connector."""
CATALOG_OPTIONS = ("catalog", "catalog_mode")
"""Options of reads and writes alike."""


@dataclass(frozen=True)
class CatalogTable:
    """A table, named. It may not exist."""

    root: str
    """Path or URI of the catalog's directory, as it was typed."""
    name: str
    """Name of the table, as it was typed."""
    mode: str | None = None
    """How the catalog is to be read; None for its default."""


def take_catalog(options: Mapping[str, str], call: str) -> tuple[CatalogTable | None, dict[str, str]]:
    """The table that options name by a catalog, and the options that are left; None for options without ``catalog``.

    ``call`` is ``load`` or ``save``, for errors. Raises InvalidOption for an empty catalog, a mode without a catalog,
    and a path in the place of the table's name.
    """
    rest = {key: value for key, value in options.items() if key.lower() not in CATALOG_OPTIONS}
    given = {key.lower(): value for key, value in options.items() if key.lower() in CATALOG_OPTIONS}
    root, mode = given.get("catalog"), given.get("catalog_mode")
    if root is None:
        if mode is not None:
            raise InvalidOption(
                "Option 'catalog_mode' says how to read a catalog, but none is named.",
                hint="Add option('catalog', ...).",
            )
        return None, rest
    if not root.strip():
        raise InvalidOption(
            "Option 'catalog' is empty.", hint="Give the catalog's directory: option('catalog', 's3://bucket/lake')."
        )
    name = rest.pop("path", None)
    if name is None:
        raise InvalidOption(f"No table of the catalog {root} was named.", hint=f"Give its name: {call}('ns1.flights').")
    if "/" in name or "\\" in name:
        raise InvalidOption(
            f"With option 'catalog', '{name}' has to be the name of a table, and it is a path.",
            hint=f"Write {call}('ns1.flights'), or leave 'catalog' out.",
        )
    return CatalogTable(root, name, mode.strip().lower() if mode is not None else None), rest
