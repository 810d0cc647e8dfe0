"""Searches: what pylance finds in one process, whatever tasks they are cut into, and nothing that is gone."""

import pickle
import shutil
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from support.indexed import DIMENSION, some
from support.searches import HERE, PARTS, brute_force, by_pylance, join, pairs, prepared, search

from lance_spark import LanceTable
from lance_spark.errors import InvalidOption, NotFound, Refused, SchemaMismatch
from lance_spark.search.search import plan_tasks
from lance_spark.search.search_rules import FlatTask, SegmentTask, TextTask, WholeTask
from lance_spark.search.search_tasks import Near, asked_for
from lance_spark.search.text_rules import BooleanQuery, BoostQuery, MatchQuery, MultiMatchQuery, PhraseQuery

QUERY = np.random.default_rng(1_000_003).standard_normal(DIMENSION).astype("f4")


pytestmark = pytest.mark.usefixtures("small_tasks")


@pytest.fixture(scope="module")
def branched(tmp_path_factory):
    """Main with two segments of an index; branch exp with a segment of its own, rows without an index, deletions."""
    uri = str(tmp_path_factory.mktemp("searches") / "table.lance")
    lance.write_dataset(some(0, 1200), uri, max_rows_per_file=300)
    t = LanceTable.for_path(uri)
    t.indexes.create("v", kind="ivf_pq", num_partitions=4, num_sub_vectors=4)
    t.indexes.create("text", kind="inverted", with_position=True)
    append(uri, None, 1200, 600)
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    t.branches.create("exp")
    append(uri, "exp", 1800, 600)
    t.checkout(branch="exp").indexes.optimize()
    append(uri, "exp", 2400, 200)
    head(uri, "exp").delete("id % 7 = 3")
    append(uri, None, 5000, 100)
    return uri


@pytest.fixture(scope="module")
def extended(branched, tmp_path_factory):
    """A copy of it, whose indexes cover all rows."""
    uri = str(tmp_path_factory.mktemp("extended") / "table.lance")
    shutil.copytree(branched, uri)
    for branch in (None, "exp"):
        head(uri, branch).optimize.optimize_indices(num_indices_to_merge=0)
    return uri


def append(uri, branch, first, count):
    lance.write_dataset(some(first, count), head(uri, branch), mode="append", max_rows_per_file=100)


def head(uri, branch=None):
    return lance.dataset(uri) if branch is None else lance.dataset(uri).checkout_version((branch, None))


def exact_distances(ids):
    vectors = [some(each, 1)["v"][0].as_py() for each in ids]
    return [float(((np.array(each, "f4") - QUERY) ** 2).sum()) for each in vectors]


MORE = [("ivf_pq", False), ("ivf_flat", True), ("ivf_hnsw_sq", False), ("ivf_hnsw_sq", True), ("ivf_sq", True)]
OPTIONS = [
    {},
    {"refine_factor": 3},
    {"nprobes": 4},
    {"nprobes": 4, "k": 25},
    {"nprobes": 4, "refine_factor": 2, "k": 30},
    {"metric": "cosine", "nprobes": 1},
    {"metric": "dot", "nprobes": 1},
    {"use_index": False, "nprobes": 1},
    {"fast": True, "nprobes": 4},
    {"fast": True, "nprobes": 4, "refine_factor": 2},
]


@pytest.mark.when(day=0.06)
@pytest.mark.parametrize("branch", [None, "exp"])
@pytest.mark.parametrize("where", [None, "k = 2", "id > 100000"])
@pytest.mark.parametrize("prefilter", [True, False])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("runner", [HERE, PARTS], ids=["here", "parts"])
def test_a_search_finds_what_pylance_finds_with_the_same_distances(branched, branch, where, prefilter, options, runner):
    given = {**options}
    told = {name.replace("fast", "fast_search"): value for name, value in given.items()}
    expected = by_pylance(head(branched, branch), QUERY, filter=where, prefilter=prefilter, **told)
    found = pairs(search(branched, QUERY, branch=branch, filter=where, prefilter=prefilter, runner=runner, **given))
    if "nprobes" in options:
        assert found == expected
    else:
        # Where the partitions that are looked into first hold fewer rows than asked for, pylance looks into others
        # until all segments together have enough, whichever is first; and a task until its own have: it finds rows
        # whose distances by the index are as near. Of more such rows, others than before are refined: an exactly
        # nearer one may lose its place to them.
        assert len(found) >= len(expected)
        if "refine_factor" in options:
            assert [distance for _, distance in found] == pytest.approx(exact_distances([row for row, _ in found]))
        elif runner is PARTS:
            assert all(mine <= theirs for (_, mine), (_, theirs) in zip(found, expected, strict=False))


