"""What is told of a catalog and of what is in it, as cards. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lance_spark.show.card import Card, Grid
from lance_spark.show.words import counted

if TYPE_CHECKING:
    from lance_spark.catalog.model import Catalog, NamespaceInfo, Removed, TableInfo

SHOWN = 20
"""How many names of each kind are shown."""


def catalog_card(what: str, catalog: Catalog, namespaces: Sequence[str], tables: Sequence[str], why: str = "") -> Card:
    """A catalog and the names in its root; ``why`` is what the store said where it did not tell them."""
    named = (("namespace", name) for name in namespaces[:SHOWN]), (("table", name) for name in tables[:SHOWN])
    rows = tuple(row for kind in named for row in kind)
    notes = tuple(
        f"there are more than {SHOWN} {kind}: {call} has all"
        for kind, call, names in (
            ("namespaces", "list_namespaces()", namespaces),
            ("tables in the root", "list_tables()", tables),
        )
        if len(names) > SHOWN
    )
    facts = (("mode", catalog.mode), ("unknown", why))
    return Card(what, catalog.uri, f"mode {catalog.mode}", facts, (Grid(("kind", "name"), rows),), notes)


def table_info_card(found: TableInfo) -> Card:
    """A table of a catalog."""
    state = "declared, without data" if found.declared else ""
    facts = (
        ("location", found.location.uri),
        ("in __manifest", "yes" if found.registered else "no, a directory only"),
        ("state", state),
    )
    summary = ", ".join(part for part in (f"in {found.location.uri}", state) if part)
    return Card(type(found).__name__, str(found.identifier), summary, facts, (properties_grid(found.properties),))


def namespace_card(found: NamespaceInfo) -> Card:
    """A namespace of a catalog."""
    name = "the root" if found.identifier.is_root else str(found.identifier)
    count = counted(len(found.properties), "property", "properties")
    return Card(type(found).__name__, name, count, grids=(properties_grid(found.properties),))


def removed_card(found: Removed) -> Card:
    """A table that was dropped or deregistered."""
    kept = "its files are still there" if found.data_kept else "its files are gone"
    facts = (("directory", found.path or ""), ("data", kept))
    return Card(type(found).__name__, str(found.identifier), kept, facts, (properties_grid(found.properties),))


def properties_grid(properties: Mapping[str, str]) -> Grid:
    """Properties as a table."""
    return Grid(("property", "value"), tuple(sorted(properties.items())))
