"""Compaction on S3: of a branch, nothing outside of its directory is touched."""

import time

import lance
import pyarrow as pa
import pytest
from support.s3_tables import objects, opened, rows, write

from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.fsck.fsck import fsck
from lance_spark.fsck.option_rules import FsckOptions
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.optimize import optimize
from lance_spark.refs.refs import create_branch
from lance_spark.rows.rows import delete_where
from lance_spark.storage.datasets import locate, pin_latest

pytestmark = pytest.mark.s3


@pytest.mark.parametrize("own_only", [True, False])
def test_a_branch_is_compacted_in_its_own_directory(table, storage, client, bucket, own_only):
    write(table, storage, [1, 2, 3])
    write(table, storage, [4])
    opened(table, storage).create_scalar_index("id", "BTREE")
    location = locate(table, storage)
    create_branch(location, "exp/delays", RefSpec())
    write(table, storage, [5], branch="exp/delays")
    write(table, storage, [6], branch="exp/delays")
    before = objects(client, bucket)
    result = optimize(location, "exp/delays", OptimizeOptions(own_only=own_only, where="id > 0"), LocalRunner(1))
    assert result.fragments_removed == (2 if own_only else 4)
    assert result.rehomed == (() if own_only else ("id_idx",))
    touched = {key for key, _ in before.items() ^ objects(client, bucket).items()}
    assert touched
    assert all("/tree/exp/delays/" in key for key in touched)
    assert sorted(rows(table, storage, "exp/delays")) == [1, 2, 3, 4, 5, 6]
    assert rows(table, storage) == [1, 2, 3, 4]
    found = opened(table, storage, "exp/delays").to_table(filter="id = 3")
    assert found["id"].to_pylist() == [3]


def both(ids):
    return pa.table({"id": ids, "day": [number % 2 for number in ids]})


@pytest.mark.when(day=0)
def test_another_order_and_a_merge_after_compactions_of_both_sides(table, storage):
    """Sorted runs of keys go through the store, and rows are followed through both compactions."""
    location, runner = locate(table, storage), LocalRunner(1)

    def append(ids, branch=None):
        lance.write_dataset(both(ids), opened(table, storage, branch), mode="append", storage_options=storage)

    def compacted(branch, **order):
        options = OptimizeOptions(own_only=False, **order)
        return optimize(location, branch, options, runner).fragments_added

    lance.write_dataset(both([5, 1, 3]), table, storage_options=storage)
    append([2, 6, 4])
    assert compacted(None, sort_by=["id"]) == 1
    assert opened(table, storage).to_table()["id"].to_pylist() == [1, 2, 3, 4, 5, 6]
    create_branch(location, "exp", RefSpec())
    delete_where(location, "exp", "id = 3", runner)
    append([9, 7], "exp")
    append([8])
    assert (compacted(None), compacted("exp")) == (1, 1)
    merge(location, pin_latest(location, "exp"), None, MergeOptions(), runner)
    assert rows(table, storage) == [1, 2, 4, 5, 6, 7, 8, 9]
    append([3], "exp")
    assert compacted("exp", zorder=["id", "day"]) == 1
    assert rows(table, storage, "exp") == [1, 2, 3, 4, 5, 6, 7, 9]
    assert fsck(location, FsckOptions(deep=True), runner, time.time_ns()).sound
