"""``lance-catalog alter``: sets and removes properties."""

from __future__ import annotations

import click

from lance_spark.cli.catalog.printing import name_json
from lance_spark.cli.catalog.session import CatalogSession
from lance_spark.cli.program import dry_run_option, verb
from lance_spark.core.options import pairs_of
from lance_spark.errors import InvalidOption


@verb("alter")
@click.argument("name")
@click.option("-p", "--property", "put", multiple=True, metavar="KEY=VALUE", help="Set a property (repeatable).")
@click.option("-u", "--unset", multiple=True, metavar="KEY", help="Remove a property (repeatable).")
@dry_run_option
@click.pass_obj
def command(session: CatalogSession, name: str, put: tuple[str, ...], unset: tuple[str, ...], dry_run: bool) -> None:
    """Set and remove properties of a table or namespace.

    NAME "" is the root namespace.
    """
    from lance_spark.catalog.lookup import describe_namespace, describe_table
    from lance_spark.catalog.overview import kind_of
    from lance_spark.catalog.rules import TABLE
    from lance_spark.catalog.tables import alter, plan_alteration

    given = pairs_of("-p", put, "owner=me")
    if not given and not unset:
        raise InvalidOption("There is nothing to alter.", hint="Give -p KEY=VALUE, or -u KEY.")
    if both := set(given) & set(unset):
        raise InvalidOption(f"Property '{min(both)}' cannot be both set and removed.")
    kind = kind_of(session.catalog, name)
    plan = plan_alteration(session.catalog, kind, name, given, unset)
    after = plan.after
    if not dry_run:
        alter(plan)
        describe = describe_table if kind == TABLE else describe_namespace
        after = describe(session.catalog, name).properties
    identifier = plan.change.identifier
    whose = f"{kind.capitalize()} '{identifier}'" if identifier.parts else "The root namespace"
    lines = [f"{whose} {'would have' if dry_run else 'has'} these properties:"]
    lines += [f"  {key} = {value}" for key, value in sorted(after.items())] or ["  none"]
    session.show(
        {
            "action": "alter",
            "kind": kind,
            **name_json(identifier),
            "was": plan.before,
            "properties": after,
            "dry_run": dry_run,
        },
        "\n".join(lines),
    )