def test_tasks_are_segments_and_groups_of_fragments_without_an_index(branched):
    plan = plan_tasks(prepared(branched, QUERY, branch="exp"), 4)
    segments = [task for task in plan if isinstance(task, SegmentTask)]
    flat = [task for task in plan if isinstance(task, FlatTask)]
    assert len(segments) == 3
    assert len(flat) > 1
    assert sorted(each for task in flat for each in task.fragments) == [16, 17]
    assert [
        type(task) for task in plan_tasks(prepared(branched, QUERY, "word7", filter="k = 1", prefilter=False), 4)
    ] == [
        WholeTask,
        TextTask,
    ]
    assert pickle.loads(pickle.dumps(plan)) == plan


def test_wide_columns_are_read_for_the_rows_that_were_found(branched, monkeypatch):
    monkeypatch.setattr("lance_spark.search.search_tasks.ROWS_AT_ONCE", 2)
    found = search(branched, QUERY, k=3, columns=["text", "_rowid", "tags", "_rowaddr", "id"], runner=PARTS)
    assert found.column_names == ["text", "_rowid", "tags", "_rowaddr", "id", "_distance"]
    rows = found.to_pylist()
    every = {row["id"]: row for row in head(branched).to_table(columns=["id", "text", "tags"]).to_pylist()}
    assert [{name: row[name] for name in ("id", "text", "tags")} for row in rows] == [every[row["id"]] for row in rows]
    assert search(branched, QUERY, k=3, columns=None).column_names == ["id", "k", "tags", "text", "v", "_distance"]
    assert search(branched, QUERY, k=3, columns=[]).column_names == ["_distance"]


def test_wide_columns_of_other_rows_are_not_read(uri):
    """Files of a wide column are gone where no row is found: whoever read them for all rows would fail."""
    lance.write_dataset(some(0, 400), uri, max_rows_per_file=100)
    LanceTable.for_path(uri).indexes.create("text", kind="inverted")
    before = {each.name for each in Path(uri, "data").iterdir()}
    head(uri).add_columns({"wide": "repeat(text, 50)"})
    added = {each.name for each in Path(uri, "data").iterdir()} - before
    for fragment in head(uri).get_fragments():
        (name,) = {file.path for file in fragment.data_files()} & added
        if fragment.fragment_id != 2:
            Path(uri, "data", name).unlink()
    with pytest.raises((OSError, ValueError), match=r"(?i)not found"):
        head(uri).to_table(columns=["wide"])
    query = some(205, 1)["v"][0].as_py()
    given = {"columns": ["id", "wide"], "k": 1}
    both = {"column": "v", "text_column": "text", "candidates": 1}
    row = {"id": 205, "wide": "word5 of the number205" * 50}
    for runner in (HERE, PARTS):
        for found in (
            search(uri, query, runner=runner, **given),
            search(uri, None, "number205", "text", runner=runner, **given),
            search(uri, query, "number205", runner=runner, **given, **both),
        ):
            assert found.select(["id", "wide"]).to_pylist() == [row]
    queries = pa.table({"q": pa.array([query], pa.list_(pa.float32()))})
    assert join(uri, queries, "q", **given).select(["id", "wide"]).to_pylist() == [row]


def test_pylance_gets_arguments_by_its_own_names():
    """Its own arguments, by its names, and those of an index only where one answers."""
    query = np.ones(2, "f4")
    told = {"column": "v", "q": query, "k": 5, "metric": "dot"}
    near = Near("v", "dot", True, ("a", "b"), nprobes=3, refine_factor=2, ef=77)
    chosen = {"nprobes": 3, "refine_factor": 2, "ef": 77}
    assert asked_for(near, query, 5, use_index=True) == {**told, "use_index": True, **chosen}
    assert asked_for(near, query, 5, use_index=False) == {**told, "use_index": False}
    assert asked_for(Near("v", "dot", False), query, 5, use_index=True) == {**told, "use_index": False}


