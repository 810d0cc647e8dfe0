"""Settings of refs, expiry, protection and undoing on an object store: no directories, no renames."""

from datetime import datetime, timedelta, timezone

import pytest
from support.s3_tables import objects, opened, rows, write

from lance_spark import LanceTable
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.errors import Refused
from lance_spark.maintenance.expiry import carry_out, plan_expiry

pytestmark = pytest.mark.s3

NOTHING_STAYS = CleanupPolicy(older_than=timedelta(0), commit_window=timedelta(0), error_if_tagged_old_versions=False)


def later(days):
    return datetime.now(timezone.utc) + timedelta(days=days)


def test_refs_live_and_come_back_on_a_store(table, storage, client, bucket):
    write(table, storage, [1, 2])
    write(table, storage, [3])
    handle = LanceTable.for_path(table, storage)
    handle.branches.create("exp/ü", expire_after="30d", owner="ml")
    write(table, storage, [4], branch="exp/ü")
    handle.tags.create("v1", version=1)
    handle.tags.move("v1", version=2)
    handle.branches.delete("exp/ü")
    write(table, storage, [5])
    handle.cleanup(NOTHING_STAYS).apply()
    handle.tags.restore("v1")
    handle.branches.restore("exp/ü")
    assert opened(table, storage).tags.list()["v1"]["version"] == 1
    assert sorted(rows(table, storage, branch="exp/ü")) == [1, 2, 3, 4]
    assert [str(branch.lifetime) for branch in handle.branches.list()] == ["expires after 30d, owner ml"]

    handle.branches.alter("main", protected=True)
    with pytest.raises(Refused, match="protected"):
        write(table, storage, [6])
    handle.branches.merge("exp/ü")
    assert sorted(rows(table, storage)) == [1, 2, 3, 4, 5]

    handle.branches.delete("exp/ü")
    location = handle.location
    carry_out(location, plan_expiry(location, later(8)), later(8))
    assert not [key for key in objects(client, bucket) if "/tree/" in key]
