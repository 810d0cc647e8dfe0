"""Several vectors a row (late interaction): a search finds what numpy and pylance find, and never guessed distances."""

import lance
import numpy as np
import pyarrow as pa
import pytest
from support.searches import HERE, PARTS, join, pairs, prepared, search

from lance_spark import LanceTable
from lance_spark.errors import InvalidOption, SchemaMismatch
from lance_spark.search.search import plan_tasks
from lance_spark.search.search_rules import FlatTask, WholeTask

SIZE = 8
_RNG = np.random.default_rng(3)
MATRICES = [_RNG.standard_normal((int(_RNG.integers(1, 5)), SIZE)).astype("f4") for _ in range(700)]
QUERY = _RNG.standard_normal((3, SIZE)).astype("f4")


pytestmark = pytest.mark.usefixtures("small_tasks")


FLOAT = pa.float32()


def rows(first, count, number=FLOAT):
    span = range(first, first + count)
    values = [None if each % 50 == 49 else MATRICES[each].tolist() for each in span]
    return pa.table({"id": pa.array(span, pa.int64()), "v": pa.array(values, pa.list_(pa.list_(number, SIZE)))})


def head(uri, branch=None):
    return lance.dataset(uri) if branch is None else lance.dataset(uri).checkout_version((branch, None))


def distance(metric, matrix, query):
    """The least distance to any vector of the row, for each vector of the query, summed up."""
    query, matrix = query.astype("f8"), matrix.astype("f8")
    if metric == "l2":
        each = ((query[:, None, :] - matrix[None, :, :]) ** 2).sum(axis=2)
    elif metric == "dot":
        each = 1 - query @ matrix.T
    else:
        lengths = np.linalg.norm(query, axis=1)[:, None] * np.linalg.norm(matrix, axis=1)[None, :]
        each = 1 - query @ matrix.T / lengths
    return float(each.min(axis=1).sum())


def truth(ids, metric="cosine", query=QUERY, k=10):
    known = {each: distance(metric, MATRICES[each], query) for each in ids if each % 50 != 49}
    return sorted(known.items(), key=lambda pair: pair[1])[:k]


def by_pylance(dataset, query=QUERY, k=10, metric="cosine", **asked):
    nearest = {"column": "v", "q": query, "k": k, "metric": metric, **asked}
    return pairs(dataset.scanner(columns=["id", "_distance"], nearest=nearest).to_table())


def check(found, true):
    assert [each for each, _ in found] == [each for each, _ in true]
    assert [value for _, value in found] == pytest.approx([value for _, value in true], rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("metric", ["cosine", "l2", "dot"])
@pytest.mark.parametrize("query", [QUERY, QUERY[0]], ids=["several", "one"])
def test_without_an_index_all_vectors_are_compared_in_tasks(uri, metric, query):
    lance.write_dataset(rows(0, 300), uri, max_rows_per_file=100)
    true = truth(range(300), metric, np.atleast_2d(query))
    alone = by_pylance(head(uri), query, metric=metric)
    check(alone, true)
    for runner in (HERE, PARTS):
        assert pairs(search(uri, query, metric=metric, runner=runner)) == alone
    assert len([each for each in plan_tasks(prepared(uri, query), 4) if isinstance(each, FlatTask)]) == 3


@pytest.mark.parametrize("number", [pa.float16(), pa.float64()], ids=str)
def test_numbers_of_other_widths(uri, number):
    lance.write_dataset(rows(0, 100).cast(rows(0, 1, number).schema), uri, max_rows_per_file=50)
    for runner in (HERE, PARTS):
        found = pairs(search(uri, QUERY, metric="cosine", runner=runner))
        assert found == by_pylance(head(uri))
        assert [value for _, value in found] == pytest.approx(
            [value for _, value in truth(range(100))], rel=1e-2, abs=1e-2
        )


def test_an_index_only_gives_candidates(uri):
    """pylance 14.0.2 alone, without a factor, misses the nearest row and tells distances that are too small."""
    lance.write_dataset(rows(0, 400), uri, max_rows_per_file=200)
    head(uri).create_index("v", "IVF_FLAT", metric="cosine", num_partitions=2)
    t = LanceTable.for_path(uri)
    t.branches.create("exp")
    lance.write_dataset(rows(400, 200), head(uri, "exp"), mode="append", max_rows_per_file=100)
    head(uri, "exp").delete("id % 7 = 3")
    there = [each for each in range(600) if each % 7 != 3]
    wrong = by_pylance(head(uri), k=5)
    assert [value for _, value in wrong] != pytest.approx([value for _, value in truth(range(400), k=5)], abs=1e-3)

    for runner in (HERE, PARTS):
        check(pairs(search(uri, QUERY, runner=runner)), truth(range(400)))
        check(pairs(search(uri, QUERY, branch="exp", runner=runner)), truth(there))
        late = search(uri, QUERY, branch="exp", runner=runner, filter="id > 300")
        check(pairs(late), truth([each for each in there if each > 300]))
        asked = {"nprobes": 2, "refine_factor": 10, "branch": "exp", "runner": runner}
        found = pairs(search(uri, QUERY, **asked))
        check(found, [(each, distance("cosine", MATRICES[each], QUERY)) for each, _ in found])
        assert len({*dict(found)} & {*dict(truth(there))}) >= 9
        fast = pairs(search(uri, QUERY, fast=True, **asked))
        check(fast, [(each, distance("cosine", MATRICES[each], QUERY)) for each, _ in fast])
        assert len({*dict(fast)} & {*dict(truth([each for each in there if each < 400]))}) >= 9
    assert plan_tasks(prepared(uri, QUERY, branch="exp", refine_factor=10), 4) == (WholeTask(),)
    with pytest.raises(InvalidOption, match="an index only approximates"):
        prepared(uri, QUERY, fast=True)


def test_impossible_requests_are_refused_before_any_work(uri):
    lance.write_dataset(rows(0, 10), uri)
    with pytest.raises(SchemaMismatch, match="has 2 numbers, but those of column 'v' have 8"):
        prepared(uri, [[1.0, 2.0]])
    with pytest.raises(InvalidOption, match="hamming compares bytes"):
        prepared(uri, QUERY, metric="hamming")
    with pytest.raises(SchemaMismatch, match="does not fit column 'v'"):
        LanceTable.for_path(uri).indexes.create("v", kind="ivf_flat")
    with pytest.raises(SchemaMismatch, match="several vectors per row, which a join does not support"):
        join(uri, pa.table({"q": pa.array([[1.0] * SIZE], pa.list_(pa.float32()))}), "q")
