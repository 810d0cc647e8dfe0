"""Metadata tables: what they say of a dataset is what pylance says, and what lies in its directories."""

import os
from collections import Counter

import lance
import pyarrow as pa
import pytest
from support.local_datasets import make_dataset, numbers

from lance_spark.catalog.overview import metadata_schema, read_metadata_table
from lance_spark.core.location import DatasetLocation
from lance_spark.core.ref_expressions import METADATA_TABLES
from lance_spark.core.refs import RefSpec
from lance_spark.errors import NotFound


def table(uri, name, **ref):
    batches = read_metadata_table(DatasetLocation.at(uri), RefSpec(**ref), name)
    return pa.Table.from_batches(batches, metadata_schema(name)).to_pylist()


@pytest.fixture
def made(uri):
    """Version 1, 2: rows; 3: an index; 4: a deletion. Branch exp: one fragment more. Tag v1."""
    make_dataset(uri, numbers(10), numbers(10, 10)).create_scalar_index("id", "BTREE")
    lance.dataset(uri).delete("id = 3")
    dataset = lance.dataset(uri)
    branch = dataset.create_branch("exp")
    lance.write_dataset(numbers(5, 20), branch.uri, mode="append")
    dataset.tags.create("v1", 2)
    return uri


def test_branches_tags_and_versions_are_those_of_pylance(made):
    (branch,) = table(made, "branches")
    assert (branch["name"], branch["parent_branch"], branch["parent_version"]) == ("exp", "main", 4)
    (tag,) = table(made, "tags", branch="exp")
    assert (tag["name"], tag["branch"], tag["version"]) == ("v1", "main", 2)
    found = {row["version"]: row for row in table(made, "versions")}
    expected = {entry["version"]: entry for entry in lance.dataset(made).versions()}
    assert found.keys() == expected.keys()
    assert dict(found[4]["metadata"])["total_rows"] == expected[4]["metadata"]["total_rows"] == "19"
    assert [row["version"] for row in table(made, "versions", tag="v1")] == [1, 2]
    assert [row["version"] for row in table(made, "versions", branch="exp")] == [4, 5]


@pytest.mark.parametrize("branch", [None, "exp"])
def test_fragments_are_those_of_pylance(made, branch):
    dataset = lance.dataset(made).checkout_version((branch, None))
    expected = [
        (found.fragment_id, found.count_rows(), found.physical_rows, found.num_deletions)
        for found in dataset.get_fragments()
    ]
    found = table(made, "fragments", branch=branch)
    keys = ("fragment_id", "num_rows", "physical_rows", "num_deletions")
    assert [tuple(row[key] for key in keys) for row in found] == expected
    assert all(row["num_data_files"] == 1 and row["data_file_bytes"] > 0 for row in found)


def test_files_have_their_sizes_on_disk_wherever_they_are(made):
    found = table(made, "files", branch="exp")
    assert Counter(row["content"] for row in found) == {"data": 3, "deletion": 1, "index": 2}
    for row in found:
        assert os.path.getsize(row["file_path"]) == row["file_size_in_bytes"], row
    own = [row for row in found if "/tree/exp/" in row["file_path"]]
    assert [(row["content"], row["record_count"], row["columns"]) for row in own] == [("data", 5, ["id"])]
    assert {row["index_name"] for row in found if row["content"] == "index"} == {"id_idx"}


def test_blobs_are_files_of_their_fragment(uri):
    values = pa.table(
        {"id": [1, 2], "blob": lance.blob_array([b"x" * 200_000, b"y" * 5_000_000])},
        schema=pa.schema([pa.field("id", pa.int64()), lance.blob_field("blob")]),
    )
    lance.write_dataset(values, uri, data_storage_version="2.2")
    found = table(uri, "files")
    blobs = [row for row in found if row["content"] == "blob"]
    on_disk = {os.path.join(at, name) for at, _, names in os.walk(f"{uri}/data") for name in names}
    assert {row["file_path"] for row in found} == on_disk
    assert blobs
    assert sum(row["file_size_in_bytes"] for row in blobs) >= 5_000_000
    assert {row["fragment_id"] for row in blobs} == {0}


def test_indexes_tell_what_they_cover(made):
    (here,) = table(made, "indexes")
    assert (here["name"], here["index_type"], here["columns"]) == ("id_idx", "BTree", ["id"])
    assert (here["num_fragments"], here["num_unindexed_fragments"], here["inherited"]) == (2, 0, False)
    (there,) = table(made, "indexes", branch="exp")
    assert (there["uuid"], there["num_unindexed_fragments"], there["inherited"]) == (here["uuid"], 1, True)
    assert table(made, "indexes", version=1) == []


def test_empty_tables_and_names_that_there_are_not(uri):
    make_dataset(uri, numbers(0))
    assert table(uri, "branches") == table(uri, "tags") == table(uri, "indexes") == []
    with pytest.raises(NotFound, match="branches"):
        table(uri, "snapshots")
    assert all(metadata_schema(name).names for name in METADATA_TABLES)
