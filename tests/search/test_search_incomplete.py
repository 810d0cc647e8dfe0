"""Rows whose vectors lack a number are neighbours of nothing, whatever an index covers."""

import warnings
from types import SimpleNamespace

import lance
import numpy as np
import pyarrow as pa
import pytest
from support.searches import HERE, PARTS, join, search

from lance_spark import LanceTable
from lance_spark.errors import LanceSparkWarning, SchemaMismatch
from lance_spark.indexes import index_segments
from lance_spark.indexes.indexes import Look

INF, NAN = float("inf"), float("nan")
ODD = [[None, 0.0], [0.0, None], None, [None, None], [NAN, 0.0], [INF, 0.0], [-INF, -INF]]
QUERY = [0.05, 0.1]


def write(uri, first, count, stable=False):
    vectors = [*np.random.default_rng(first).standard_normal((count, 2)).tolist(), *ODD]
    ids = [*range(first, first + count), *range(10_000 + first, 10_000 + first + len(ODD))]
    rows = pa.table({"id": ids, "v": pa.array(vectors, pa.list_(pa.float32(), 2))})
    lance.write_dataset(rows, uri, mode="append" if first else "create", enable_stable_row_ids=stable)
    return dict(zip(ids[:count], np.array(vectors[:count], "f4"), strict=True))


def distance(metric, vector):
    query = np.array(QUERY)
    if metric == "l2":
        return ((vector - query) ** 2).sum()
    dot = vector @ query
    return 1 - dot if metric == "dot" else 1 - dot / np.linalg.norm(vector) / np.linalg.norm(query)


@pytest.mark.when(day={"metric": ["dot"], "state": ["stale"], "stable": [True]})
@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("state", ["none", "stale", "complete", "compacted", "branch"])
@pytest.mark.parametrize("stable", [False, True], ids=["", "stable"])
def test_neighbours_are_as_in_numpy(uri, metric, state, stable):
    vectors = write(uri, 0, 300, stable)
    t = LanceTable.for_path(uri)
    branch = "exp" if state == "branch" else None
    if state != "none":
        t.indexes.create("v", kind="ivf_flat", num_partitions=1, metric=metric)
    if branch:
        t.branches.create(branch)
    if state != "complete":
        target = lance.dataset(uri).checkout_version((branch, None)) if branch else uri
        vectors |= write(target, 300, 50)
    if state == "compacted":
        t.optimize()
    for where in (None, "id % 2 = 1"):
        true = sorted(
            (float(distance(metric, vector)), row) for row, vector in vectors.items() if where is None or row % 2
        )
        expected = [row for _, row in true[:12]]
        options = {"k": 12, "metric": metric, "filter": where, "branch": branch}
        queries = pa.table({"q": pa.array([QUERY, QUERY], pa.list_(pa.float32()))})
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for runner in (HERE, PARTS):
                found = search(uri, QUERY, "" or None, "v", runner=runner, **options)
                assert found["id"].to_pylist() == expected
                assert found["_distance"].to_pylist() == pytest.approx([each for each, _ in true[:12]], abs=1e-5)
            joined = join(uri, queries, "q", found_in="v", **options)
            assert joined["id"].to_pylist() == expected * 2
        if state == "none" and metric != "cosine":
            assert {each.category for each in told} == {LanceSparkWarning}
            assert "12 rows of" in str(told[0].message)


def test_rows_beside_an_index_of_unknown_settings_are_ranked_with_a_note(uri, monkeypatch):
    lance.write_dataset(pa.table({"id": [1, 2], "text": ["storm", "fog"]}), uri)
    LanceTable.for_path(uri).indexes.create("text", kind="inverted")
    lance.write_dataset(pa.table({"id": [3], "text": ["storm"]}), uri, mode="append")
    with warnings.catch_warnings():
        warnings.simplefilter("error", LanceSparkWarning)
        assert sorted(search(uri, None, "storm", "text")["id"].to_pylist()) == [1, 3]
        monkeypatch.setattr(Look, "settings", lambda *_: None)
        with pytest.raises(LanceSparkWarning, match=r"1 row of .* 'text_idx' does not cover .* ranked approximately"):
            search(uri, None, "storm", "text")


def test_what_a_version_does_not_record_of_a_text_index_its_files_tell(uri, monkeypatch):
    lance.write_dataset(pa.table({"id": [1, 2], "text": ["storms", "fog"]}), uri)
    LanceTable.for_path(uri).indexes.create("text", kind="inverted", stem=False)
    lance.write_dataset(pa.table({"id": [3, 4], "text": ["storms", "storm"]}), uri, mode="append")
    described = index_segments._described

    def without_settings(*at):
        found = described(*at)
        facts = [name for name in dir(found[0]) if not name.startswith("_")]
        return [SimpleNamespace(**{**{name: getattr(each, name) for name in facts}, "details": {}}) for each in found]

    monkeypatch.setattr(index_segments, "_described", without_settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LanceSparkWarning)
        assert sorted(search(uri, None, "storms", "text")["id"].to_pylist()) == [1, 3]


@pytest.mark.parametrize("kind", ["vector", "text", "both"])
def test_a_search_without_hits_has_columns_of_every_type(spark, uri, kind):
    rows = {"id": [1], "text": ["fog"], "tags": [["a"]], "v": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))}
    rows |= {"place": [{"x": 1, "names": ["b"]}], "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32()))}
    lance.write_dataset(pa.table(rows), uri)
    t = LanceTable.for_path(uri, spark=spark)
    text, vector = ("storm" if kind != "vector" else None), ([1.0, 2.0] if kind != "text" else None)
    given = {"text_column": "text", "column": "v"} if kind == "both" else {"column": "v" if text is None else "text"}
    found = t.search(vector, text, filter="id > 5", **given)
    assert found.collect() == []
    assert {*rows} <= {*found.columns}


@pytest.mark.when(spark="newest")
def test_lists_become_vectors_as_the_hint_says(spark, uri):
    rows = {"id": [1, 2], "l": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32()))}
    lance.write_dataset(pa.table(rows), uri)
    t = LanceTable.for_path(uri, spark=spark)
    with pytest.raises(SchemaMismatch) as refused:
        t.search([3.0, 3.5])
    with pytest.raises(SchemaMismatch) as other:
        t.indexes.create("l", kind="ivf_flat")
    assert refused.value.hint == other.value.hint
    exec(refused.value.hint.split(": ", 1)[1].rstrip(".").replace("384", "2"), {"t": t})
    assert [row.id for row in t.search([3.0, 3.5], columns="id").collect()] == [2, 1]
