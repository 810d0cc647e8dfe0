"""Where no version tells to which files rows were moved, their values do: after an order or a cleanup."""

from datetime import timedelta

import lance
import numpy as np
import pyarrow as pa
import pytest
from support.merge_datasets import add, assert_sound, head, rows, run, table

from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict
from lance_spark.format.contents import DataFile, Fragment
from lance_spark.format.row_ids import Rewrite, trace
from lance_spark.format.row_ids import run as runs_of
from lance_spark.format.row_values import HASHED, equal_rows
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.optimize import optimize
from lance_spark.refs.refs import create_branch_at
from lance_spark.storage.datasets import locate


@pytest.fixture(params=[False, True], ids=["", "stable"])
def dataset(uri, request):
    """Main with eight rows in two fragments, and branch exp from it."""
    lance.write_dataset(table(0, 8), uri, max_rows_per_file=4, enable_stable_row_ids=request.param)
    create_branch_at(locate(uri), "exp", PinnedVersion(None, 1))
    return uri


def ordered(uri, branch):
    options = OptimizeOptions(sort_by=["v"], own_only=False)
    head(uri, branch).update({"v": "-v"}, where="id IN (6, 7)")
    optimize(locate(uri), branch, options, LocalRunner())


def compacted_and_cleaned(uri, branch):
    """All versions of the branch but the newest are gone."""
    head(uri, branch).update({"v": "-v"}, where="id IN (6, 7)")
    head(uri, branch).optimize.compact_files()
    add(uri, 60, 61, branch)
    cleaner = head(uri, branch)
    cleaner.cleanup_old_versions(timedelta(0), delete_unverified=False, error_if_tagged_old_versions=False)


REWRITES = [ordered, compacted_and_cleaned]


def updated(uri, branch):
    head(uri, branch).update({"v": "77"}, where="id IN (1, 5)")


def removed(uri, branch):
    head(uri, branch).delete("id IN (1, 5)")


def updated_and_more(uri, branch):
    add(uri, 50, 52, branch)
    updated(uri, branch)
    head(uri, branch).delete("id = 0")


CHANGES = {
    updated: {1: 77, 5: 77},
    removed: {1: None, 5: None},
    updated_and_more: {1: 77, 5: 77, 0: None, 50: 500, 51: 510},
}


@pytest.mark.when(day=0.2)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("rewrite", REWRITES)
@pytest.mark.parametrize("into", [None, "exp"], ids=["into main", "into exp"])
@pytest.mark.parametrize("where", [None, "exp"], ids=["main rewritten", "exp rewritten"])
def test_rows_are_found_by_their_values(dataset, where, into, rewrite, change):
    rewrite(dataset, where)
    change(dataset, "exp" if where is None else None)
    expected = {**{n: 10 * n for n in range(8)}, 6: -60, 7: -70, **CHANGES[change]}
    expected |= {60: 600} if rewrite is compacted_and_cleaned else {}
    run(dataset, "exp" if into is None else None, into)
    found = {row["id"]: row["v"] for row in rows(head(dataset, into))}
    assert found == {key: value for key, value in expected.items() if value is not None}
    assert_sound(head(dataset, into))


@pytest.mark.when(day=0.4)
@pytest.mark.parametrize("rewrite", REWRITES)
@pytest.mark.parametrize("into", [None, "exp"], ids=["into main", "into exp"])
def test_the_same_rows_are_a_conflict(dataset, into, rewrite):
    rewrite(dataset, None)
    head(dataset, "exp").update({"v": "99"}, where="id = 6")
    before = rows(head(dataset, into))
    with pytest.raises(Conflict, match="same rows"):
        run(dataset, "exp" if into is None else None, into)
    assert rows(head(dataset, into)) == before


def test_equal_rows_are_found_as_often_as_they_are_there(uri):
    same = pa.table({"id": pa.array([1] * 6, pa.int64()), "v": pa.array([0] * 6, pa.int64())})
    lance.write_dataset(same, uri, max_rows_per_file=3)
    create_branch_at(locate(uri), "exp", PinnedVersion(None, 1))
    optimize(locate(uri), None, OptimizeOptions(sort_by=["id"], own_only=False), LocalRunner())
    head(uri, "exp").update({"v": "5"}, where="id = 1")
    run(uri)
    assert [row["v"] for row in rows(head(uri))] == [5] * 6


def test_a_table_whose_rows_are_not_there_was_replaced(dataset):
    head(dataset, "exp").update({"v": "9"}, where="id = 1")
    lance.write_dataset(table(100, 108), dataset, mode="overwrite")
    with pytest.raises(Conflict, match="replaced the whole table"):
        run(dataset)


# --- Pure


def fragment(number, path, physical):
    return Fragment(number, (DataFile(path, (0,), 0, None),), None, physical, b"", False)


@pytest.mark.pure
def test_labels_go_along_with_pairs_in_both_directions():
    old, new = fragment(0, "old", 3), fragment(1, "new", 4)
    pairs = np.array([[0, 0, 0, 3], [0, 2, 0, 1]])
    nothing = np.zeros(0, np.int64)
    for start, other, expected in (
        (old, new, [[1, 2, 102], [3, 4, 100]]),
        (new, old, [[0, 1, 103], [2, 3, 101]]),
    ):
        label = runs_of(start.physical_rows, 100)
        traced = trace([(start, label)], [Rewrite((old,), (new,), pairs=pairs)], lambda _: nothing)
        assert not traced.doubtful
        assert traced.labels_of(other).tolist() == expected


@pytest.mark.pure
def test_pairs_that_contradict_labels_make_every_row_doubtful():
    old, new = fragment(0, "old", 2), fragment(1, "new", 2)
    pairs = np.array([[0, 0, 0, 1]])
    start = [(old, runs_of(2, 100)), (new, runs_of(2, 100))]
    assert trace(start, [Rewrite((old,), (new,), pairs=pairs)], lambda _: np.zeros(0, np.int64)).doubtful


def hashes(*contents):
    columns = [pa.array(contents, pa.uint64()), pa.nulls(len(contents), pa.uint64())]
    return pa.table([*columns, pa.array(range(len(contents)), pa.uint64())], schema=HASHED)


@pytest.mark.pure
@pytest.mark.parametrize(
    ("before", "after", "pairs"),
    [
        ((1, 2, 3), (3, 1, 4), [(0, 1), (2, 0)]),
        ((1, 1, 1), (1, 1), [(0, 0), (1, 1)]),
        ((1, 1), (1, 1, 1), [(0, 0), (1, 1)]),
        ((), (1,), []),
        ((2, 1, 2), (2, 2, 1), [(0, 0), (1, 2), (2, 1)]),
    ],
)
def test_equal_rows_are_paired_one_to_one(before, after, pairs):
    old, new = equal_rows(hashes(*before), hashes(*after))
    assert sorted(zip(old.tolist(), new.tolist(), strict=True)) == pairs
