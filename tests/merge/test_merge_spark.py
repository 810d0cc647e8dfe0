"""Merging, picking, reverting and transactions from Spark: rows, versions, and what a refusal leaves behind."""

import lance
import pytest

from lance_spark import LanceTable
from lance_spark.errors import Conflict, Refused

pytestmark = pytest.mark.spark


@pytest.fixture
def table(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    spark.range(0, 10).write.format("lance").mode("append").save(uri)
    return LanceTable.for_path(uri, spark=spark)


def ids(table, branch=None):
    uri = table.location.branch_uri(branch)
    return sorted(lance.dataset(uri).to_table()["id"].to_pylist())


def test_a_branch_is_published_in_one_version_and_can_be_deleted(spark, table):
    table.branches.create("exp")
    exp = table.checkout(branch="exp")
    exp.write(spark.range(10, 20))
    exp.write(spark.range(20, 25))
    table.write(spark.range(100, 103))

    planned = table.branches.merge("exp", dry_run=True)
    assert (planned.version, planned.summary.rows_added, planned.conflicts) == (None, 15, ())
    assert ids(table) == [*range(10), 100, 101, 102]

    result = table.branches.merge("exp", message="audited")
    table.branches.delete("exp")

    assert (result.version, result.fast_forward, result.summary.versions) == (3, False, 2)
    assert ids(table) == [*range(25), 100, 101, 102]
    properties = lance.dataset(table.location.uri).read_transaction(3).transaction_properties
    assert properties["__lance_commit_message"] == "audited"
    assert properties["lance_spark.source"] == "exp@3"


@pytest.mark.when(spark="newest")
def test_a_merge_that_is_no_fast_forward_can_be_refused(spark, table):
    table.branches.create("exp")
    table.checkout(branch="exp").write(spark.range(10, 20))
    table.write(spark.range(100, 103))
    with pytest.raises(Refused, match="fast-forward"):
        table.branches.merge("exp", ff_only=True)
    assert table.version == 2


@pytest.mark.when(spark="newest")
def test_a_conflict_changes_nothing_and_says_who(spark, table):
    table.branches.create("exp")
    lance.dataset(table.location.branch_uri("exp")).delete("id = 3")
    lance.dataset(table.location.uri).update({"id": "33"}, "id = 3")
    with pytest.raises(Conflict, match=r"(?s)same rows.*main@2 \(Update\) against exp@2 \(Delete\)"):
        table.branches.merge("exp")
    assert table.version == 2


@pytest.mark.when(spark="newest")
def test_one_version_is_picked_and_reverted(spark, table):
    table.branches.create("exp")
    exp = table.checkout(branch="exp")
    exp.write(spark.range(10, 20))
    exp.write(spark.range(20, 25))
    table.cherry_pick("exp", 3)
    assert ids(table) == [*range(10), *range(20, 25)]
    assert table.revert(2).summary.rows_deleted == 5
    assert ids(table) == list(range(10))


def test_a_transaction_is_one_version(spark, table):
    with table.transaction(message="both") as tx:
        tx.write(spark.range(10, 20))
        tx.write(spark.range(20, 30))
        assert table.count_rows() == 10
        assert tx.count_rows() == 30
    assert (table.version, ids(table), table.branches.list()) == (2, list(range(30)), [])


def written_and_raised(spark, table, audit):
    with table.transaction(audit=audit) as tx:
        tx.write(spark.range(10, 20))
        if audit is None:
            raise ZeroDivisionError


@pytest.mark.when(spark="newest")
@pytest.mark.parametrize(
    ("audit", "raised"), [(lambda written: written.count_rows() < 5, Refused), (None, ZeroDivisionError)]
)
def test_a_transaction_that_fails_leaves_nothing(spark, table, audit, raised):
    with pytest.raises(raised):
        written_and_raised(spark, table, audit)
    assert (table.version, ids(table), table.branches.list()) == (1, list(range(10)), [])


@pytest.mark.when(spark="newest")
def test_a_handle_that_stands_still_cannot_be_written(spark, table):
    still = table.checkout(version=1)
    for attempt in (
        lambda: still.write(spark.range(1)),
        lambda: still.revert(1),
        lambda: still.transaction().__enter__(),
    ):
        with pytest.raises(Refused, match=r"tag or version|needs a branch"):
            attempt()
