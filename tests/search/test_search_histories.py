"""Whatever happened to a table, a search finds what pylance finds in one process, and rows as they really are."""

import os
import random

import numpy as np
import pyarrow as pa
import pytest
from support.search_histories import DIMENSION, WORDS, SearchedTable, distance, matches
from support.searches import HERE, PARTS, join, pairs, prepared, search

from lance_spark.errors import InvalidOption, NotFound, Refused
from lance_spark.search.search_tasks import LIVE, lance_query
from lance_spark.search.text_rules import BooleanQuery, BoostQuery, MatchQuery, PhraseQuery

SEEDS = int(os.environ.get("SEARCH_SEEDS", "60"))
FIRST = int(os.environ.get("SEARCH_FIRST_SEED", "0"))
STEPS = 7
BY_DAY = 3
ALL = 64
"""Partitions to look into: more than there are."""


pytestmark = pytest.mark.usefixtures("small_tasks")


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, marks=[pytest.mark.when(day=0)] * (seed >= FIRST + BY_DAY))
        for seed in range(FIRST, FIRST + SEEDS)
    ],
)
def test_whatever_happened_searches_find_what_pylance_finds(uri, seed):
    table = SearchedTable(uri, seed)
    rng = random.Random(seed + 1_000_003)
    for _ in range(STEPS):
        table.step()
        branch = rng.choice(table.branches)
        rows = table.contents(branch)
        try:
            for _ in range(2):
                near(table, branch, rows, rng)
            words(table, branch, rows, rng)
        except Exception as failed:
            failed.add_note(f"{branch or 'main'} of {table}")
            raise


def near(table, branch, rows, rng):
    """One search for a vector."""
    options = {
        "k": rng.choice((1, 3, 10, 500)),
        "filter": rng.choice((None, None, "k = 2", "id > 20", "k > 7")),
        "prefilter": rng.random() < 0.75,
        "metric": rng.choice((None, None, "l2", "cosine", "dot")),
        "nprobes": ALL,
        "refine_factor": rng.choice((None, None, 1, 3)),
        "use_index": rng.random() < 0.8,
    }
    if options["use_index"]:
        options["fast"] = rng.random() < 0.15
    query = [round(rng.gauss(0, 1), 2) for _ in range(DIMENSION)]
    if table.grid and rng.random() < 0.5:
        query = [float(rng.randint(-1, 1)) for _ in query]
        query[0] = query[0] or 1.0
    try:
        asked = prepared(table.uri, query, column="v", branch=branch, **options)
    except NotFound:
        assert options["fast"]
        return
    kind = None if asked.index is None else asked.index.segments[0].index_type.lower()
    what = f"near {query} {options} {kind} {asked.work.near.metric}"
    expected = by_pylance(table.head(branch), query, table.type, asked.work.near.metric, options)
    for runner in (HERE, PARTS):
        found = pairs(search(table.uri, query, None, "v", branch, runner=runner, **options))
        assert same(found, expected, kind, table), f"{what} {runner.name}\n{found}\n{expected}"
        real(found, rows, query, asked, options, kind, what, table)
    joined = join(table.uri, queries_of(query), "q", branch, found_in="v", **options)
    found = pairs(joined)
    assert same(found, expected, kind, table), f"{what} join\n{found}\n{expected}"
    real(found, rows, query, asked, options, kind, what, table)


def queries_of(query):
    return pa.table({"q": pa.array([query], pa.list_(pa.float64()))})


def by_pylance(dataset, query, type, metric, options):
    chosen = {name: options[name] for name in ("k", "refine_factor", "use_index") if options[name] is not None}
    number = np.float64 if pa.types.is_float64(type) else np.float32
    nearest = {"column": "v", "q": np.array(query, number), "metric": metric, "nprobes": ALL, **chosen}
    where = options["filter"]
    if where is None and dataset.has_stable_row_ids:
        where = LIVE  # Without it pylance alone counts rows that were deleted and compacted away, and gives fewer.
    told = dataset.scanner(
        columns=["id", "_distance"],
        nearest=nearest,
        filter=where,
        prefilter=options["prefilter"] or options["filter"] is None,
        fast_search=options.get("fast", False),
    ).to_table()
    return [(key, value) for key, value in pairs(told) if value is not None and np.isfinite(value)]


def same(found, expected, kind, table):
    """Of rows that an index takes for equally near pylance chooses now these, now those."""
    if kind is None or not (table.grid or kind.endswith("pq")):
        return found == expected
    if kind.replace("_", "") == "ivfflat":
        return [value for _, value in found] == pytest.approx([value for _, value in expected], rel=1e-6, abs=1e-6)
    return len(found) == len(expected)


