"""``lance-catalog du``: shows what the tables take."""

from __future__ import annotations

import json

import click

from lance_spark.cli.catalog.session import CatalogSession
from lance_spark.cli.program import verb


@verb("du")
@click.argument("namespace", default="")
@click.pass_obj
def command(session: CatalogSession, namespace: str) -> int:
    """Show what each table takes, and how much of it no ref needs.

    Shows all tables, or those in NAMESPACE and below. The largest come first.
    """
    from lance_spark.disk_usage.disk_usage import catalog_storage

    report = catalog_storage(session.catalog, session.engine, namespace)
    grid = report.grid().text()
    text = "\n\n".join(part for part in (grid, report.summary()) if part)
    session.output.show(json.loads(report.to_json()), text)
    return report.exit_code
