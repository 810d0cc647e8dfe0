"""What branches and tags of a whole lake cost: bytes that a deletion and cleanups then really free."""

from datetime import datetime, timedelta, timezone

import lance
import pytest
from support.cleanup_datasets import RUNNER, overwrite
from support.local_datasets import numbers

from lance_spark import LanceCatalog
from lance_spark.catalog.lake import table_branch
from lance_spark.catalog.name_rules import identify_table
from lance_spark.cleanup.lake import clean_lake
from lance_spark.cleanup.many_tables import FleetOptions
from lance_spark.cleanup.retention_rules import CleanupPolicy

NONE = timedelta(0)
EVERYTHING = CleanupPolicy(
    older_than=NONE, commit_window=NONE, delete_unverified=True, error_if_tagged_old_versions=False
)


@pytest.fixture
def lake(tmp_path):
    """A tag with an old version of two tables, and a branch with a change of one of them."""
    lake = LanceCatalog(f"{tmp_path}/lake")
    for name in ("a", "b"):
        lance.write_dataset(numbers(1000), lake.declare_table(name).location.uri)
    lake.tags.create("v1")
    for name in ("a", "b"):
        overwrite(lake.table(name).location.uri, 5000)
    lake.branches.create("etl/nightly", tables=["a"])
    own = table_branch(lake.checkout(branch="etl/nightly").catalog, identify_table("a"), "change it")
    lance.write_dataset(numbers(2000, 90), f"{lake.table('a').location.uri}/tree/{own}", mode="append")
    return lake


def cleaned(lake):
    """Bytes of the tables after a cleanup."""
    report = clean_lake(lake.catalog, FleetOptions(EVERYTHING, True), RUNNER, datetime.now(timezone.utc))
    assert not report.exit_code
    return lake.storage().bytes


def test_what_is_said_is_freed(lake):
    before = cleaned(lake)
    said = {usage.ref: usage for usage in lake.storage().lake_refs}
    assert {ref: (usage.kind, usage.tables) for ref, usage in said.items()} == {
        "v1": ("tag", 2),
        "etl/nightly": ("branch", 1),
    }
    assert min(usage.freed for usage in said.values()) > 1000
    lake.tags.delete("v1")
    between = cleaned(lake)
    assert before - between == said["v1"].freed
    lake.branches.delete("etl/nightly", purge=True)
    assert between - cleaned(lake) == said["etl/nightly"].freed
    assert lake.storage().lake_refs == ()


def test_the_report_has_a_line_for_each(lake):
    text = str(lake.storage())
    assert "ref of the lake" in text
    assert "etl/nightly" in text
    assert "lake.branches.delete('etl/nightly')" in str(lake.table("a").storage())