def test_a_graph_keeps_as_many_candidates_as_were_asked_for(uri):
    lance.write_dataset(some(0, 900), uri, max_rows_per_file=300)
    t = LanceTable.for_path(uri)
    t.indexes.create("v", kind="ivf_hnsw_flat", num_partitions=1, m=4, ef_construction=20)
    queries = np.random.default_rng(8).standard_normal((8, DIMENSION)).astype("f4")
    hits = {}
    for ef in (3, 400):
        hits[ef] = 0
        for query in queries:
            expected = by_pylance(head(uri), query, k=3, ef=ef, nprobes=1)
            true = by_pylance(head(uri), query, k=3, use_index=False)
            for runner in (HERE, PARTS):
                assert pairs(search(uri, query, k=3, ef=ef, nprobes=1, runner=runner)) == expected
            hits[ef] += len({*dict(expected)} & {*dict(true)})
    assert hits[3] < hits[400]


def test_equal_distances_come_in_the_order_of_row_ids(uri):
    same = pa.table({"id": list(range(90, 0, -1)), "v": pa.array([[1.0, 2.0]] * 90, pa.list_(pa.float32(), 2))})
    lance.write_dataset(same, uri, max_rows_per_file=10)
    for runner in (HERE, PARTS):
        assert search(uri, [1, 2], k=25, runner=runner)["id"].to_pylist() == list(range(90, 65, -1))


def test_vectors_without_a_distance_are_left_out(uri):
    vectors = [[0.0, 0.0], None, [float("nan"), 1.0], [1.0, 0.0], [0.0, 2.0]]
    lance.write_dataset(pa.table({"id": range(5), "v": pa.array(vectors, pa.list_(pa.float64(), 2))}), uri)
    for runner in (HERE, PARTS):
        assert search(uri, [1.0, 0.0], metric="cosine", runner=runner)["id"].to_pylist() == [3, 4]
        assert search(uri, [1.0, 0.0], runner=runner)["id"].to_pylist() == [3, 0, 4]


TEXTS = [
    "word7 number57",
    MatchQuery("wrod7 nmber57", fuzziness=2),
    PhraseQuery("of the number57"),
    BooleanQuery(must=[MatchQuery("word7")], must_not=[MatchQuery("number57"), PhraseQuery("the number107")]),
    BoostQuery(MatchQuery("word7"), MatchQuery("number57"), negative_boost=0.1),
    MultiMatchQuery("word7 number57", ["text"], boosts=[2.0]),
]


@pytest.mark.parametrize("words", TEXTS, ids=str)
@pytest.mark.parametrize("where", [None, "k = 2"])
@pytest.mark.parametrize("branch", [None, "exp"])
def test_text_has_the_scores_that_a_complete_index_gives(branched, extended, words, where, branch):
    """BM25 counts words in all segments, and in the rows that no segment covers: as if the index covered these."""
    from lance_spark.search.search_tasks import lance_query

    bound = prepared(branched, None, words, "text", branch=branch).work.text
    asked = {"full_text_query": lance_query(bound), "filter": where, "prefilter": True}
    dataset = head(extended, branch)
    expected = pairs(dataset.scanner(columns=["id", "_score"], limit=1000, **asked).to_table(), "_score")
    for runner in (HERE, PARTS):
        given = {"filter": where, "runner": runner}
        found = pairs(search(branched, None, words, "text", branch, k=1000, **given), "_score")
        assert sorted(found) == sorted(expected)
        assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
        assert expected or where
        best = pairs(search(branched, None, words, "text", branch, k=3, **given), "_score")
        assert [score for _, score in best] == [score for _, score in found[:3]]
        assert {*best} <= {*found}


