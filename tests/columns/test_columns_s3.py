"""Columns, deletions, metadata tables and names with refs on S3: on a branch, nothing outside of it is touched."""

import pyarrow as pa
import pytest
from support.backfills import LocalValues, negated
from support.row_changes import written
from support.s3_tables import objects, opened, rows, write

from lance_spark.catalog.overview import read_metadata_table
from lance_spark.catalog.staging import alter_properties
from lance_spark.columns.columns import add_filled_columns, alter_columns, update_filled_columns
from lance_spark.columns.fill_rules import BackfillOptions
from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict
from lance_spark.format.evolution import AddColumn, AlterColumn, RenameColumn
from lance_spark.refs.refs import create_branch
from lance_spark.rows.action_rules import DELETE, INSERT, UPDATE
from lance_spark.rows.rows import delete_where, finish, truncate
from lance_spark.storage.datasets import locate
from lance_spark.storage.resolving import read_path

pytestmark = pytest.mark.s3

LOCAL = LocalRunner(2)


@pytest.fixture
def made(table, storage):
    write(table, storage, [1, 2, 3])
    write(table, storage, [4])
    opened(table, storage).create_scalar_index("id", "BTREE")
    location = locate(table, storage)
    create_branch(location, "exp/delays", RefSpec())
    write(table, storage, [5], branch="exp/delays")
    return location


def test_changes_on_a_branch_stay_in_its_directory(made, table, storage, client, bucket):
    before = objects(client, bucket)
    assert delete_where(made, "exp/delays", "id = 2 or id = 5", LOCAL).rows == 2
    assert rows(table, storage, "exp/delays") == [1, 3, 4]
    changes = (AddColumn(("n",), pa.int64()), AlterColumn(("id",), comment="the key"))
    alter_columns(made, "exp/delays", changes, LOCAL)
    alter_columns(made, "exp/delays", (RenameColumn(("n",), "m"),), LOCAL)
    alter_properties(made, "exp/delays", {"owner": "ops"})
    touched = {key for key, _ in before.items() ^ objects(client, bucket).items()}
    assert touched
    assert all("/tree/exp/delays/" in key for key in touched)
    assert opened(table, storage, "exp/delays").schema.names == ["id", "m"]
    assert truncate(made, "exp/delays").rows == 3
    assert rows(table, storage) == [1, 2, 3, 4]


def test_files_are_told_with_their_sizes(made, client, bucket):
    delete_where(made, "exp/delays", "id = 2", LOCAL)
    batches = read_metadata_table(made, RefSpec(branch="exp/delays"), "files")
    found = [row for batch in batches for row in batch.to_pylist()]
    assert {row["content"] for row in found} == {"data", "deletion", "index"}
    for row in found:
        key = row["file_path"].removeprefix(f"s3://{bucket}/")
        assert client.head_object(Bucket=bucket, Key=key)["ContentLength"] == row["file_size_in_bytes"]


def test_a_uri_with_a_ref(made, table, storage):
    assert read_path(f"{table}@exp/delays", storage).spec == RefSpec(branch="exp/delays")
    assert read_path(f"{table}@exp/delays", storage).location == made


def test_changes_of_rows_beside_other_writers(made, table, storage, client, bucket):
    """Deletion files are read back, and those of a conflict deleted, where the branch is and nowhere else."""
    before = objects(client, bucket)
    change = written(made, "exp/delays", [(UPDATE, {"id": 1}), (DELETE, {"id": 5}), (INSERT, {"id": 7})])
    opened(table, storage, "exp/delays").delete("id = 2")
    assert finish(change).rows_updated == 1
    assert sorted(rows(table, storage, "exp/delays")) == [1, 3, 4, 7]
    change = written(made, "exp/delays", [(UPDATE, {"id": 3})])
    opened(table, storage, "exp/delays").delete("id = 3")
    there = objects(client, bucket)
    with pytest.raises(Conflict):
        finish(change)
    assert len(there) - len(objects(client, bucket)) == 1
    touched = {key for key, _ in before.items() ^ objects(client, bucket).items()}
    assert all("/tree/exp/delays/" in key for key in touched)


def test_columns_with_values_go_on_after_a_failure(made, table, storage, client, bucket):
    def values(until):
        return LocalValues(made, negated("y", until=until), y=pa.int64())

    before = objects(client, bucket)
    with pytest.raises(RuntimeError):
        add_filled_columns(made, "exp/delays", values(5), BackfillOptions())
    again = values(None)
    result = add_filled_columns(made, "exp/delays", again, BackfillOptions())
    assert (result.fragments, result.resumed, len(again.done)) == (3, 2, 1)
    update_filled_columns(made, "exp/delays", values(None), BackfillOptions())
    touched = {key for key, _ in before.items() ^ objects(client, bucket).items()}
    assert all("/tree/exp/delays/" in key for key in touched)
    assert not [key for key in touched if "_backfill" in key]
    dataset = opened(table, storage, "exp/delays")
    dataset.validate()
    assert {row["id"]: row["y"] for row in dataset.to_table().to_pylist()} == {key: -key for key in range(1, 6)}
