"""The journals of publishes outlive every cleanup of ``__manifest``: without one, nobody could end a publish."""

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

from support.catalogs import make_table, raw
from support.cleanup_datasets import RUNNER

from lance_spark.catalog.journal import DIRECTORY
from lance_spark.catalog.lookup import open_catalog
from lance_spark.cleanup.lake import clean_lake
from lance_spark.cleanup.many_tables import FleetOptions
from lance_spark.cleanup.retention_rules import CleanupPolicy

NONE = timedelta(0)
EVERYTHING = CleanupPolicy(older_than=NONE, commit_window=NONE, delete_unverified=True)


def test_cleanups_keep_journals(tmp_path):
    catalog = open_catalog(str(tmp_path / "lake"))
    make_table(catalog, "t")
    make_table(catalog, "u")
    journal = Path(catalog.manifest.uri, DIRECTORY, "18446744073709551614.json")
    journal.parent.mkdir(parents=True)
    journal.write_text("{}")
    os.utime(journal, (1, 1))
    raw(catalog).cleanup_old_versions(older_than=NONE, delete_unverified=True)
    later = datetime.now(timezone.utc) + timedelta(days=99)
    assert clean_lake(catalog, FleetOptions(EVERYTHING, True), RUNNER, later).complete
    assert journal.exists()
