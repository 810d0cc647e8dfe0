"""What is told of a catalog as a whole. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lance_spark.catalog.model import Catalog
from lance_spark.show.card import Card, Grid

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
