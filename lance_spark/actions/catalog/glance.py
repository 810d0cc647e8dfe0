"""Looks at the root of a catalog to show it: a page of its names. It does not raise."""

from __future__ import annotations

from lance_spark.actions.catalog.listing import list_namespaces, list_tables
from lance_spark.actions.glance import or_why
from lance_spark.catalog.model import Catalog
from lance_spark.catalog.showing import SHOWN, catalog_card
from lance_spark.show.card import Card


def look_at_catalog(what: str, catalog: Catalog) -> Card:
    """The first namespaces and tables in the root."""

    def look() -> Card:
        namespaces = [str(namespace) for namespace in list_namespaces(catalog, limit=SHOWN + 1)]
        tables = [str(table) for table in list_tables(catalog, limit=SHOWN + 1)]
        return catalog_card(what, catalog, namespaces, tables)

    return or_why(look, lambda why: catalog_card(what, catalog, [], [], why))
