"""Layouts of branches in a merge: whose is taken, and rows that come from a branch with another one."""

import lance
import pyarrow as pa
import pytest

from lance_spark import LanceTable
from lance_spark.errors import Conflict
from lance_spark.layout.pruning import excluded
from lance_spark.storage.datasets import locate, pin_latest

BY = "lance_spark.partition_by"


def rows(first, last):
    numbers = range(first, last)
    return pa.table({"id": pa.array(numbers, pa.int64()), "day": pa.array([n % 3 for n in numbers], pa.int32())})


@pytest.fixture
def sides(uri):
    """Main, partitioned by day, and a branch of it."""
    lance.write_dataset(rows(0, 0), uri)
    table = LanceTable.for_path(uri)
    table.layout.partition_by("day")
    table.write(rows(0, 30), mode="append")
    table.branches.create("exp")
    return table, table.checkout(branch="exp")


def days(uri):
    return sorted(sorted({*each.to_table()["day"].to_pylist()}) for each in lance.dataset(uri).get_fragments())


def left_out(uri, condition):
    return len(excluded(locate(uri), pin_latest(locate(uri), None), condition))


def test_a_layout_alone_is_a_merge_and_its_removal_too(sides, uri):
    table, exp = sides
    exp.layout.partition_by("bucket(2, id)")
    exp.layout.cluster_by("id")
    files = days(uri)
    table.branches.merge("exp")
    assert (table.layout.describe().partition_by, table.layout.describe().cluster_by) == ("bucket(2, id)", "id")
    assert days(uri) == files
    exp.layout.partition_by()
    table.branches.merge("exp")
    assert lance.dataset(uri).config() == {"lance_spark.cluster_by": "id"}


@pytest.mark.parametrize(("mine", "taken"), [("bucket(2, id)", "bucket(2, id)"), ("id", Conflict)])
def test_the_same_layout_on_both_sides_is_settled_and_another_one_is_not(sides, uri, mine, taken):
    table, exp = sides
    table.layout.partition_by(mine)
    exp.layout.partition_by("bucket(2, id)")
    exp.write(rows(100, 130), mode="append")
    if taken is Conflict:
        with pytest.raises(Conflict, match=f"both sides changed setting '{BY}'"):
            table.branches.merge("exp")
        assert lance.dataset(uri).count_rows() == 30
        table.branches.merge("exp", prefer={BY: "ours"})
        taken = "id"
    else:
        table.branches.merge("exp")
    assert (table.layout.describe().partition_by, lance.dataset(uri).count_rows()) == (taken, 60)


def test_files_of_a_branch_with_the_same_layout_keep_their_facts(sides, uri):
    table, exp = sides
    exp.write(rows(100, 130), mode="append")
    table.write(rows(200, 230), mode="append")
    table.branches.merge("exp")
    assert days(uri) == [[0]] * 3 + [[1]] * 3 + [[2]] * 3
    assert left_out(uri, "day = 1") == 6


def test_files_of_a_branch_with_another_layout_come_as_they_are_until_they_are_optimized(sides, uri):
    table, exp = sides
    exp.layout.partition_by("bucket(1, id)")
    exp.write(rows(100, 130), mode="append")
    table.branches.merge("exp")
    table.layout.partition_by("day")
    assert days(uri) == [[0], [0, 1, 2], [1], [2]]
    skipped = excluded(locate(uri), pin_latest(locate(uri), None), "day = 1")
    read = [each for each in lance.dataset(uri).get_fragments() if each.fragment_id not in skipped]
    assert (len(read), sum(each.count_rows("day = 1") for each in read)) == (2, 20)
    table.optimize()
    assert days(uri) == [[0], [1], [2]]
    assert left_out(uri, "day = 1") == 2
    assert lance.dataset(uri).to_table(filter="day = 1").num_rows == 20
