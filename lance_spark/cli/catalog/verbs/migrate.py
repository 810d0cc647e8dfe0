"""``lance-catalog migrate``: from directories (V1) to ``__manifest`` (V2)."""

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
    """Give tables that are directories only a row.

    All in one commit; no data is moved, and jobs that know V1 only may go on. Run it again for the tables that they
    make meanwhile. Afterwards --mode v2 finds every table without looking at directories.
    """
    from lance_spark.catalog.migrate import migrate

    catalog = session.catalog
    if not catalog.reads_manifest:
        raise InvalidOption("A migration is from V1 to V2, so it cannot be done in V1 mode.", hint="Leave --mode out.")
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
