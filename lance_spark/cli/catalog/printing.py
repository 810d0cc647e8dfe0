"""Prints the content of a catalog, for people and programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_spark.cli.output import Output

if TYPE_CHECKING:
    from lance_spark.catalog.overview import Item
    from lance_spark.catalog.rules import Catalog, Identifier, Removed

_NAMESPACE_STYLE = {"fg": "blue", "bold": True}


def name_json(identifier: Identifier) -> dict[str, Any]:
    """A name for JSON: in full, as users type it, and in parts."""
    return {"name": str(identifier), "id": list(identifier.parts)}


def item_json(catalog: Catalog, item: Item) -> dict[str, Any]:
    """An item for JSON."""
    record: dict[str, Any] = {"kind": item.kind, **name_json(item.identifier)}
    if item.kind == "table":
        record |= {"location": location_of(catalog, item.path), "path": item.path, "registered": item.registered}
    return record


def location_of(catalog: Catalog, path: str | None) -> str | None:
    """The URI of a table's directory; None if it is outside the catalog."""
    from lance_spark.catalog.rules import is_inside

    return catalog.at(path).uri if path is not None and is_inside(path) else None


def item_text(output: Output, item: Item, name: str | None = None) -> str:
    """An item's name, or another spelling of it; a namespace ends with a dot."""
    name = str(item.identifier) if name is None else name
    return name if item.kind == "table" else output.paint(f"{name}.", **_NAMESPACE_STYLE)


def item_place(item: Item) -> str:
    """The directory of a table, and whether the table has no row."""
    if item.kind != "table":
        return ""
    return (item.path or "none") + ("" if item.registered else " (not registered)")


def removed_json(catalog: Catalog, removed: Removed) -> dict[str, Any]:
    """A dropped or deregistered table for JSON."""
    return {
        **name_json(removed.identifier),
        "path": removed.path,
        "location": location_of(catalog, removed.path),
        "properties": removed.properties,
        "data_kept": removed.data_kept,
    }
