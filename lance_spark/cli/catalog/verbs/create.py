"""``lance-catalog create``: creates a namespace, or declares a table."""

from __future__ import annotations

import click

from lance_spark.cli.catalog.printing import name_json
from lance_spark.cli.catalog.session import CatalogSession
from lance_spark.cli.program import dry_run_option, verb
from lance_spark.core.options import pairs_of
from lance_spark.errors import InvalidOption


@verb("create")
@click.argument("name")
@click.option("-t", "--table", is_flag=True, help="Declare a table without data: the first write brings its columns.")
@click.option("--parents", is_flag=True, help="Also create the namespaces above; no error if it exists.")
@click.option("-p", "--property", "properties", multiple=True, metavar="KEY=VALUE", help="A property (repeatable).")
@dry_run_option
@click.pass_obj
def command(
    session: CatalogSession, name: str, table: bool, parents: bool, properties: tuple[str, ...], dry_run: bool
) -> None:
    """Create a namespace, or a table with --table.

    A table is declared: its name is taken, and data can be written to its directory.
    """
    given = pairs_of("-p", properties, "owner=me")
    if table and parents:
        raise InvalidOption("--table and --parents cannot be combined.", hint="Create the namespace first.")
    if table:
        _table(session, name, given, dry_run)
    else:
        _namespace(session, name, given, parents=parents, dry_run=dry_run)


def _table(session: CatalogSession, name: str, properties: dict[str, str], dry_run: bool) -> None:
    from lance_spark.catalog.tables import declare, plan_table

    plan = plan_table(session.new_catalog, name, properties)
    identifier, location = plan.identifier, None if dry_run else declare(plan).location.uri
    session.show(
        {
            "action": "create",
            "kind": "table",
            **name_json(identifier),
            "location": location,
            "properties": properties,
            "created": True,
            "dry_run": dry_run,
        },
        f"Table '{identifier}' would be created, without data."
        if dry_run
        else f"Table '{identifier}' was created, without data. Write it to {location}.",
    )


def _namespace(session: CatalogSession, name: str, properties: dict[str, str], parents: bool, dry_run: bool) -> None:
    from lance_spark.catalog.lookup import create_namespace, namespace_exists, plan_namespace
    from lance_spark.catalog.rules import Identifier, identify_namespace

    catalog = session.new_catalog
    identifier = identify_namespace(name)
    above = [Identifier(identifier.parts[:count]) for count in range(1, len(identifier.parts))] if parents else []
    missing = [parent for parent in above if not namespace_exists(catalog, parent)]
    created = True
    if parents and namespace_exists(catalog, identifier):
        created = False
    elif not dry_run:
        for parent in missing:
            create_namespace(catalog, parent, exist_ok=True)
        created = create_namespace(catalog, identifier, properties, exist_ok=parents)
    else:
        # Nothing can conflict below a missing namespace.
        plan_namespace(catalog, missing[0] if missing else identifier, None if missing else properties)
    verb_text = "would be created" if dry_run else "was created"
    lines = [f"Namespace '{namespace}' {verb_text}." for namespace in (*missing, identifier)]
    session.show(
        {
            "action": "create",
            "kind": "namespace",
            **name_json(identifier),
            "parents": [str(parent) for parent in missing],
            "properties": properties,
            "created": created,
            "dry_run": dry_run,
        },
        "\n".join(lines) if created else f"Namespace '{identifier}' already exists and is unchanged.",
    )
