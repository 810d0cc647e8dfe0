"""With stable row ids an index keeps rows that are gone, and vectors that rows had: searches find neither.

pylance 14.0.2 alone gives fewer rows than were asked for once deleted rows were compacted away, and for several vectors
at once old distances of rows that were updated.
"""

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.indexed import DIMENSION, some
from support.searches import HERE, PARTS, brute_force, by_pylance, join, pairs, search

from lance_spark import LanceTable

QUERIES = np.random.default_rng(77).standard_normal((6, DIMENSION)).astype("f4")
ALL = {"nprobes": 64}
WORDS = " ".join(f"word{number}" for number in range(50))
"""Each row has one of them."""


pytestmark = pytest.mark.usefixtures("small_tasks")


def table(uri, rows):
    """Rows with stable ids, and indexes that cover them all."""
    lance.write_dataset(some(0, rows), uri, max_rows_per_file=100, enable_stable_row_ids=True)
    t = LanceTable.for_path(uri)
    t.indexes.create("v", kind="ivf_flat", num_partitions=2)
    t.indexes.create("text", kind="inverted")
    return t


def joined(uri, queries, **given):
    """What a join finds, by query."""
    asked = pa.table({"who": range(len(queries)), "q": pa.array(queries.tolist(), pa.list_(pa.float32()))})
    found = join(uri, asked, "q", **given)
    return [pairs(found.filter(pc.equal(found["who"], who))) for who in range(len(queries))]


def vectors(ids):
    return {each: np.array(some(each, 1)["v"][0].as_py(), "f4") for each in ids}


@pytest.mark.parametrize(
    ("compact", "k"),
    [("pylance", 10), ("pylance", 400), ("ours", 10), pytest.param("ours", 400, marks=pytest.mark.when(day=0))],
)
def test_rows_that_were_deleted_and_compacted_away_take_no_places(uri, k, compact):
    t = table(uri, 500)
    lance.dataset(uri).delete("id % 5 < 2")
    if compact == "pylance":
        lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=10_000)
    else:
        t.optimize()
        t.indexes.optimize()
    left = vectors([each for each in range(500) if each % 5 >= 2])
    true = [brute_force(left, query, k) for query in QUERIES]
    if compact == "pylance":
        assert len(by_pylance(lance.dataset(uri), QUERIES[0], k=k, **ALL)) < min(k, 300)
    for runner in (HERE, PARTS):
        for query, ids in zip(QUERIES, true, strict=True):
            assert [each for each, _ in pairs(search(uri, query, k=k, runner=runner, **ALL))] == ids
            assert search(uri, query, k=k, runner=runner, refine_factor=2, fast=True, **ALL)["id"].to_pylist() == ids
        words = pairs(search(uri, None, WORDS, "text", k=k, runner=runner), "_score")
        assert len({each for each, _ in words} & {*left}) == min(k, 300)
        every = dict(pairs(search(uri, None, WORDS, "text", k=5000, runner=runner), "_score"))
        assert words == [(each, every[each]) for each, _ in words]
        both = search(uri, QUERIES[0], WORDS, column="v", text_column="text", k=k, runner=runner, **ALL)
        assert both.num_rows == min(k, 300)
    for given in ({}, {"refine_factor": 2}):
        assert [[each for each, _ in found] for found in joined(uri, QUERIES, k=k, **given, **ALL)] == true


def test_rows_that_were_updated_are_near_by_the_vectors_that_they_have(uri):
    t = table(uri, 500)
    moved = [3, 50, 120, 333, 410]
    old = vectors(moved)
    new = some(500, 5).set_column(0, "id", pa.array(moved, pa.int64()))
    lance.dataset(uri).merge_insert("id").when_matched_update_all().execute(new)
    now = {**vectors(range(500)), **dict(zip(moved, vectors(range(500, 505)).values(), strict=True))}
    queries = np.stack([*old.values(), *(now[each] for each in moved[:2])])
    for step in (t.indexes.optimize, t.optimize):
        step()
        for given in ({}, {"refine_factor": 1}, {"filter": "id >= 0"}):
            asked = {"k": 10, **given, **ALL}
            found = joined(uri, queries, **asked)
            for query, hits in zip(queries, found, strict=True):
                real = [float(((now[each] - query) ** 2).sum()) for each, _ in hits]
                assert [distance for _, distance in hits] == pytest.approx(real, rel=1e-4, abs=1e-4)
                assert [each for each, _ in hits] == brute_force(now, query, 10)
            assert pairs(search(uri, queries[0], runner=PARTS, **asked)) == found[0]
