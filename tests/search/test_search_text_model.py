"""Text search has the rows, the order and the scores of BM25 over all rows, whatever an index covers.

Each search is held against a model in numpy: with no index, with one of some rows, of all rows, after compaction, and
on a branch; by pylance's default way to split words, and by others.
"""

import lance
import numpy as np
import pyarrow as pa
import pytest
from support.bm25 import Corpus
from support.searches import HERE, PARTS, pairs, search

from lance_spark import LanceTable
from lance_spark.search.text_rules import BooleanQuery, BoostQuery, MatchQuery, MultiMatchQuery, PhraseQuery

WORDS = ["Storm", "storms", "late", "Late", "fog", "gate", "the", "of", "naïve", "Ulm", "running", "runs", "evening"]
QUERIES = [
    MatchQuery("storm", "text"),
    MatchQuery("STORMS late", "text", operator="and"),
    MatchQuery("run the naive", "text", boost=2.0),
    MatchQuery("the of", "text"),
    MatchQuery("stirm gste", "text", fuzziness=1),
    PhraseQuery("storm late", "text"),
    PhraseQuery("late of the fog", "text"),
    BooleanQuery(
        must=[MatchQuery("storm", "text")], should=[MatchQuery("gate", "text")], must_not=[MatchQuery("ulm", "text")]
    ),
    BoostQuery(MatchQuery("late", "text"), MatchQuery("fog", "text"), negative_boost=0.3),
    MultiMatchQuery("storm fog", ["title", "text"], [2.0, 1.0]),
]
SETTINGS = [{}, {"stem": False, "remove_stop_words": False}, {"custom_stop_words": ["storm", "fog"]}]
STATES = ["none", "stale", "complete", "extended", "compacted", "deleted", "branch", "branch without"]


def texts(first, count):
    rng = np.random.default_rng(first)

    def some(most):
        return " ".join(rng.choice(WORDS, rng.integers(1, most)))

    rows = {"id": range(first, first + count), "title": [some(4) for _ in range(count)]}
    return pa.table({**rows, "text": [None if at % 17 == 5 else some(12) for at in range(count)]})


def made(uri, state, settings, stable):
    """A dataset in that state, its branch, and the rows that count: those that an index has, too, if they are gone."""
    rows = texts(0, 80)
    lance.write_dataset(rows, uri, enable_stable_row_ids=stable, max_rows_per_file=40)
    t = LanceTable.for_path(uri)
    branch = "exp" if "branch" in state else None
    if state == "branch without":
        t.branches.create("exp")
        index(t, settings)
        t = t.checkout(branch="exp")
    elif state != "none":
        index(t, settings)
    if state == "branch":
        t.branches.create("exp")
        t = t.checkout(branch="exp")
    if state != "complete":
        more = texts(100, 30).set_column(2, "text", pa.array(["storm of the gate"] * 20 + ["late fog"] * 10))
        head = lance.dataset(uri) if branch is None else lance.dataset(uri).checkout_version((branch, None))
        lance.write_dataset(more, head, mode="append")
        rows = pa.concat_tables([rows, more])
    if state == "extended":
        t.indexes.optimize()
    if state == "compacted":
        t.optimize()
    if state == "deleted":
        lance.dataset(uri).delete("id >= 120")  # none of these is in the index
        rows = rows.filter(pa.compute.less(rows["id"], 120))
    return rows, branch


def index(t, settings):
    for column in ("title", "text"):
        t.indexes.create(column, kind="inverted", with_position=True, **settings)


@pytest.mark.when(day={"state": ["stale"], "settings": [SETTINGS[2]], "stable": [True]})
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("stable", [False, True], ids=["", "stable"])
def test_every_text_search_is_as_in_the_model(uri, state, settings, stable):
    rows, branch = made(uri, state, settings, stable)
    known = {} if state in ("none", "branch without") else settings
    corpus = Corpus({row["id"]: {"title": row["title"], "text": row["text"]} for row in rows.to_pylist()}, **known)
    for query in QUERIES:
        expected = corpus.search(query)
        within = [each for each in expected if each[0] % 2]
        for asked, wanted in (
            ({"k": 1000, "runner": PARTS}, expected),
            ({"k": 3, "runner": HERE}, expected[:3]),
            ({"k": 1000, "filter": "id % 2 = 1"}, within),
        ):
            same(pairs(search(uri, None, query, branch=branch, **asked), "_score"), wanted, query)


def same(found, expected, query):
    """Scores in order; rows of the same score in any order, and where k cuts some off, any of them."""
    scores = [score for _, score in expected]
    assert [score for _, score in found] == pytest.approx(scores, rel=1e-5), query
    last = scores[-1] if scores else 0.0

    def above(rows):
        return {row for row, score in rows if score > last + 1e-5}

    assert above(found) == above(expected), query
