"""The table function of SQL, called as Spark calls it: what it accepts, what it says, what it gives."""

import lance
import numpy as np
import pytest
from pyspark.sql.types import StringType
from pyspark.sql.udtf import AnalyzeArgument
from support.indexed import DIMENSION, some
from support.searches import by_pylance, search

from lance_spark import LanceCatalog, LanceTable
from lance_spark.errors import InvalidOption, NotFound, SchemaMismatch
from lance_spark.spark.search_function import Tables, search_function

QUERY = np.random.default_rng(1_000_003).standard_normal(DIMENSION).astype("f4")


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    uri = str(tmp_path_factory.mktemp("function") / "t.lance")
    lance.write_dataset(some(0, 100), uri)
    LanceTable.for_path(uri).branches.create("exp")
    lance.write_dataset(some(100, 20), lance.dataset(uri).checkout_version(("exp", None)), mode="append")
    return uri


@pytest.fixture(scope="module")
def function(uri):
    lake = LanceCatalog(uri.removesuffix("/t.lance"))
    return search_function(Tables({"lake": lake.catalog}, {}))


def constant(value):
    return AnalyzeArgument(StringType(), value, False, True)


def of_rows():
    return AnalyzeArgument(StringType(), None, False, False)


def rows(function, table, **given):
    """The rows of a call with constants only."""
    analyzed = function.analyze(constant(table), **{name: constant(value) for name, value in given.items()})
    return analyzed.schema.names, list(function(analyzed).eval(table, **given))


@pytest.mark.parametrize("name", ["{t}", "{t}@exp", "lake.t", "lake.t@exp"])
def test_a_path_or_a_table_of_a_catalog_at_a_ref_is_searched(uri, function, name):
    head = lance.dataset(uri).checkout_version(("exp", None)) if "@" in name else lance.dataset(uri)
    columns, found = rows(function, name.format(t=uri), vector=QUERY.tolist(), k=90, columns="id")
    assert columns == ["id", "_distance"]
    assert found == by_pylance(head, QUERY, k=90)


@pytest.mark.parametrize("where", [None, "k = 2"])
def test_vector_text_and_both_with_a_filter_as_a_table_finds_them(uri, function, where):
    asks = (
        ({"vector": QUERY.tolist(), "column": "v", "metric": "cosine"}, ["_distance"]),
        ({"text": "number57 word7", "column": "text"}, ["_score"]),
        (
            {"vector": QUERY.tolist(), "text": "word7", "column": "v", "text_column": "text", "rerank": "rrf"},
            ["_distance", "_score", "_relevance_score"],
        ),
    )
    for given, measures in asks:
        columns, found = rows(function, f"{uri}@exp", columns="id", k=5, filter=where, **given)
        assert columns == ["id", *measures]
        assert found == [
            tuple(row.values()) for row in search(uri, branch="exp", k=5, filter=where, **given).to_pylist()
        ]
        assert found


def test_what_is_null_counts_as_left_out_and_lists_and_maps_are_taken(uri, function):
    nothing = {"vector": None, "filter": None, "columns": None, "nprobes": None, "metric": None}
    columns, found = rows(function, uri, text="number7", column=["text"], k=1, **nothing)
    assert columns == ["id", "k", "tags", "text", "v", "_score"]
    assert found[0][:2] == (7, 0)
    columns, twice = rows(function, uri, text="number7", column={"text": 2.0}, k=1, columns=["id", "tags"])
    assert columns == ["id", "tags", "_score"]
    assert twice[0] == (7, ["t2", "odd"], 2 * found[0][-1])


@pytest.mark.parametrize(
    ("table", "given", "error", "words"),
    [
        ("{t}", {}, InvalidOption, "no vector and no text"),
        ("{t}", {"vector": None}, InvalidOption, "no vector and no text"),
        ("{t}", {"vector": [1.0]}, SchemaMismatch, "has 1 numbers"),
        ("{t}", {"vector": ["a"] * DIMENSION}, SchemaMismatch, "not a list of numbers"),
        ("{t}", {"vector": [None] * DIMENSION}, SchemaMismatch, "not finite"),
        ("{t}", {"vector": "abc"}, SchemaMismatch, "not a list of numbers"),
        ("{t}", {"vector": [0.0] * DIMENSION, "k": None}, InvalidOption, "k must be .*not None"),
        ("{t}", {"vector": [0.0] * DIMENSION, "k": 2.5}, InvalidOption, "k must be .*not 2.5"),
        ("{t}", {"vector": [0.0] * DIMENSION, "fast": True}, NotFound, "no vector index"),
        ("{t}", {"vector": [0.0] * DIMENSION, "use_index": "no"}, InvalidOption, "use_index must be .*not 'no'"),
        ("{t}", {"text": "x"}, InvalidOption, "2 columns hold text"),
        ("{t}", {"text": "x", "column": "text", "filtr": "id = 1"}, InvalidOption, "Did you mean 'filter'"),
        ("{t}", {"text": "x", "column": "text", "filter": "nope = 1"}, InvalidOption, "nope"),
        ("{t}@nope", {"text": "x"}, NotFound, "no branch or tag 'nope'"),
        ("{t}s", {"text": "x"}, NotFound, "no Lance dataset"),
        ("lake.nope", {"text": "x"}, NotFound, "nope"),
        ("nocat.t", {"text": "x"}, NotFound, "There are lake: register_search"),
        (5, {"text": "x"}, InvalidOption, "as a constant text"),
        (None, {"text": "x"}, InvalidOption, "as a constant text"),
        (" ", {"text": "x"}, InvalidOption, "as a constant text"),
    ],
    ids=str,
)
def test_impossible_requests_are_refused_when_the_statement_is_analyzed(uri, function, table, given, error, words):
    name = table.format(t=uri) if isinstance(table, str) else table
    with pytest.raises(error, match=words):
        rows(function, name, **given)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("t.lance@nope", "no branch or tag 'nope'"),
        ("s.lance", "no Lance dataset at .*s.lance"),
        ("lak.t", "no catalog 'lak' here"),
    ],
)
def test_a_path_without_directories_tells_what_is_missing(uri, function, name, words, monkeypatch):
    monkeypatch.chdir(uri.removesuffix("/t.lance"))
    with pytest.raises(NotFound, match=words):
        rows(function, name, text="x", column="text")
    assert len(rows(function, "t.lance@exp", text="number7", column="text", columns="id")[1]) == 1


def test_each_row_of_a_lateral_join_may_bring_its_vector(uri, function):
    analyzed = function.analyze(constant(uri), vector=of_rows(), k=constant(3), columns=constant("id"))
    called = function(analyzed)
    assert list(called.eval(uri, vector=QUERY.tolist(), k=3)) == by_pylance(lance.dataset(uri), QUERY, k=3)
    assert list(called.eval(uri, vector=None, k=3)) == []
    with pytest.raises(SchemaMismatch, match="has 1 numbers"):
        list(called.eval(uri, vector=[1.0], k=3))
    with pytest.raises(InvalidOption, match="'text' of a search must be a constant"):
        function.analyze(constant(uri), text=of_rows())
    with pytest.raises(InvalidOption, match="constant vector"):
        function.analyze(constant(uri), vector=of_rows(), text=constant("x"))
