"""``lance-catalog deregister``: removes a table from the catalog and keeps its data."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from lance_spark.cli.catalog.printing import location_of, removed_json
from lance_spark.cli.catalog.session import CatalogSession
from lance_spark.cli.program import dry_run_option, verb

if TYPE_CHECKING:
    from lance_spark.catalog.rules import Removed


@verb("deregister")
@click.argument("name")
@dry_run_option
@click.pass_obj
def command(session: CatalogSession, name: str, dry_run: bool) -> None:
    """Remove a table from the catalog; keep its data.

    Prints the command that puts the table back, with its properties. Does not ask for confirmation, as nothing is lost.
    """
    from lance_spark.catalog.tables import deregister, plan_deregistration

    catalog = session.catalog
    plan = plan_deregistration(catalog, name)
    removed = plan.removed if dry_run else deregister(plan)
    place = location_of(catalog, removed.path) or removed.path
    verb_text = "would be" if dry_run else "was"
    lines = [f"Table '{plan.table.identifier}' {verb_text} deregistered; its data stays in {place}."]
    if not dry_run and removed.path is not None:
        lines.append(f"  {session.typed} {_back(removed)}   puts it back")
    session.show({"action": "deregister", **removed_json(catalog, removed), "dry_run": dry_run}, "\n".join(lines))


def _back(removed: Removed) -> str:
    words = ["register", str(removed.identifier), removed.path or ""]
    for key, value in sorted(removed.properties.items()):
        words += ["-p", f"{key}={value}"]
    return shlex.join(words)
