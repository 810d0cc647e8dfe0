"""Compaction on S3: of a branch, nothing outside of its directory is touched."""

import pytest
from support.s3_tables import objects, opened, rows, write

from lance_spark.actions.branches import create_branch
from lance_spark.actions.optimize import optimize
from lance_spark.compaction.model import OptimizeOptions
from lance_spark.refs.model import RefSpec
from lance_spark.runner.local import LocalRunner
from lance_spark.store.uri import locate


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
