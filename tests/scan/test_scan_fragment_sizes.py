"""Rows and bytes of fragments as they are planned by, and as pylance has them."""

import lance
import pyarrow as pa
import pytest

from lance_spark.core.refs import PinnedVersion
from lance_spark.scan.fragment_reads import fragment_sizes
from lance_spark.scan.partition_rules import FragmentSize
from lance_spark.storage.datasets import locate, pin_latest


def of_pylance(dataset):
    return tuple(
        FragmentSize(
            each.fragment_id,
            each.physical_rows,
            each.count_rows(),
            sum(file.file_size_bytes or 0 for file in each.metadata.files),
        )
        for each in dataset.get_fragments()
    )


@pytest.mark.parametrize("storage", ["legacy", "2.0", "2.1", "2.2"])
@pytest.mark.parametrize("stable", [False, True])
def test_they_are_those_of_pylance(uri, storage, stable):
    lance.write_dataset(
        pa.table({"id": range(100), "text": ["x" * each for each in range(100)]}),
        uri,
        max_rows_per_file=30,
        data_storage_version=storage,
        enable_stable_row_ids=stable,
    )
    lance.dataset(uri).delete("id < 40 AND id % 2 = 0 OR id = 99")
    if storage != "legacy":
        lance.dataset(uri).add_columns({"twice": "id * 2"})
    lance.write_dataset(lance.dataset(uri).to_table(), uri, mode="append")
    dataset = lance.dataset(uri)
    found = fragment_sizes(locate(uri), pin_latest(locate(uri), None))
    assert found == of_pylance(dataset)
    assert sum(each.live_rows for each in found) == dataset.count_rows()
    assert any(each.physical_rows > each.live_rows for each in found)


def test_each_version_of_each_branch_has_its_own(uri):
    lance.write_dataset(pa.table({"id": range(10)}), uri, max_rows_per_file=5)
    lance.dataset(uri).create_branch("exp", 1).delete("id < 5")
    lance.dataset(uri).delete("id = 7")
    sizes = {
        (branch, version): [
            (each.fragment_id, each.live_rows) for each in fragment_sizes(locate(uri), PinnedVersion(branch, version))
        ]
        for branch, version in [(None, 1), (None, 2), ("exp", 2)]
    }
    assert sizes == {(None, 1): [(0, 5), (1, 5)], (None, 2): [(0, 5), (1, 4)], ("exp", 2): [(1, 5)]}
