"""``lance-catalog describe``: describes a table or namespace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from lance_spark.cli.catalog.printing import name_json
from lance_spark.cli.catalog.session import CatalogSession
from lance_spark.cli.output import stamp
from lance_spark.cli.program import verb
from lance_spark.core.show import counted

if TYPE_CHECKING:
    from lance_spark.catalog.overview import TableContents
    from lance_spark.catalog.rules import NamespaceInfo, TableInfo
    from lance_spark.format.operations import VersionDetail

_WIDTH = 12
Rows = Iterator[tuple[str, str]]


@verb("describe")
@click.argument("name", metavar="[NAME]", default="")
@click.pass_obj
def command(session: CatalogSession, name: str) -> None:
    """Describe a table or a namespace.

    Shows where a table is, its newest version, columns, branches and properties. Without NAME, the root namespace.
    """
    from lance_spark.catalog.lookup import describe_namespace, describe_table
    from lance_spark.catalog.overview import kind_of
    from lance_spark.catalog.rules import TABLE

    if kind_of(session.catalog, name) == TABLE:
        _show_table(session, describe_table(session.catalog, name))
    else:
        _show_namespace(session, describe_namespace(session.catalog, name))


def _show_namespace(session: CatalogSession, namespace: NamespaceInfo) -> None:
    named = namespace.identifier.parts
    title = f"namespace {namespace.identifier}" if named else f"root namespace of {session.catalog.uri}"
    session.show(
        {"kind": "namespace", **name_json(namespace.identifier), "properties": namespace.properties},
        _lines(session, title, _properties(namespace.properties)),
    )


def _show_table(session: CatalogSession, table: TableInfo) -> None:
    from lance_spark.catalog.overview import look_into

    inside = look_into(table)
    session.show(
        {
            "kind": "table",
            **name_json(table.identifier),
            "location": table.location.uri,
            "path": table.path,
            "registered": table.registered,
            "declared": table.declared,
            "properties": table.properties,
            "newest": None if inside is None else _newest_json(inside.newest),
            "branches": [] if inside is None else list(inside.branches),
        },
        _lines(session, f"table {table.identifier}", _rows(table, inside, session.catalog.reads_manifest)),
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


def _rows(table: TableInfo, inside: TableContents | None, has_rows: bool) -> Rows:
    yield "location", table.location.uri
    if has_rows and not table.registered:
        yield "registered", "no: it is only a directory; lance-catalog migrate gives it a row"
    if inside is None:
        yield "version", "none yet: the table is only declared"
    else:
        detail = inside.newest
        rows = "" if detail.entry.total_rows is None else f", {counted(detail.entry.total_rows, 'row')}"
        yield "version", f"{detail.entry.version}{rows}, committed {detail.entry.timestamp:%Y-%m-%d %H:%M} UTC"
        columns = [f"{column.path} {column.type}" for column in detail.columns]
        yield from _named("columns", columns)
    if inside is not None and inside.branches:
        yield "branches", ", ".join(inside.branches)
    yield from _properties(table.properties)


def _properties(properties: dict[str, str]) -> Rows:
    yield from _named("properties", [f"{key} = {value}" for key, value in sorted(properties.items())] or ["none"])


def _named(name: str, values: list[str]) -> Rows:
    """One value per line, with the name on the first line."""
    for number, value in enumerate(values):
        yield (name if number == 0 else ""), value
