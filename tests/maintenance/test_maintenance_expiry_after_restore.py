"""A branch that was merged into main, and main was restored since: it is the only place that has its rows."""

from datetime import datetime, timedelta, timezone

import lance
import pytest
from support.local_datasets import ids, make_dataset, numbers, write

from lance_spark import LanceTable
from lance_spark.maintenance.expiry import plan_expiry
from lance_spark.maintenance.expiry_rules import EXPIRED, UNMERGED, ExpiryOptions

TAKEN_BACK = {
    "restored": lambda table: table.checkout(version=2).restore(),
    "restored by pylance": lambda table: lance.dataset(table.location.uri, version=2).restore(),
    "reverted": lambda table: table.revert(3),
}


@pytest.mark.parametrize("take_back", TAKEN_BACK.values(), ids=TAKEN_BACK)
def test_a_branch_whose_merge_was_taken_back_is_unmerged(uri, take_back):
    make_dataset(uri, numbers(3))
    table = LanceTable.for_path(uri)
    table.branches.create("exp", expire_after="1d")
    write(uri, numbers(1, 100), branch="exp")
    write(uri, numbers(1, 50))
    table.branches.merge("exp")
    assert ids(uri) == [0, 1, 2, 50, 100]
    assert not plan(table).of(UNMERGED)
    take_back(table)
    assert ids(uri) == [0, 1, 2, 50]
    assert plan(table).of(UNMERGED)
    assert not plan(table).of(EXPIRED)


def plan(table):
    later = datetime.now(timezone.utc) + timedelta(days=30)
    return plan_expiry(table.location, later, ExpiryOptions(warn=timedelta(0)))
