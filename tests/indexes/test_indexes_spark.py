"""Segments that Spark's executors build answer as no index does, on main and on a branch."""

import lance
import pytest
from support.indexed import KINDS, filtered, questions, recall, searched, some

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import RefSpec
from lance_spark.engine.session_spark import engine_of
from lance_spark.indexes import index_rules, indexes
from lance_spark.indexes.index_rules import IndexRequest
from lance_spark.refs.refs import create_branch

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest")]


@pytest.mark.parametrize("kind", ["btree", "inverted", "ivf_pq"])
def test_executors_build_and_merge_segments(spark, uri, kind, monkeypatch):
    monkeypatch.setattr(index_rules, "ROWS_PER_TASK", 500)
    for first in (0, 600, 1200):
        lance.write_dataset(some(first, 600), uri, mode="append" if first else "create")
    location, (column, settings) = DatasetLocation.at(uri), KINDS[kind]
    engine = engine_of(spark, "spark")
    made = indexes.create_index(
        location, None, IndexRequest(column, kind, settings={**settings, "num_segments": 1}), engine
    )
    assert (made.rows, made.segments, made.ran_on, made.version.version) == (1800, 1, "spark", 4)
    create_branch(location, "exp", RefSpec())
    lance.write_dataset(some(1800, 600), location.branch_uri("exp"), mode="append")
    (more,) = indexes.optimize_indexes(location, "exp", column, engine)
    assert (more.rows, more.segments, more.ran_on) == (600, 1, "spark")
    for place, count in ((uri, 1800), (location.branch_uri("exp"), 2400)):
        if column == "v":
            assert recall(place, refine_factor=10) > 0.9
            continue
        for where in questions(column):
            with_index, without = filtered(place, where)
            assert with_index == without
        if kind == "inverted":
            assert searched(place, "word17") == {at for at in range(count) if at % 50 == 17}
