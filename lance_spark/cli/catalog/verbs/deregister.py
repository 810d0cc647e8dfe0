"""``lance-catalog deregister``: a table leaves the catalog, its data stays."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from lance_spark.cli.catalog.printing import location_of, removed_json
from lance_spark.cli.catalog.session import CatalogSession
from lance_spark.cli.command import dry_run_option, verb

if TYPE_CHECKING:
    from lance_spark.catalog.model import Removed


@verb("deregister")
@click.argument("name")
@dry_run_option
@click.pass_obj
def command(session: CatalogSession, name: str, dry_run: bool) -> None:
    """Take a table out of the catalog; keep its data.

    It prints the command that puts the table back, with its properties. It asks no question, as nothing is lost.
    """
    from lance_spark.actions.catalog.lookup import find_table
    from lance_spark.actions.catalog.registering import deregister_table
    from lance_spark.catalog.model import Removed
    from lance_spark.catalog.names import identify_table

    catalog, identifier = session.catalog, identify_table(name)
    if dry_run:
        entry = find_table(catalog, identifier, f"deregister table '{identifier}'")
        removed = Removed(identifier, entry.path, entry.properties, data_kept=True)
    else:
        removed = deregister_table(catalog, identifier)
    place = location_of(catalog, removed.path) or removed.path
    lines = [f"Table '{identifier}' {'would be' if dry_run else 'was'} deregistered; its data stays in {place}."]
    if not dry_run and removed.path is not None:
        lines.append(f"  {session.typed} {_back(removed)}   puts it back")
    session.show({"action": "deregister", **removed_json(catalog, removed), "dry_run": dry_run}, "\n".join(lines))


def _back(removed: Removed) -> str:
    words = ["register", str(removed.identifier), removed.path or ""]
    for key, value in sorted(removed.properties.items()):
        words += ["-p", f"{key}={value}"]
    return shlex.join(words)
