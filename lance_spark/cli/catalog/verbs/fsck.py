"""``lance-catalog fsck``: checks every table, and the catalog itself."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import click

from lance_spark.cli.catalog.session import CatalogSession
from lance_spark.cli.program import options_of, verb
from lance_spark.fsck.option_rules import FsckOptions


@verb("fsck")
@options_of(FsckOptions, "deep")
@click.pass_obj
def command(session: CatalogSession, deep: bool) -> int:
    """Check every table, and the catalog itself.

    Checks all tables like lance-git fsck checks one, and the catalog like doctor. Changes nothing. Exit code 22 means
    that a table is damaged, 20 that something could not be reached, 6 that only the catalog has problems. On a cluster:
    jobs/fsck.py --catalog ROOT.
    """
    from lance_spark.fsck.lake import fsck_catalog

    report = fsck_catalog(session.catalog, FsckOptions(deep), session.engine, datetime.now(timezone.utc))
    session.show(json.loads(report.to_json()), str(report))
    return report.exit_code