def real(found, rows, query, asked, options, kind, what, table):
    """The rows are there, in order, have the distances that are told, and none that is nearer was left out."""
    metric, where = asked.work.near.metric, options["filter"]
    true = {key: distance(metric, vector, query) for key, (vector, _, k) in rows.items() if holds(where, key, k)}
    true = {key: value for key, value in true.items() if value is not None}
    ids = [key for key, _ in found]
    what = f"{what}\n{found}\n{sorted(true.items(), key=lambda each: each[1])[:20]}"
    assert len({*ids}) == len(ids) <= options["k"], what
    assert {*ids} <= {*true}, what
    told = [value for _, value in found]
    assert told == sorted(told), what
    exact = kind is None or kind.replace("_", "") == "ivfflat"
    close = {"rel": 2e-2, "abs": 2e-2} if pa.types.is_float16(table.type) else {"rel": 1e-3, "abs": 1e-4}
    if exact or options["refine_factor"]:
        assert told == pytest.approx([true[key] for key in ids], **close), what
    if exact and not options.get("fast") and asked.work.prefilter:
        assert told == pytest.approx(sorted(true.values())[: options["k"]], **close), what


def holds(where, key, k):
    return {None: True, "k = 2": k == 2, "id > 20": key > 20, "k > 7": k > 7}[where]


def words(table, branch, rows, rng):
    """One search for words."""
    some = " ".join(rng.sample(WORDS, rng.randint(1, 3)))
    operator, where = rng.choice(("or", "and")), rng.choice((None, "k = 2", "id > 20"))
    kind = rng.choice(("match", "match", "fuzzy", "phrase", "boolean", "boost"))
    text = {
        "match": MatchQuery(some, operator=operator),
        "fuzzy": MatchQuery(some[:-1] + "x", fuzziness=1, operator=operator),
        "phrase": PhraseQuery(some, slop=rng.choice((0, 2))),
        "boolean": BooleanQuery(must=[MatchQuery(some)], must_not=[MatchQuery("fog")], should=[MatchQuery("gate")]),
        "boost": BoostQuery(MatchQuery(some), MatchQuery("fog"), negative_boost=0.3),
    }[kind]
    options = {"filter": where, "prefilter": rng.random() < 0.75, "fast": rng.random() < 0.1}
    what = f"words {text} {options}"
    try:
        asked = prepared(table.uri, None, text, "text", branch, **options)
    except NotFound:
        assert options["fast"]
        return
    except InvalidOption:
        if kind not in ("phrase", "fuzzy"):
            raise
        return
    except Refused:
        table.done.append("(refused words)")
        return
    told = (
        table.head(branch)
        .scanner(
            columns=["id", "_score"],
            full_text_query=lance_query(asked.work.text),
            filter=where,
            prefilter=options["prefilter"] or where is None,
            fast_search=options["fast"],
            limit=10_000,
        )
        .to_table()
    )
    expected = pairs(told, "_score")
    for runner in (HERE, PARTS):
        found = pairs(search(table.uri, None, text, "text", branch, runner=runner, k=10_000, **options), "_score")
        # Beside an index, pylance alone scores the other rows by other counts.
        assert asked.work.gaps or sorted(found) == sorted(expected), f"{what} {runner.name}\n{found}\n{expected}"
        few = pairs(search(table.uri, None, text, "text", branch, runner=runner, k=3, **options), "_score")
        if options["prefilter"] or where is None:
            assert [score for _, score in few] == [score for _, score in found[:3]], what
    there = {key: row for key, row in rows.items() if holds(where, key, row[2])}
    wanted, mode = (
        (text.query, text.operator) if kind in ("match", "fuzzy") else (some, "and" if kind == "phrase" else "or")
    )
    letters = 1 if kind == "fuzzy" else 0
    true = {key for key, row in there.items() if matches(row[1], wanted, mode, letters)}
    if kind == "boolean":
        true = {key for key in true if not matches(there[key][1], "fog")}
    ids = {key for key, _ in found}
    assert len(ids) == len(found), f"{what}\n{found}"
    assert ids <= true, f"{what}\n{[(each, rows.get(each)) for each in sorted(ids - true)]} too many"
    if kind != "phrase" and not options["fast"]:
        assert ids == true, f"{what}\n{[rows[each] for each in sorted(true - ids)]} missing"