@pytest.mark.parametrize("branch", [None, "exp"])
def test_several_columns_with_factors(uri, branch):
    """The best column of a row counts, times its factor: by the scores that each column has on its own."""
    titles, texts = ["late storm", "fog", "storm", "gate"], ["fog", "late storm at the gate", "storm late", "fog"]

    def rows(first, count):
        span = range(first, first + count)
        return pa.table(
            {"id": list(span), "title": [titles[at % 4] for at in span], "text": [texts[at % 4] for at in span]}
        )

    lance.write_dataset(rows(0, 40), uri, max_rows_per_file=20)
    t = LanceTable.for_path(uri)
    for column in ("title", "text"):
        t.indexes.create(column, kind="inverted")
    t.branches.create("exp")
    lance.write_dataset(rows(40, 20), head(uri, "exp"), mode="append")
    alone = {
        column: dict(pairs(search(uri, None, "late storm", column, branch, k=100), "_score"))
        for column in ("title", "text")
    }
    for factors in ({"title": 3.0, "text": 1.0}, {"title": 1.0, "text": 2.5}):
        true: dict[int, float] = {}
        for column, factor in factors.items():
            for each, score in alone[column].items():
                true[each] = max(true.get(each, 0.0), factor * score)
        assert len(true) == (30 if branch is None else 45)
        for runner in (HERE, PARTS):
            found = pairs(search(uri, None, "late storm", factors, branch, k=100, runner=runner), "_score")
            assert dict(found) == pytest.approx(true)
            assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)


def test_a_text_index_that_finds_rows_by_texts_that_they_had_is_refused(uri):
    """pylance 14.0.2: rows that keep their ids are in the new segment, and with their old words in the old one."""
    lance.write_dataset(some(0, 600), uri, max_rows_per_file=200, enable_stable_row_ids=True)
    t = LanceTable.for_path(uri)
    t.indexes.create("text", kind="inverted")
    append(uri, None, 600, 100)
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    assert search(uri, None, "number5", "text")["id"].to_pylist() == [5]
    lance.dataset(uri).update({"text": "'other words'"}, "id = 5")
    assert search(uri, None, "number5", "text").num_rows == 0
    assert search(uri, None, "words", "text")["id"].to_pylist() == [5]
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    with pytest.raises(Refused, match="may have been changed") as refused:
        search(uri, None, "number5", "text")
    assert "replace=True" in refused.value.hint
    t.indexes.create("text", kind="inverted", replace=True)
    assert search(uri, None, "number5", "text").num_rows == 0
    assert search(uri, None, "words", "text")["id"].to_pylist() == [5]


def test_rows_that_no_text_index_covers_are_found_unless_fast(branched):
    new = search(branched, None, "number5050", "text")
    assert new["id"].to_pylist() == [5050]
    assert search(branched, None, "number5050", "text", fast=True).num_rows == 0


def test_both_lists_are_ranked_together(branched):
    given = {"k": 8, "candidates": 40, "text_column": "text"}
    near = search(branched, QUERY, k=40, branch="exp")["id"].to_pylist()
    words = search(branched, None, "word7", "text", "exp", k=40)["id"].to_pylist()
    points = {}
    for ids in (near, words):
        for rank, row in enumerate(ids, 1):
            points[row] = points.get(row, 0) + 1 / (60 + rank)
    for runner in (HERE, PARTS):
        found = search(branched, QUERY, "word7", branch="exp", runner=runner, **given)
        assert found.column_names == ["id", "_distance", "_score", "_relevance_score"]
        assert found["_relevance_score"].to_pylist() == pytest.approx(sorted(points.values(), reverse=True)[:8])
        assert found["_relevance_score"].to_pylist() == pytest.approx([points[row] for row in found["id"].to_pylist()])
        for row in found.to_pylist():
            assert (row["_distance"] is not None, row["_score"] is not None) == (row["id"] in near, row["id"] in words)


