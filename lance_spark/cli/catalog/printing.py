"""Shows what is in a catalog, to people and to programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_spark.cli.output import Output

if TYPE_CHECKING:
    from lance_spark.catalog.overview import Item
    from lance_spark.catalog.rules import Catalog, Identifier, Removed

_NAMESPACE_STYLE = {"fg": "blue", "bold": True}


def name_json(identifier: Identifier) -> dict[str, Any]:
    """A name as JSON has it: whole, as users type it, and in parts."""
    return {"name": str(identifier), "id": list(identifier.parts)}


def item_json(catalog: Catalog, item: Item) -> dict[str, Any]:
    """An item as JSON has it."""
    record: dict[str, Any] = {"kind": item.kind, **name_json(item.identifier)}
    if item.kind == "table":
        record |= {"location": location_of(catalog, item.path), "path": item.path, "registered": item.registered}
    return record


def location_of(catalog: Catalog, path: str | None) -> str | None:
    """The URI of a table's directory; None for one that leads out of the catalog."""
    from lance_spark.catalog.rules import is_inside

    return catalog.at(path).uri if path is not None and is_inside(path) else None


def item_text(output: Output, item: Item, name: str | None = None) -> str:
    """An item's name, or another spelling of it; a namespace's ends with a dot."""
    name = str(item.identifier) if name is None else name
    return name if item.kind == "table" else output.paint(f"{name}.", **_NAMESPACE_STYLE)


def item_place(item: Item) -> str:
    """The directory of a table, and whether the table is nothing but that directory."""
    if item.kind != "table":
        return ""
    return (item.path or "none") + ("" if item.registered else " (not registered)")


def removed_json(catalog: Catalog, removed: Removed) -> dict[str, Any]:
    """A table that was dropped or deregistered, as JSON has it."""
    return {
        **name_json(removed.identifier),
        "path": removed.path,
        "location": location_of(catalog, removed.path),
        "properties": removed.properties,
        "data_kept": removed.data_kept,
    }
