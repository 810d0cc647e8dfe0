"""``lance-catalog ls``: lists the content of a namespace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from lance_spark.cli.catalog.printing import item_json, item_place, item_text
from lance_spark.cli.catalog.session import CatalogSession
from lance_spark.cli.program import verb
from lance_spark.errors import NotFound

if TYPE_CHECKING:
    from lance_spark.catalog.overview import Item


@verb("ls")
@click.argument("name", metavar="[NAMESPACE]", default="")
@click.option("-r", "--recursive", is_flag=True, help="Include the namespaces below.")
@click.option("-l", "--long", is_flag=True, help="With kind and directory.")
@click.pass_obj
def command(session: CatalogSession, name: str, recursive: bool, long: bool) -> None:
    """List the content of a namespace.

    Prints full names, one per line, with a dot after namespaces. Without NAMESPACE, lists the root.
    """
    items = _items(session, name, recursive)
    if not items and not name:
        session.output.note(f"There is nothing in {session.catalog.uri}.")
    text = "\n".join(item_text(session.output, item) for item in items)
    if long and items:
        rows = [(item.kind, str(item.identifier), item_place(item)) for item in items]
        text = session.output.table(("kind", "name", "directory"), rows)
    session.show({"namespace": name, "items": [item_json(session.catalog, item) for item in items]}, text)


def _items(session: CatalogSession, name: str, recursive: bool) -> Sequence[Item]:
    """The content of a namespace; for a table, the table alone."""
    from lance_spark.catalog.overview import kind_of, overview
    from lance_spark.catalog.rules import NAMESPACE, identify_namespace

    try:
        return overview(session.catalog, name, recursive)
    except NotFound:
        if kind_of(session.catalog, name) == NAMESPACE:
            raise
    identifier = identify_namespace(name)
    return [item for item in overview(session.catalog, identifier.parent) if item.identifier == identifier]