@pytest.mark.parametrize(
    ("kind", "stable"),
    [
        ("ivf_pq", True),
        pytest.param("ivf_flat", False, marks=pytest.mark.when(day=0)),
        *(pytest.param(*case, marks=pytest.mark.when(day=0)) for case in MORE),
    ],
)
def test_whatever_happened_the_nearest_rows_are_those_that_are_there(uri, stable, kind):
    lance.write_dataset(some(0, 1200), uri, max_rows_per_file=200, enable_stable_row_ids=stable)
    t = LanceTable.for_path(uri)
    pq = {"num_sub_vectors": 8} if kind == "ivf_pq" else {}
    t.indexes.create("v", kind=kind, num_partitions=4, **pq)
    rows = dict(zip(range(1200), np.stack(some(0, 1200)["v"].to_pylist()), strict=True))
    check(uri, None, rows)

    t.branches.create("exp")
    on_branch = dict(rows)
    append(uri, "exp", 1200, 300)
    on_branch |= dict(zip(range(1200, 1500), np.stack(some(1200, 300)["v"].to_pylist()), strict=True))
    check(uri, "exp", on_branch)
    check(uri, None, rows)

    gone = brute_force(on_branch, QUERY, 6)
    head(uri, "exp").delete(f"id IN ({', '.join(map(str, gone))})")
    for each in gone:
        del on_branch[each]
    check(uri, "exp", on_branch, without=gone)
    check(uri, None, rows)

    # The nearest go far away, and others come near.
    moved = brute_force(on_branch, QUERY, 5)
    vectors = [np.full(DIMENSION, 9.0 + each, "f4") for each in range(5)]
    vectors += [QUERY + np.float32(0.01 * each) for each in range(5)]
    ids = [*moved, 7, 250, 600, 1201, 1499]
    change(uri, "exp", ids, vectors)
    on_branch |= dict(zip(ids, vectors, strict=True))
    check(uri, "exp", on_branch, without=moved)
    assert {7, 250, 600, 1201, 1499} <= {*search(uri, QUERY, branch="exp")["id"].to_pylist()}

    t.checkout(branch="exp").indexes.optimize()
    check(uri, "exp", on_branch, without=moved)
    t.checkout(branch="exp").optimize(own_only=False)
    check(uri, "exp", on_branch, without=[*moved, *gone])
    t.checkout(branch="exp").indexes.optimize()
    check(uri, "exp", on_branch, without=[*moved, *gone])
    check(uri, None, rows)

    t.branches.create("next", version=t.version)
    append(uri, "next", 3000, 200)
    head(uri, "next").delete("id < 50")
    t.branches.merge("next")
    rows |= dict(zip(range(3000, 3200), np.stack(some(3000, 200)["v"].to_pylist()), strict=True))
    rows = {key: value for key, value in rows.items() if key >= 50}
    check(uri, None, rows, without=range(50))
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=1000)
    check(uri, None, rows, without=range(50))


def change(uri, branch, ids, vectors):
    new = some(0, 1).take(pa.array([0] * len(ids)))
    values = pa.FixedSizeListArray.from_arrays(pa.array(np.concatenate(vectors).astype("f4")), DIMENSION)
    new = new.set_column(0, "id", pa.array(ids, pa.int64())).set_column(4, "v", values)
    head(uri, branch).merge_insert("id").when_matched_update_all().execute(new)


def check(uri, branch, rows, without=()):
    """Without an index the nearest rows are exact ones; with it most of them are, and their distances are right."""
    rng = np.random.default_rng(5)
    hits = 0
    for query in (QUERY, *rng.standard_normal((2, DIMENSION)).astype("f4")):
        true = brute_force(rows, query, 10)
        for runner in (HERE, PARTS):
            assert search(uri, query, branch=branch, use_index=False, runner=runner)["id"].to_pylist() == true
            found = search(uri, query, branch=branch, nprobes=8, refine_factor=10, runner=runner)
            ids = found["id"].to_pylist()
            assert len({*ids}) == 10
            if query is QUERY:
                assert not {*ids} & {*without}
            real = [float(((rows[each] - query) ** 2).sum()) for each in ids]
            assert found["_distance"].to_pylist() == pytest.approx(real, rel=1e-4, abs=1e-4)
            hits += len({*ids} & {*true})
    assert hits / 60 >= 0.95


JOINS = [
    {},
    {"refine_factor": 3},
    {"fast": True},
    {"fast": True, "refine_factor": 2},
    {"use_index": False},
    {"metric": "cosine"},
    {"filter": "k = 2"},
    {"filter": "k = 2", "prefilter": False},
]


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("branch", [None, "exp"])
@pytest.mark.parametrize("options", JOINS, ids=str)
def test_a_join_finds_for_each_row_what_a_search_finds(branched, branch, options, monkeypatch):
    monkeypatch.setattr("lance_spark.search.search_tasks._QUERIES", 4)
    monkeypatch.setattr("lance_spark.search.search_tasks.ROWS_AT_ONCE", 5)
    vectors = [*np.random.default_rng(9).standard_normal((6, DIMENSION)).astype("f4").tolist(), None]
    vectors.insert(2, None)
    queries = pa.table({"who": range(8), "q": pa.array(vectors, pa.list_(pa.float32()))})
    given = {"k": 4, "nprobes": 4, **options}
    found = join(branched, queries, "q", branch, **given).to_pylist()
    expected = [
        {"who": who, "q": vector, "id": row, "_distance": distance}
        for who, vector in enumerate(vectors)
        if vector is not None
        for row, distance in pairs(search(branched, vector, branch=branch, **given))
    ]
    assert found == expected


