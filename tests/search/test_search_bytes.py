"""Vectors of bytes, compared by hamming: index, search and join, beside pylance and numpy."""

import lance
import numpy as np
import pyarrow as pa
import pytest
from support.searches import HERE, PARTS, by_pylance, join, pairs, prepared, search

from lance_spark import LanceTable
from lance_spark.errors import InvalidOption, NotFound, SchemaMismatch
from lance_spark.search.search import plan_tasks
from lance_spark.search.search_rules import FlatTask, SegmentTask

SIZE = 16
VECTORS = np.random.default_rng(11).integers(0, 256, (900, SIZE), dtype=np.uint8)
QUERY = np.random.default_rng(12).integers(0, 256, SIZE, dtype=np.uint8)


pytestmark = pytest.mark.usefixtures("small_tasks")


def rows(first, count):
    flat = pa.array(VECTORS[first : first + count].reshape(-1))
    ids = pa.array(range(first, first + count), pa.int64())
    return pa.table({"id": ids, "v": pa.FixedSizeListArray.from_arrays(flat, SIZE)})


def head(uri, branch=None):
    return lance.dataset(uri) if branch is None else lance.dataset(uri).checkout_version((branch, None))


def append(uri, branch, first, count):
    lance.write_dataset(rows(first, count), head(uri, branch), mode="append", max_rows_per_file=100)


def bits(ids, query=QUERY):
    """How many bits differ."""
    return {each: float(np.unpackbits(VECTORS[each] ^ query).sum()) for each in ids}


def check(uri, branch, ids, query=QUERY, **given):
    """The k nearest of these rows, by numpy: which of equally near ones an index finds first is its choice."""
    true = bits(ids, query)
    best = sorted((distance, each) for each, distance in true.items())[:12]
    queries = pa.table({"q": pa.array([query.tolist()], pa.list_(pa.int16()))})
    for found in (
        *(search(uri, query, branch=branch, k=12, runner=runner, **given) for runner in (HERE, PARTS)),
        join(uri, queries, "q", branch, k=12, **given),
    ):
        told = pairs(found)
        assert [distance for _, distance in told] == [distance for distance, _ in best]
        assert [true[each] for each, _ in told] == [distance for _, distance in told]
        assert len({each for each, _ in told}) == len(told)


@pytest.mark.parametrize("kind", ["ivf_flat", pytest.param("ivf_hnsw_flat", marks=pytest.mark.when(day=0))])
@pytest.mark.parametrize("stable", [True, pytest.param(False, marks=pytest.mark.when(day=0))])
def test_the_nearest_bytes_are_found_on_main_and_on_a_branch_whatever_happened(uri, kind, stable):
    lance.write_dataset(rows(0, 400), uri, max_rows_per_file=200, enable_stable_row_ids=stable)
    assert pairs(search(uri, QUERY, k=12, runner=PARTS)) == by_pylance(head(uri), QUERY, k=12, metric="hamming")
    t = LanceTable.for_path(uri)
    t.indexes.create("v", kind=kind, num_partitions=2)
    assert t.indexes.stats("v").settings["metric"] == "hamming"
    given = {"nprobes": 64, "ef": 200} if kind == "ivf_hnsw_flat" else {"nprobes": 64}
    check(uri, None, range(400), **given)
    check(uri, None, range(400), metric="hamming", refine_factor=2, **given)

    t.branches.create("exp")
    append(uri, "exp", 400, 200)
    there = {*range(600)}
    check(uri, "exp", there, **given)
    b = t.checkout(branch="exp")
    b.indexes.optimize()
    append(uri, "exp", 600, 100)
    head(uri, "exp").delete("id % 5 = 3")
    there = {each for each in range(700) if each % 5 != 3}
    plan = plan_tasks(prepared(uri, QUERY, branch="exp"), 4)
    assert [type(task) for task in plan] == [SegmentTask, SegmentTask, FlatTask]
    check(uri, "exp", there, **given)
    check(uri, "exp", there, refine_factor=3, **given)
    check(uri, "exp", there - {*range(600, 700)}, fast=True, **given)
    check(uri, "exp", {each for each in there if each > 350}, filter="id > 350", **given)
    check(uri, "exp", there, query=VECTORS[650], **given)
    check(uri, None, range(400), **given)

    t.checkout(branch="exp").optimize(own_only=False)
    t.checkout(branch="exp").indexes.optimize()
    check(uri, "exp", there, **given)
    t.branches.merge("exp")
    check(uri, None, there, **given)
    assert search(uri, VECTORS[3], k=1)["_distance"].to_pylist() != [0.0]


def test_as_pylance_answers_alone(uri):
    lance.write_dataset(rows(0, 600), uri, max_rows_per_file=200)
    LanceTable.for_path(uri).indexes.create("v", kind="ivf_flat", num_partitions=4)
    append(uri, None, 600, 100)
    for given in ({"nprobes": 4}, {"nprobes": 1, "k": 5}, {"use_index": False}, {"nprobes": 4, "refine_factor": 2}):
        expected = by_pylance(head(uri), QUERY, metric="hamming", **given)
        for asked in (QUERY, QUERY.tobytes(), QUERY.tolist()):
            assert pairs(search(uri, asked, **given)) == expected
        assert [distance for _, distance in pairs(search(uri, QUERY, runner=PARTS, **given))] == [
            distance for _, distance in expected
        ]


def test_a_join_of_many_vectors_of_bytes(uri):
    lance.write_dataset(rows(0, 300), uri, max_rows_per_file=100)
    given = [[int(each) for each in VECTORS[7]], None, [int(each) for each in VECTORS[450]]]
    queries = pa.table({"who": [0, 1, 2], "q": pa.array(given, pa.list_(pa.int32()))})
    found = join(uri, queries, "q", k=3).select(["who", "id", "_distance"]).to_pylist()
    expected = [
        {"who": who, "id": each, "_distance": distance}
        for who, query in ((0, VECTORS[7]), (2, VECTORS[450]))
        for distance, each in sorted((d, each) for each, d in bits(range(300), query).items())[:3]
    ]
    assert found == expected
    with pytest.raises(SchemaMismatch, match="holds 999, but column 'v' has bytes"):
        join(uri, pa.table({"q": pa.array([[999] * SIZE], pa.list_(pa.int32()))}), "q")


def test_impossible_requests_are_refused_before_any_work(uri):
    lance.write_dataset(rows(0, 300), uri)
    t = LanceTable.for_path(uri)
    for metric in ("l2", "cosine"):
        with pytest.raises(InvalidOption, match=f"need the metric hamming, not {metric}"):
            prepared(uri, QUERY, metric=metric)
        with pytest.raises(InvalidOption, match=f"need the metric hamming, not {metric}"):
            t.indexes.create("v", kind="ivf_flat", metric=metric)
    with pytest.raises(SchemaMismatch, match="does not fit column 'v'") as refused:
        t.indexes.create("v", kind="ivf_pq")
    assert refused.value.hint == "These kinds fit: ivf_flat, ivf_hnsw_flat."
    with pytest.raises(NotFound, match="no vector index") as missing:
        prepared(uri, QUERY, fast=True)
    assert "of ivf_flat, ivf_hnsw_flat" in missing.value.hint
    assert t.version == 1
