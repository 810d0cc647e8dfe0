"""Inherited indexes of every kind that pylance makes, and values beside the rows: they answer the same afterwards."""

import shutil

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.optimize import optimize
from lance_spark.refs.refs import create_branch

ENGINE = LocalRunner(1)
SCALAR = {
    "BTREE": ("id", "id = 155"),
    "BITMAP": ("id", "id = 155"),
    "ZONEMAP": ("id", "id BETWEEN 150 AND 160"),
    "BLOOMFILTER": ("id", "id = 155"),
    "LABEL_LIST": ("labels", "array_has_any(labels, ['b2'])"),
    "NGRAM": ("text", "contains(text, 'text15')"),
    "INVERTED": ("text", "word4"),
}
VECTOR = ("IVF_FLAT", "IVF_SQ", "IVF_PQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ", "IVF_HNSW_PQ")
FORGETFUL = ("ZONEMAP", "BLOOMFILTER")


def some(first):
    keys = range(first, first + 150)
    vectors = np.random.RandomState(first).rand(150 * 8).astype("float32")
    return pa.table(
        {
            "id": pa.array(keys),
            "labels": [[f"a{key % 3}", f"b{key % 5}"] for key in keys],
            "text": [f"word{key % 7} text{key}" for key in keys],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors), 8),
        }
    )


def answer(root, kind):
    dataset = lance.dataset(root)
    if kind in VECTOR:
        asked = {"column": "v", "q": some(150)["v"][5].as_py(), "k": 5, "nprobes": 2, "refine_factor": 20}
        found = dataset.scanner(columns=["id", "_distance"], nearest=asked)
    elif kind == "INVERTED":
        found = dataset.scanner(columns=["id", "_score"], full_text_query=SCALAR[kind][1])
    else:
        found = dataset.scanner(columns=["id"], filter=SCALAR[kind][1])
    return sorted(found.to_table()["id"].to_pylist())


@pytest.mark.parametrize("stable", [True, False], ids=["stable", "plain"])
@pytest.mark.parametrize("kind", [*SCALAR, *VECTOR])
def test_an_index_of_every_kind_is_rehomed_and_answers_the_same(uri, kind, stable):
    for first in range(0, 600, 150):
        lance.write_dataset(some(first), uri, mode="append" if first else "create", enable_stable_row_ids=stable)
    if kind in SCALAR:
        lance.dataset(uri).create_scalar_index(SCALAR[kind][0], kind)
    else:
        subvectors = {"num_sub_vectors": 2} if "PQ" in kind else {}
        lance.dataset(uri).create_index("v", kind, num_partitions=2, **subvectors)
    location = DatasetLocation.at(uri)
    create_branch(location, "exp", RefSpec())
    root = location.branch_uri("exp")
    lance.write_dataset(some(600), root, mode="append")
    lance.dataset(root).delete("id % 10 = 3")
    before, of_main = answer(root, kind), answer(uri, kind)
    result = optimize(location, "exp", OptimizeOptions(own_only=False, target_rows=300, partial_progress=2), ENGINE)
    assert len(result.rehomed) == 1
    assert result.fragments_removed == 4
    assert answer(uri, kind) == of_main
    shutil.rmtree(f"{uri}/_indices")
    dataset = lance.dataset(root)
    dataset.validate()
    assert answer(root, kind) == before
    old = {fragment.fragment_id for fragment in dataset.get_fragments() if fragment.fragment_id > 4}
    (index,) = dataset.list_indices()
    assert index["base_id"] is None
    assert kind in FORGETFUL or set(index["fragment_ids"]) == old
    if kind in ("BTREE", "BITMAP", "LABEL_LIST", "NGRAM"):
        assert "ScalarIndexQuery" in dataset.scanner(filter=SCALAR[kind][1]).explain_plan()
    dataset.optimize.optimize_indices()
    assert answer(root, kind) == before


@pytest.mark.parametrize("own_only", [True, False])
def test_blobs_inside_and_beside_the_files(uri, own_only):
    payloads = [bytes([key]) * (100_000 if key % 2 else 10) for key in range(8)]
    for first in range(0, 8, 2):
        table = pa.table({"id": [first, first + 1], "b": lance.blob_array(payloads[first : first + 2])})
        root = uri if first < 4 else f"{uri}/tree/exp"
        lance.write_dataset(table, root, mode="append" if first else "create", data_storage_version="2.2")
        if first == 2:
            create_branch(DatasetLocation.at(uri), "exp", RefSpec())
    location = DatasetLocation.at(uri)
    result = optimize(location, "exp", OptimizeOptions(own_only=own_only), ENGINE)
    assert result.fragments_removed == (2 if own_only else 4)
    if not own_only:
        shutil.rmtree(f"{uri}/data")
    found = lance.dataset(root).to_table(blob_handling="all_binary").sort_by("id")
    assert found["b"].to_pylist() == payloads