def test_a_vector_of_another_length_ends_a_join(branched):
    queries = pa.table({"q": pa.array([[1.0, 2.0]], pa.list_(pa.float32()))})
    with pytest.raises(SchemaMismatch, match="A query has 2 numbers, but those of column 'v' have 16"):
        join(branched, queries, "q")


def test_a_column_with_the_name_of_pylances_own_keeps_joins_out(uri):
    lance.write_dataset(some(0, 10).rename_columns(["id", "k", "tags", "query_index", "v"]), uri)
    with pytest.raises(SchemaMismatch, match="has a column 'query_index'"):
        join(uri, pa.table({"q": pa.array([QUERY.tolist()], pa.list_(pa.float32()))}), "q")
    assert search(uri, QUERY).num_rows == 10


REFUSED = [
    ({"vector": [1.0, 2.0]}, SchemaMismatch, "has 2 numbers, but those of column 'v' have 16"),
    ({"vector": "abc"}, SchemaMismatch, "is not a list of numbers"),
    ({"vector": [[0.0] * 16]}, SchemaMismatch, "has 2 dimensions"),
    ({"vector": [float("nan")] * 16}, SchemaMismatch, "not finite"),
    ({"vector": [0.0] * 16, "metric": "cosine"}, SchemaMismatch, "all zeros"),
    ({"vector": QUERY, "column": "id"}, SchemaMismatch, "'id' is int64"),
    ({"vector": QUERY, "column": "w"}, NotFound, "no column 'w'"),
    ({"vector": QUERY, "k": 0}, InvalidOption, "k must be .*not 0"),
    ({"vector": QUERY, "k": True}, InvalidOption, "k must be .*not True"),
    ({"vector": QUERY, "columns": ["idd"]}, NotFound, "no column 'idd'"),
    ({"vector": QUERY, "columns": ["id", "id"]}, InvalidOption, "twice"),
    ({"vector": QUERY, "filter": "nope = 1"}, InvalidOption, "nope"),
    ({"vector": QUERY, "filter": " "}, InvalidOption, "empty"),
    ({"vector": QUERY, "metric": "cosine", "fast": True}, NotFound, "no vector index for the metric cosine"),
    ({"vector": QUERY, "k": 2**70}, InvalidOption, "must be at most 2,147,483,647"),
    ({"vector": QUERY, "column": 5}, InvalidOption, "column must be .*not 5"),
    ({"vector": QUERY, "column": ["v"]}, InvalidOption, "takes one column"),
    ({"vector": ["1"] * 16}, SchemaMismatch, "not a list of numbers"),
    ({"vector": QUERY, "limit": 5}, InvalidOption, "The number of rows is k=10"),
    ({"vector": QUERY, "tag": "exp"}, InvalidOption, r"t\.checkout\(branch='exp'\)"),
    ({"text": "x", "column": "id"}, SchemaMismatch, "Text is in text, tags|Text is in tags, text"),
    ({"vector": QUERY, "column": "text"}, SchemaMismatch, "Vectors are in v"),
    ({"vector": QUERY, "metric": "haming"}, InvalidOption, "Did you mean 'hamming'"),
    ({"vector": QUERY, "metric": "hamming"}, InvalidOption, "hamming compares bytes, but column 'v'"),
    ({"vector": "late storm"}, SchemaMismatch, "For words, use text="),
    ({"vector": QUERY, "ef": 5}, InvalidOption, "ef is 5"),
    ({"vector": QUERY, "nprobs": 5}, InvalidOption, "no option 'nprobs'"),
    ({"vector": QUERY, "fast": True, "use_index": False}, InvalidOption, "fast=True"),
    ({"vector": QUERY, "phrase": True}, InvalidOption, "require text="),
    ({"vector": QUERY, "text": "x", "rerank": "best"}, InvalidOption, "Unknown rerank method 'best'"),
    ({}, InvalidOption, "no vector and no text"),
    ({"text": " "}, InvalidOption, "no word"),
    ({"text": "x", "column": "id"}, SchemaMismatch, "does not hold text"),
    ({"text": "x", "column": "txt"}, NotFound, "no column 'txt'"),
    ({"text": "x", "column": "text", "operator": "xor"}, InvalidOption, "operator must be .*not 'xor'"),
    ({"text": "x", "column": "tags", "fast": True}, NotFound, "no text index"),
    ({"text": "x", "column": "text", "language": "Klingon"}, InvalidOption, "no option 'language'"),
    ({"text": 7, "column": "text"}, InvalidOption, "text= must be .*not int"),
    ({"text": "x", "column": "text", "fuzziness": None}, InvalidOption, "fuzziness must be .*not None"),
    ({"text": "x", "column": "text", "fuzziness": 3}, InvalidOption, "must be at most 2"),
    ({"text": BooleanQuery(must_not=[MatchQuery("x")]), "column": "text"}, InvalidOption, "BooleanQuery is empty"),
    ({"text": BooleanQuery(should=[BooleanQuery()]), "column": "text"}, InvalidOption, "BooleanQuery is empty"),
    ({"text": MatchQuery("x", boost=-1.0), "column": "text"}, InvalidOption, "factor must be .*not -1.0"),
    ({"text": "x", "column": {"text": float("nan")}}, InvalidOption, "factor must be .*not nan"),
    ({"text": "x", "column": {"text": "2"}}, InvalidOption, "factor must be .*not '2'"),
    ({"text": "x", "column": 5}, InvalidOption, "column must be .*not 5"),
    ({"vector": QUERY, "columns": 5}, InvalidOption, "columns must be .*not 5"),
    ({"vector": QUERY, "filter": 5}, InvalidOption, "filter must be text, not 5"),
    ({"vector": QUERY, "filtr": "id = 5"}, InvalidOption, "Did you mean 'filter'"),
    ({"text": MatchQuery("x"), "column": "text", "phrase": True}, InvalidOption, "given as text"),
]


