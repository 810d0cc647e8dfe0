"""``lance-catalog migrate``: migrates from directories (V1) to ``__manifest`` (V2)."""

from __future__ import annotations

import click

from lance_spark.cli.catalog.printing import name_json
from lance_spark.cli.catalog.session import CatalogSession
from lance_spark.cli.program import dry_run_option, verb
from lance_spark.errors import InvalidOption


@verb("migrate")
@dry_run_option
@click.pass_obj
def command(session: CatalogSession, dry_run: bool) -> None:
    """Give a row to tables that are only directories.

    All in one commit. No data is moved, and jobs that only know V1 can continue. Run it again for the tables that they
    create meanwhile. Afterwards, --mode v2 finds every table without listing directories.
    """
    from lance_spark.catalog.migrate import migrate

    catalog = session.catalog
    if not catalog.reads_manifest:
        raise InvalidOption("A migration to V2 cannot be done in V1 mode.", hint="Leave --mode out.")
    migration = migrate(catalog, dry_run)
    session.show(
        {
            "action": "migrate",
            "tables": [name_json(identifier) for identifier in migration.tables],
            "registered_before": migration.registered,
            "skipped": [{"directory": skipped.directory, "why": skipped.why} for skipped in migration.skipped],
            "dry_run": dry_run,
        },
        str(migration),
    )
