"""A dataset that was copied to another key, as ``aws s3 sync`` does, and to a local disk."""

import lance
import pytest
from support.s3_tables import opened, rows, write

from lance_spark.clones.relocate import relocate
from lance_spark.storage.datasets import locate

pytestmark = pytest.mark.s3

EXPECTED = {None: [1, 3], "b": [3, 5], "b/nested": [3, 6]}


@pytest.fixture
def branched(table, storage):
    write(table, storage, [1, 2, 3])
    opened(table, storage).create_scalar_index("id", "BTREE")
    opened(table, storage).delete("id = 2")
    write(table, storage, [4, 5], branch="b", create_branch="true")
    opened(table, storage, "b").delete("id in (1, 4)")
    write(table, storage, [6], branch="b/nested", create_branch="true", from_branch="b")
    opened(table, storage, "b/nested").delete("id = 5")
    return table


def keys(client, bucket, prefix):
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


def test_a_dataset_that_was_copied_to_another_key(branched, storage, client, bucket):
    there = "other place/copy.lance"
    for key in keys(client, bucket, "warehouse/"):
        target = key.replace("warehouse/table.lance", there)
        client.copy_object(Bucket=bucket, Key=target, CopySource={"Bucket": bucket, "Key": key})
    location = locate(f"s3://{bucket}/{there}", storage)
    trial = relocate(location, dry_run=True)
    found = relocate(location)
    assert [base.state for base in found.bases] == [base.state for base in trial.bases] == ["old place"] * 3
    for key in keys(client, bucket, "warehouse/"):
        client.delete_object(Bucket=bucket, Key=key)
    for branch, expected in EXPECTED.items():
        assert rows(location.uri, storage, branch) == expected
        indexed = opened(location.uri, storage, branch).to_table(filter="id = 3")
        assert indexed["id"].to_pylist() == [3]
    assert {base.state for base in relocate(location).bases} == {"ok", "unused"}


def test_a_dataset_that_was_downloaded(branched, storage, client, bucket, tmp_path):
    for key in keys(client, bucket, "warehouse/"):
        file = tmp_path / key
        file.parent.mkdir(parents=True, exist_ok=True)
        client.download_file(bucket, key, str(file))
        client.delete_object(Bucket=bucket, Key=key)
    local = tmp_path / "warehouse" / "table.lance"
    assert len(relocate(locate(str(local))).branches) == 2
    for branch, expected in EXPECTED.items():
        dataset = lance.dataset(str(local) if branch is None else f"{local}/tree/{branch}")
        assert sorted(dataset.to_table()["id"].to_pylist()) == expected
        assert dataset.to_table(filter="id = 3").num_rows == 1