@pytest.mark.parametrize(("asked", "error", "words"), REFUSED, ids=lambda value: str(value)[:60])
def test_impossible_requests_are_refused_before_any_task(branched, asked, error, words):
    with pytest.raises(error, match=words):
        prepared(branched, **asked)


@pytest.mark.parametrize("text", ["!!!", "the of", "nowhere"])
def test_words_that_there_are_not_are_found_nowhere(branched, text):
    for runner in (HERE, PARTS):
        assert search(branched, None, text, "text", "exp", runner=runner).num_rows == 0
        both = search(branched, QUERY, text, branch="exp", text_column="text", k=3, runner=runner)
        assert both["_score"].null_count == both.num_rows == 3


def test_euclidean_is_l2(branched):
    asked = {"nprobes": 4, "k": 5}
    assert search(branched, QUERY, metric="Euclidean", **asked).equals(search(branched, QUERY, metric="l2", **asked))


def test_a_phrase_needs_an_index_that_knows_where_words_are(uri):
    lance.write_dataset(some(0, 600), uri)
    LanceTable.for_path(uri).indexes.create("text", kind="inverted")
    with pytest.raises(InvalidOption, match="with_position=True"):
        prepared(uri, None, "the number7", "text", phrase=True)


def test_a_language_that_there_is_not_is_said_before_any_work(uri):
    lance.write_dataset(some(0, 10), uri)
    t = LanceTable.for_path(uri)
    with pytest.raises(InvalidOption, match="no language 'klingon'"):
        t.indexes.create("text", kind="inverted", language="klingon")
    t.indexes.create("text", kind="inverted", language="german")
    assert t.indexes.stats("text").settings["language"] == "German"


def test_of_two_indexes_of_a_column_the_one_of_the_metric_answers(uri):
    """pylance alone takes the first one, and with fast_search finds nothing if that is of another metric."""
    lance.write_dataset(some(0, 300), uri, max_rows_per_file=100)
    t = LanceTable.for_path(uri)
    t.indexes.create("v", kind="ivf_flat", num_partitions=2, name="first")
    append(uri, None, 300, 100)
    t.indexes.create("v", kind="ivf_flat", num_partitions=2, name="second", metric="cosine")
    append(uri, None, 400, 100)
    vectors = np.stack(some(0, 500)["v"].to_pylist())
    by_cosine = np.argsort(-(vectors @ QUERY) / np.linalg.norm(vectors, axis=1), kind="stable")
    by_l2 = np.argsort(((vectors - QUERY) ** 2).sum(axis=1), kind="stable")
    queries = pa.table({"q": pa.array([QUERY.tolist()], pa.list_(pa.float32()))})
    for metric, order, covered in (("cosine", by_cosine, 400), ("L2", by_l2, 300)):
        for fast, refine in ((True, None), (True, 2), (False, None), (False, 2)):
            asked = {"k": 15, "nprobes": 8, "metric": metric, "fast": fast, "refine_factor": refine}
            true = [int(each) for each in order if each < (covered if fast else 500)][:15]
            for runner in (HERE, PARTS):
                assert search(uri, QUERY, runner=runner, **asked)["id"].to_pylist() == true
            assert join(uri, queries, "q", **asked)["id"].to_pylist() == true


