"""``lance-catalog register``: registers a directory as a table."""

from __future__ import annotations

import click

from lance_spark.cli.catalog.printing import location_of, name_json
from lance_spark.cli.catalog.session import CatalogSession
from lance_spark.cli.program import dry_run_option, verb
from lance_spark.core.options import pairs_of


@verb("register")
@click.argument("name")
@click.argument("location", required=False)
@click.option("-p", "--property", "properties", multiple=True, metavar="KEY=VALUE", help="A property (repeatable).")
@dry_run_option
@click.pass_obj
def command(
    session: CatalogSession, name: str, location: str | None, properties: tuple[str, ...], dry_run: bool
) -> None:
    """Register a directory with a table in the catalog.

    LOCATION is relative to ROOT, or a full URI below it. Without LOCATION, it is the one directory with the table's
    name. The data stays where it is.
    """
    from lance_spark.catalog.tables import plan_registration, register

    catalog, given = session.catalog, pairs_of("-p", properties, "owner=me")
    plan = plan_registration(catalog, name, location, given)
    if not dry_run:
        register(plan)
    identifier, path = plan.change.identifier, plan.change.location
    place = location_of(catalog, path)
    session.show(
        {
            "action": "register",
            **name_json(identifier),
            "location": place,
            "path": path,
            "properties": given,
            "dry_run": dry_run,
        },
        f"Table '{identifier}' {'would be' if dry_run else 'was'} registered; its data is in {place}.",
    )
