"""``lance-catalog tree``: draws namespaces and tables as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from lance_spark.cli.catalog.printing import item_json, item_text
from lance_spark.cli.catalog.session import CatalogSession
from lance_spark.cli.output import Output
from lance_spark.cli.program import verb
from lance_spark.core.show import counted

if TYPE_CHECKING:
    from lance_spark.catalog.overview import Item
    from lance_spark.catalog.rules import Identifier


@verb("tree")
@click.argument("name", metavar="[NAMESPACE]", default="")
@click.pass_obj
def command(session: CatalogSession, name: str) -> None:
    """Draw namespaces and tables as a tree."""
    from lance_spark.catalog.overview import overview
    from lance_spark.catalog.rules import identify_namespace

    within = identify_namespace(name)
    items = overview(session.catalog, within, recursive=True)
    below: dict[Identifier, list[Item]] = {}
    for item in _with_missing(items, within):
        below.setdefault(item.identifier.parent, []).append(item)
    tables = sum(item.kind == "table" for item in items)
    lines = [
        session.output.paint(f"{name}." if name else session.catalog.uri, bold=True),
        *_branches(session.output, below, within, ""),
        "",
        f"{counted(len(items) - tables, 'namespace')}, {counted(tables, 'table')}",
    ]
    session.show({"namespace": name, "items": [item_json(session.catalog, item) for item in items]}, "\n".join(lines))


def _with_missing(items: tuple[Item, ...], within: Identifier) -> list[Item]:
    """Adds the namespaces that rows name but that do not exist, as other tools do not check that."""
    from lance_spark.catalog.overview import Item

    known = {item.identifier: item for item in items}
    for item in items:
        parent = item.identifier.parent
        while parent != within and parent not in known:
            known[parent] = Item(parent, "namespace", registered=False)
            parent = parent.parent
    return sorted(known.values(), key=lambda item: item.identifier)


def _branches(output: Output, below: Mapping[Identifier, list[Item]], within: Identifier, indent: str) -> Iterator[str]:
    inside = below.get(within, [])
    for number, item in enumerate(inside, 1):
        last = number == len(inside)
        yield f"{indent}{'└── ' if last else '├── '}{item_text(output, item, str(_last(item.identifier)))}"
        yield from _branches(output, below, item.identifier, indent + ("    " if last else "│   "))


def _last(identifier: Identifier) -> Identifier:
    """The last part alone, spelled as in a full name."""
    return type(identifier)((identifier.name,))
