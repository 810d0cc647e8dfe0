"""Data files that a user named: pylance's names are given only once, names given by hand may come again."""

import json
import os
import shutil

import lance
import pyarrow as pa
from lance.fragment import FragmentMetadata
from support.merge_datasets import run


def test_a_file_that_was_replaced_under_its_name_is_merged_with_its_new_rows(tmp_path):
    """Branch exp is deleted and created again; both times it has a part-0.lance of the same size."""
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"id": pa.array([1, 2], pa.int64())}), uri)
    expected = {1, 2}
    for start in (1000, 5000):
        append_by_hand(uri, range(start, start + 100))
        assert run(uri).version
        expected |= set(range(start, start + 100))
        assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == sorted(expected)
        lance.dataset(uri).branches.delete("exp")
        shutil.rmtree(f"{uri}/tree", ignore_errors=True)
    assert lance.dataset(uri, version=2).count_rows("id < 2000") == 102


def append_by_hand(uri, ids):
    dataset = lance.dataset(uri)
    branch = dataset.create_branch("exp", dataset.version)
    branch = lance.write_dataset(pa.table({"id": pa.array(ids, pa.int64())}), branch.uri, mode="append")
    fragment = branch.get_fragments()[-1].metadata.to_json()
    data = f"{uri}/tree/exp/data"
    os.rename(f"{data}/{fragment['files'][0]['path']}", f"{data}/part-0.lance")
    fragment["files"][0]["path"] = "part-0.lance"
    renamed = FragmentMetadata.from_json(json.dumps({**fragment, "id": 0}))
    operation = lance.LanceOperation.Update(
        removed_fragment_ids=[fragment["id"]], updated_fragments=[], new_fragments=[renamed], fields_modified=[]
    )
    lance.LanceDataset.commit(f"{uri}/tree/exp", operation, read_version=branch.version)
