"""The verbs that only look: ``ls``, ``tree``, ``describe``, ``du`` and ``serve``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from lance_spark.cli.catalog.session import (
    CatalogSession,
    branch_option,
    item_json,
    item_place,
    item_text,
    name_json,
    tag_option,
)
from lance_spark.cli.output import Output, stamp
from lance_spark.cli.pages import serve_options, serve_until_stopped
from lance_spark.cli.program import verb
from lance_spark.core.show import fields_of
from lance_spark.core.texts import counted
from lance_spark.errors import NotFound

if TYPE_CHECKING:
    from lance_spark.catalog.name_rules import Identifier, NamespaceInfo, TableInfo
    from lance_spark.catalog.overview import Item, TableContents
    from lance_spark.format.operations import VersionDetail


@verb("ls")
@click.argument("name", metavar="[NAMESPACE]", default="")
@click.option("-r", "--recursive", is_flag=True, help="Include the namespaces below.")
@click.option("-l", "--long", is_flag=True, help="With kind and directory.")
@branch_option
@tag_option
@click.pass_obj
def ls(session: CatalogSession, name: str, recursive: bool, long: bool) -> None:
    """List the content of a namespace.

    Prints full names, one per line, with a dot after namespaces. Without NAMESPACE, lists the root.
    """
    items = _items(session, name, recursive)
    if not items and not name:
        session.output.note(f"There is nothing in {session.place}.")
    text = "\n".join(item_text(session.output, item) for item in items)
    if long and items:
        rows = [(item.kind, str(item.identifier), item_place(item)) for item in items]
        text = session.output.table(("kind", "name", "directory"), rows)
    session.show({"namespace": name, "items": [item_json(session.catalog, item) for item in items]}, text)


def _items(session: CatalogSession, name: str, recursive: bool) -> Sequence[Item]:
    """The content of a namespace; for a table, the table alone."""
    from lance_spark.catalog.name_rules import NAMESPACE, identify_namespace
    from lance_spark.catalog.overview import kind_of, overview

    try:
        return overview(session.catalog, name, recursive)
    except NotFound:
        if kind_of(session.catalog, name) == NAMESPACE:
            raise
    identifier = identify_namespace(name)
    return [item for item in overview(session.catalog, identifier.parent) if item.identifier == identifier]


@verb("tree")
@click.argument("name", metavar="[NAMESPACE]", default="")
@branch_option
@tag_option
@click.pass_obj
def tree(session: CatalogSession, name: str) -> None:
    """Draw namespaces and tables as a tree."""
    from lance_spark.catalog.name_rules import identify_namespace
    from lance_spark.catalog.overview import overview

    within = identify_namespace(name)
    items = overview(session.catalog, within, recursive=True)
    below: dict[Identifier, list[Item]] = {}
    for item in _with_missing(items, within):
        below.setdefault(item.identifier.parent, []).append(item)
    tables = sum(item.kind == "table" for item in items)
    lines = [
        session.output.paint((f"{name}." if name else session.catalog.uri) + session.at_ref, bold=True),
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


_WIDTH = 12
Rows = Iterator[tuple[str, str]]


@verb("describe")
@click.argument("name", metavar="[NAME]", default="")
@branch_option
@tag_option
@click.pass_obj
def describe(session: CatalogSession, name: str) -> None:
    """Describe a table or a namespace.

    Shows where a table is, its newest version, columns, branches and properties. With --branch or --tag, the version
    that it has there. Without NAME, the root namespace.
    """
    from lance_spark.catalog.lookup import describe_namespace, describe_table
    from lance_spark.catalog.name_rules import TABLE
    from lance_spark.catalog.overview import kind_of

    if kind_of(session.catalog, name) == TABLE:
        _show_table(session, describe_table(session.catalog, name))
    else:
        _show_namespace(session, describe_namespace(session.catalog, name))


def _show_namespace(session: CatalogSession, namespace: NamespaceInfo) -> None:
    named = namespace.identifier.parts
    title = f"namespace {namespace.identifier}" if named else f"root namespace of {session.catalog.uri}"
    title += session.at_ref
    session.show(
        {"kind": "namespace", **name_json(namespace.identifier), "properties": namespace.properties},
        _lines(session, title, _properties(namespace.properties)),
    )


def _show_table(session: CatalogSession, table: TableInfo) -> None:
    from lance_spark.catalog.overview import look_into

    inside = look_into(session.catalog, table)
    session.show(
        {
            "kind": "table",
            **name_json(table.identifier),
            "location": table.location.uri,
            **fields_of(table, "path", "registered", "declared", "properties"),
            "newest": None if inside is None else _newest_json(inside.newest),
            "branches": [] if inside is None else list(inside.branches),
        },
        _lines(session, f"table {table.identifier}{session.at_ref}", _rows(session, table, inside)),
    )


def _newest_json(detail: VersionDetail) -> dict[str, Any]:
    return {
        "version": detail.entry.version,
        "committed_at": stamp(detail.entry.timestamp),
        "rows": detail.entry.total_rows,
        "columns": [column.as_record() for column in detail.columns],
    }


def _lines(session: CatalogSession, title: str, rows: Rows) -> str:
    body = [f"  {key:<{_WIDTH}}{value}" for key, value in rows]
    return "\n".join([session.output.paint(title, bold=True), *body])


def _rows(session: CatalogSession, table: TableInfo, inside: TableContents | None) -> Rows:
    yield "location", table.location.uri
    if session.catalog.reads_manifest and not table.registered:
        yield "registered", "no: it is only a directory; lance-catalog migrate gives it a row"
    if inside is None:
        yield "version", _why_none(session)
    else:
        detail = inside.newest
        rows = "" if detail.entry.total_rows is None else f", {counted(detail.entry.total_rows, 'row')}"
        yield "version", f"{detail.entry.version}{rows}, committed {detail.entry.timestamp:%Y-%m-%d %H:%M} UTC"
        columns = [f"{column.path} {column.type}" for column in detail.columns]
        yield from _named("columns", columns)
    if inside is not None and inside.branches:
        yield "branches", ", ".join(inside.branches)
    yield from _properties(table.properties)


def _why_none(session: CatalogSession) -> str:
    if session.ref is None:
        return "none yet: the table is only declared"
    if session.ref[0] == "branch":
        return "none: the table has no data on the branch"
    return "none: the table had no data when the tag was created"


def _properties(properties: dict[str, str]) -> Rows:
    yield from _named("properties", [f"{key} = {value}" for key, value in sorted(properties.items())] or ["none"])


def _named(name: str, values: list[str]) -> Rows:
    """One value per line, with the name on the first line."""
    for number, value in enumerate(values):
        yield (name if number == 0 else ""), value


@verb("du")
@click.argument("namespace", default="")
@click.pass_obj
def du(session: CatalogSession, namespace: str) -> int:
    """Show what each table takes, and how much of it no ref needs.

    Shows all tables, or those in NAMESPACE and below. The largest come first.
    """
    from lance_spark.disk_usage.disk_usage import catalog_storage

    report = catalog_storage(session.catalog, session.engine, namespace)
    parts = (report.grid().text(), report.lake_grid().text(), report.summary())
    text = "\n\n".join(part for part in parts if part)
    session.output.show(json.loads(report.to_json()), text)
    return report.exit_code


@verb("serve")
@click.argument("root", required=False)
@serve_options
@click.pass_obj
def serve(session: CatalogSession, /, root: str | None, **given: Any) -> None:
    """Look at the catalog in the browser.

    Serves pages at this machine's loopback until Ctrl-C: namespaces and tables, branches and publishes of the lake, and
    of each table the graph of versions, differences row by row, and the review of a merge. They change nothing, unless
    --allow-merge is given. ROOT is the catalog's directory, as with -C.
    """
    asked = session if root is None else replace(session, root=root)
    serve_until_stopped(session.output, asked.lake, **given)