def test_an_index_whose_rows_are_all_gone_finds_nothing(uri):
    lance.write_dataset(some(0, 300), uri)
    LanceTable.for_path(uri).indexes.create("v", kind="ivf_flat", num_partitions=2)
    queries = pa.table({"q": pa.array([QUERY.tolist()], pa.list_(pa.float32()))})
    append(uri, None, 300, 5)
    lance.dataset(uri).delete("id < 300")
    for refine in (None, 3):
        assert search(uri, QUERY, fast=True, refine_factor=refine).num_rows == 0
        assert search(uri, QUERY, fast=True, refine_factor=refine, runner=PARTS).num_rows == 0
        assert join(uri, queries, "q", fast=True, refine_factor=refine).num_rows == 0
        assert join(uri, queries, "q", refine_factor=refine).num_rows == 5
    lance.dataset(uri).delete("true")
    for refine in (None, 3):
        assert search(uri, QUERY, refine_factor=refine, runner=PARTS).num_rows == 0
        assert join(uri, queries, "q", refine_factor=refine).num_rows == 0


def test_a_query_is_for_the_column_that_is_named(uri):
    """A column with an index is not searched instead of the one that was named."""
    lance.write_dataset(pa.table({"id": [1, 2], "title": ["late", "storm"], "text": ["storm", "late"]}), uri)
    LanceTable.for_path(uri).indexes.create("title", kind="inverted")
    for query in (MatchQuery("storm"), PhraseQuery("storm"), BooleanQuery(must=[MatchQuery("storm")])):
        assert search(uri, None, query, "text")["id"].to_pylist() == [1]
    assert search(uri, None, MatchQuery("storm"))["id"].to_pylist() == [2]
    with pytest.raises(InvalidOption, match="The query searches title, but column= is 'text'"):
        prepared(uri, None, MatchQuery("storm", "title"), "text")
    with pytest.raises(InvalidOption, match="Several columns"):
        prepared(uri, None, MatchQuery("storm"), {"text": 2.0})


def test_words_with_fuzziness_are_found_in_rows_that_no_index_covers(uri):
    """pylance 14.0.2 looks for words that are alike in the index, and in other rows for the word itself."""
    lance.write_dataset(some(0, 50), uri)
    t = LanceTable.for_path(uri)
    assert search(uri, None, "nmber7", "text", fuzziness=1, k=1)["id"].to_pylist() == [7]
    t.indexes.create("text", kind="inverted")
    append(uri, None, 50, 10)
    assert search(uri, None, "nmber7", "text", fuzziness=1, k=1, fast=True)["id"].to_pylist() == [7]
    assert search(uri, None, "nmber57", "text", fuzziness=1, k=1)["id"].to_pylist() == [57]
    assert search(uri, None, BooleanQuery(must=[MatchQuery("nmber57", fuzziness=1)]), "text", k=1)[
        "id"
    ].to_pylist() == [57]


def test_a_column_named_as_a_measure_is_searched_beside_if_its_type_allows(uri):
    rows = some(0, 20)
    for name, measure in (("_distance", [None] * 20), ("_score", ["x"] * 20)):
        lance.write_dataset(rows.append_column(name, pa.array(measure, pa.string())), uri, mode="overwrite")
        vector, text = (QUERY, None) if name == "_distance" else (None, "word7")
        with pytest.raises(SchemaMismatch, match=f"has a column '{name}', string"):
            prepared(uri, vector, text, "text" if text else None)
        lance.write_dataset(rows.append_column(name, pa.array([0.5] * 20, pa.float32())), uri, mode="overwrite")
        assert search(uri, vector, text, "text" if text else None, k=1)[name].to_pylist() != [0.5]
