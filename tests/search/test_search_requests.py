"""What a search asks for, which tasks answer it, and what words mean."""

import pytest

from lance_spark.errors import InvalidOption
from lance_spark.format.metadata import Segment
from lance_spark.search import text_rules as rules
from lance_spark.search.search_rules import FLAT_BYTES, SEGMENT_BYTES, FlatTask, SegmentTask, parse_search, vector_tasks

pytestmark = pytest.mark.pure


def segment(name, fragments, size):
    return Segment("v_idx", "IVF_PQ", ["v"], name, frozenset(fragments), size, None, 1, False)


ROWS = {0: 10, 1: 20, 2: 0, 3: 30, 4: 30}
TASKS = [
    ("one task for small segments", [("a", {0}, 5), ("b", {1}, 5)], [], 4, [("a", "b")], []),
    ("large ones apart", [("a", {0}, SEGMENT_BYTES), ("b", {1}, SEGMENT_BYTES)], [], 4, [("a",), ("b",)], []),
    ("no more than cores", [(n, {0}, SEGMENT_BYTES) for n in "abc"], [], 2, [("a", "c"), ("b",)], []),
    ("without rows none", [("a", {2, 99}, 5), ("b", {1}, None)], [], 4, [("b",)], []),
    ("rows without index", [("a", {0, 1}, 5)], [3, 4], 4, [("a",)], [(3,), (4,)]),
    ("no index", [], [0, 1, 3, 4], 1, [], [(0, 1, 3, 4)]),
]


@pytest.mark.parametrize(("_why", "segments", "flat", "cores", "by_index", "groups"), TASKS, ids=lambda v: str(v)[:30])
def test_tasks(_why, segments, flat, cores, by_index, groups):
    width = FLAT_BYTES / 30
    plan = vector_tasks([segment(*each) for each in segments], flat, ROWS, width, cores)
    assert [task.segments for task in plan if isinstance(task, SegmentTask)] == by_index
    assert [task.fragments for task in plan if isinstance(task, FlatTask)] == groups


def asked(text, column=None, **options):
    return parse_search(None, text, column, (10, None, None), options).text.query


WORDING = [
    (("late storm",), {}, rules.MatchQuery("late storm")),
    (("late storm", "text"), {}, rules.MatchQuery("late storm", "text")),
    (("late", "text"), {"fuzziness": 2, "operator": "and"}, rules.MatchQuery("late", "text", 2, "and")),
    (("late storm", ["text"]), {"phrase": True, "slop": 2}, rules.PhraseQuery("late storm", "text", 2)),
    (("late", ["a", "b"]), {}, rules.MultiMatchQuery("late", ["a", "b"], [1.0, 1.0])),
    (("late", {"a": 3, "b": 1}), {"operator": "and"}, rules.MultiMatchQuery("late", ["a", "b"], [3.0, 1.0], "and")),
    (("late", {"a": 3}), {}, rules.MultiMatchQuery("late", ["a"], [3.0])),
]


@pytest.mark.parametrize(("words", "options", "query"), WORDING, ids=str)
def test_words_become_queries(words, options, query):
    assert asked(*words, **options) == query


REFUSED = [
    (("late storm", ["a", "b"]), {"phrase": True}),
    (("late storm", ["a", "b"]), {"fuzziness": 1}),
    (("late", []), {}),
    (("late",), {"fuzziness": -1}),
    (("late",), {"slop": "1", "phrase": True}),
    ((rules.MultiMatchQuery("late", ["a"], [1.0, 2.0]),), {}),
    ((rules.BooleanQuery(must=[rules.MatchQuery("")]),), {}),
    ((b"late",), {}),
]


@pytest.mark.parametrize(("words", "options"), REFUSED, ids=str)
def test_queries_that_cannot_be(words, options):
    with pytest.raises(InvalidOption):
        asked(*words, **options)


def test_columns_of_queries_inside_queries():
    query = rules.BooleanQuery(
        must=[rules.MatchQuery("a"), rules.BoostQuery(rules.PhraseQuery("b c", "title"), rules.MatchQuery("d"))],
        must_not=[rules.MultiMatchQuery("e", ["x", "title"])],
    )
    assert rules.columns_of(query) == [None, "title", "x"]
    assert rules.columns_of(rules.on_column(query, "text")) == ["text", "title", "x"]


def test_how_many_candidates_both_lists_have():
    def depth(k, **options):
        return parse_search([1.0], "x", None, (k, None, None), options).depth

    assert [depth(10), depth(70), depth(10, candidates=30), depth(50, candidates=30)] == [100, 140, 30, 50]
    assert parse_search([1.0], None, None, (10, None, None), {}).depth == 10


@pytest.mark.parametrize(
    ("vector", "text", "column", "options"),
    [
        ([1.0], None, ["a"], {}),
        ([1.0], None, None, {"text_column": "a"}),
        (None, "x", None, {"text_column": "a"}),
        ([1.0], None, None, {"prefilter": 1}),
        ([1.0], None, None, {"nprobes": 0}),
        ([1.0], None, None, {"refine_factor": True}),
    ],
)
def test_arguments_that_do_not_fit_together(vector, text, column, options):
    with pytest.raises(InvalidOption):
        parse_search(vector, text, column, (10, None, None), options)
