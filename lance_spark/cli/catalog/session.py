"""The session of a ``lance-catalog`` verb: the catalog; and how its content is printed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import click

from lance_spark.cli.output import Output
from lance_spark.cli.program import AnyCallable, CommandCall
from lance_spark.core.refs import MAIN
from lance_spark.core.workspace import check_uri
from lance_spark.errors import InvalidOption, Refused

if TYPE_CHECKING:
    from lance_spark.catalog.name_rules import Catalog, Identifier, Mode, Removed
    from lance_spark.catalog.overview import Item
    from lance_spark.cli.catalog.checkout import Checkout


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
    service: tuple[str, Mapping[str, str]] | None = field(default=None, repr=False)
    """``--impl`` and ``--property``: a catalog service, in place of a directory."""
    asked: tuple[str, str] | None = None
    """``--branch`` or ``--tag``: kind and name of the ref of the whole lake."""
    on_refs: bool = False
    """Whether the verb can act on a branch of the lake; otherwise it is about main."""

    def check_directory(self, verb: str, hint: str) -> None:
        """Raise Refused for a catalog service, where a verb knows only directories: it would be about another."""
        if self.service is not None:
            raise Refused(f"{verb} knows catalogs in directories, not services. Nothing was written.", hint=hint)

    @cached_property
    def remembered(self) -> Checkout | None:
        """What the current directory remembers, unless another catalog was named. Raises as ``read_checkout``."""
        from lance_spark.catalog.lookup import open_catalog
        from lance_spark.cli.catalog.checkout import read_checkout

        found = None if self.service is not None else read_checkout(os.curdir)
        if found is None or self.root is None:
            return found
        check_uri(self.root)
        return found if open_catalog(self.root).uri == open_catalog(found.catalog).uri else None

    @property
    def ref(self) -> tuple[str, str] | None:
        """The branch or the tag of the lake that the verb is about: the one that was named, or is checked out.

        None for main. Raises Refused if a branch is checked out, and the verb cannot act on one.
        """
        named = self.asked
        if named is None and self.remembered is not None:
            named = ("branch", self.remembered.branch)
            if named[1] != MAIN and not self.on_refs:
                raise Refused(
                    f"Branch '{named[1]}' of the lake is checked out here, and this verb is about main.",
                    hint=f"Check out main first: {self.typed} checkout main.",
                )
        return None if named is None or named == ("branch", MAIN) else named

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog on the branch, or at the tag, that the verb is about.

        Raises InvalidOption if none was named, NotFound for a missing ref or local directory, and Refused as
        :attr:`ref`. On main, sends no request to other stores: there, a directory exists once something is in it.
        """
        from lance_spark.catalog.lake import at_ref  # these pull in pyarrow, for which --help does not wait
        from lance_spark.catalog.lookup import check_root

        ref = self.ref
        check_root(self.whole)
        return self.whole if ref is None else at_ref(self.whole, *ref)

    @property
    def new_catalog(self) -> Catalog:
        """The same, but the directory may be created."""
        return self.whole if self.ref is None else self.catalog

    @cached_property
    def whole(self) -> Catalog:
        """The whole lake, whichever branch is checked out. Raises InvalidOption if none was named."""
        from lance_spark.catalog.lookup import open_catalog, open_service

        if self.service is not None:
            return open_service(*self.service, self.storage)
        root = self.root or (self.remembered.catalog if self.remembered is not None else None)
        if not root:
            raise InvalidOption(
                "No catalog was named.", hint="Use lance-catalog -C ROOT ..., or set LANCE_CATALOG to its directory."
            )
        check_uri(root)
        return open_catalog(root, self.storage, cast("Mode", self.mode))

    @property
    def lake(self) -> Catalog:
        """The whole lake, whose directory must exist. Raises InvalidOption, NotFound."""
        from lance_spark.catalog.lookup import check_root

        check_root(self.whole)
        return self.whole

    def show(self, data: Mapping[str, Any], text: str) -> None:
        """Print the result; JSON also names the catalog, and the branch or the tag of the lake."""
        self.output.show({"catalog": self.whole.uri, **dict([self._shown] if self._shown else []), **data}, text)

    @property
    def _shown(self) -> tuple[str, str] | None:
        return self.ref if self.on_refs else None

    @property
    def place(self) -> str:
        """The catalog's root, and the branch or the tag."""
        return self.whole.uri + self.at_ref

    @property
    def at_ref(self) -> str:
        """For titles: `` on branch 'etl/nightly'``, `` at tag '2026-11-23'``, or nothing."""
        if self._shown is None:
            return ""
        kind, name = self._shown
        return f" {'on' if kind == 'branch' else 'at'} {kind} '{name}'"


def _look_at(context: click.Context, parameter: click.Parameter, name: str | None) -> None:
    if not isinstance(context.obj, CatalogSession):
        return
    context.obj = replace(context.obj, on_refs=True)
    if name is not None and parameter.name is not None:
        if context.obj.asked is not None:
            raise InvalidOption("--branch and --tag cannot be combined.", hint="Give one of them.")
        context.obj = replace(context.obj, asked=(parameter.name, name))


def branch_option(function: AnyCallable) -> AnyCallable:
    """``--branch``, of verbs that also act on a branch of the lake."""
    return click.option(
        "--branch", metavar="BRANCH", expose_value=False, callback=_look_at, help="The catalog on a branch of the lake."
    )(function)


def tag_option(function: AnyCallable) -> AnyCallable:
    """``--tag``, of verbs that only look."""
    return click.option(
        "--tag", metavar="TAG", expose_value=False, callback=_look_at, help="The catalog as it was at a tag."
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
    from lance_spark.catalog.name_rules import is_inside

    if catalog.service is not None:
        return path
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
