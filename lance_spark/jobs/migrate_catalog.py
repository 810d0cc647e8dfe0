"""Migration of a catalog from V1 to V2: every table that is only a directory gets a row in ``__manifest``.

    spark-submit jobs/migrate_catalog.py s3://lake --dry-run    # which tables would get a row
    spark-submit jobs/migrate_catalog.py s3://lake              # one commit

No data is moved, and jobs that only know V1 can continue: run it again for the tables that they create. Afterwards the
catalog can be opened in mode v2, which lists no directories. The driver does all the work, so plain Python can also run
it.

Exit codes: 0 done; 2 bad option; 10 not found; 12 conflict; 20 the store did not answer; 21 no permission; 22 a file
cannot be read; 24 done, but the report could not be written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from lance_spark.catalog.lookup import open_catalog
from lance_spark.catalog.migrate import Migration, migrate
from lance_spark.core.show import table
from lance_spark.core.storage_options import storage_from
from lance_spark.jobs.job import add, command_line, run, show, try_report


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns the exit code."""
    return run(parser().parse_args(argv), _main)


def _main(arguments: argparse.Namespace) -> int:
    try_report(arguments)
    migration = migrate(open_catalog(arguments.root, storage_from(arguments.storage)), dry_run=arguments.dry_run)
    return show(arguments, _text(migration), json.dumps(_report(migration)), 0)


def _text(migration: Migration) -> str:
    """A row per directory, and a one-line summary."""
    rows = [(str(name), f"{name.name}.lance", migration.state) for name in migration.tables]
    rows += [("", skipped.directory, f"skipped: {skipped.why}") for skipped in migration.skipped]
    summary = migration.summary if migration.executed else f"dry run: {migration.summary}"
    return "\n\n".join(part for part in (table(("table", "directory", "state"), rows), summary) if part)


def _report(migration: Migration) -> dict[str, Any]:
    return {
        "catalog": migration.catalog.uri,
        "executed": migration.executed,
        "tables": [{"name": str(name), "directory": f"{name.name}.lance"} for name in migration.tables],
        "registered_before": migration.registered,
        "skipped": [{"directory": skipped.directory, "why": skipped.why} for skipped in migration.skipped],
    }


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = command_line("migrate_catalog", __doc__)
    made.add_argument("root", metavar="ROOT", help="the catalog's directory: a path or a URI")
    made.add_argument("--dry-run", action="store_true", help="only show what would be done")
    add(made, "--report", "--storage")
    return made


if __name__ == "__main__":
    sys.exit(main())
