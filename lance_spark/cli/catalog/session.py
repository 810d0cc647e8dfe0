"""The session of a ``lance-catalog`` verb: the catalog; and how its content is printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import click

from lance_spark.cli.output import Output
from lance_spark.cli.program import AnyCallable, CommandCall
from lance_spark.core.workspace import check_uri
from lance_spark.errors import InvalidOption

if TYPE_CHECKING:
    from lance_spark.catalog.overview import Item
    from lance_spark.catalog.rules import Catalog, Identifier, Mode, Removed


@dataclass(frozen=True)
class CatalogSession(CommandCall):
    """One call of ``lance-catalog``."""

    root: str | None = None
    """``--catalog``: a URI or path."""
    mode: str = "compatibility"
    typed: str = "lance-catalog"
    """How the command was called, up to the verb, for hints on what to type next."""
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    """``--storage``. Values may be secrets; they are never stored."""
    tag: str | None = None
    """``--tag``: the tag of the whole lake at which a verb looks at the catalog."""

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog, at the tag if one was given.

        Raises InvalidOption if none was named, and NotFound for a missing tag or local directory. Without a tag, sends
        no request to other stores: there, a directory exists once something is in it.
        """
        from lance_spark.catalog.lake import at_tag  # these pull in pyarrow, for which --help does not wait
        from lance_spark.catalog.lookup import check_root

        check_root(self.new_catalog)
        return self.new_catalog if self.tag is None else at_tag(self.new_catalog, self.tag)

    @cached_property
    def new_catalog(self) -> Catalog:
        """The catalog, whose directory may be created. Raises InvalidOption if none was named."""
        from lance_spark.catalog.lookup import open_catalog

        if not self.root:
            raise InvalidOption(
                "No catalog was named.", hint="Use lance-catalog -C ROOT ..., or set LANCE_CATALOG to its directory."
            )
        check_uri(self.root)
        return open_catalog(self.root, self.storage, cast("Mode", self.mode))

    def show(self, data: Mapping[str, Any], text: str) -> None:
        """Print the result; JSON also names the catalog, and the tag if one was given."""
        tag = {} if self.tag is None else {"tag": self.tag}
        self.output.show({"catalog": self.new_catalog.uri, **tag, **data}, text)

    @property
    def place(self) -> str:
        """The catalog's root and, if one was given, the tag."""
        return self.new_catalog.uri + self.at_tag

    @property
    def at_tag(self) -> str:
        """For titles: `` at tag '2026-11-23'``, or nothing."""
        return "" if self.tag is None else f" at tag '{self.tag}'"


def _look_at_tag(context: click.Context, _: click.Parameter, name: str | None) -> None:
    if name is not None and isinstance(context.obj, CatalogSession):
        context.obj = replace(context.obj, tag=name)


def tag_option(function: AnyCallable) -> AnyCallable:
    """``--tag``, of verbs that only look."""
    return click.option(
        "--tag", metavar="TAG", expose_value=False, callback=_look_at_tag, help="The catalog as it was at a tag."
    )(function)


# --- Printing the content of a catalog, for people and programs

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
