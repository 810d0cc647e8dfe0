"""From the answers of tasks to one answer."""

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.search.search_rules import APPROXIMATE, CANDIDATES, EXACT, FOUND, best, found, fused, nearest

pytestmark = pytest.mark.pure


def answers(*rows):
    """(source, row, value)"""
    return pa.Table.from_pylist(
        [{"source": source, "_rowid": row, "_rowaddr": 1000 + row, "value": value} for source, row, value in rows],
        CANDIDATES,
    )


def ids(table):
    return table["_rowid"].to_pylist()


def test_the_best_come_first_ties_by_row_id_and_no_row_twice():
    table = answers((1, 9, 2.0), (1, 3, 1.0), (1, 2, 1.0), (1, 3, 5.0), (1, 4, float("nan")))
    assert ids(best(table, 10)) == [2, 3, 9]
    assert ids(best(table, 2, largest=True)) == [3, 9]
    assert ids(best(CANDIDATES.empty_table(), 3)) == []


NEAREST = [
    # Distances of an index are compared with each other; those that stay are computed again, and meet the exact ones.
    (1, 10, [2]),
    (2, 10, [2, 7]),
    (3, 10, [2, 7, 1]),
    # Of what the index found only two stay: row 3, which is near in truth, is not among them.
    (5, 2, [2, 7, 1, 8]),
    (5, 3, [3, 2, 7, 1, 8]),
]


@pytest.mark.parametrize(("count", "kept", "expected"), NEAREST)
def test_candidates_of_an_index_are_compared_by_exact_distances(count, kept, expected):
    table = answers(
        *((APPROXIMATE, row, near) for row, near in ((1, 0.1), (2, 0.2), (3, 0.3))),
        *((EXACT, row, near) for row, near in ((7, 2.0), (8, 9.0))),
    )
    true = {1: 3.0, 2: 1.0, 3: 0.5 if count == 5 else 99.0}

    def rescore(rows):
        return np.array([true[row] for row in rows], np.float32)

    assert ids(nearest(table, count, kept, rescore)) == expected


def test_without_other_rows_distances_of_the_index_stay():
    table = answers((APPROXIMATE, 1, 0.5), (APPROXIMATE, 2, 0.25))
    assert nearest(table, 5, 5, None).to_pylist() == answers((0, 2, 0.25), (0, 1, 0.5)).to_pylist()


def test_texts_are_ranked_by_the_largest_score():
    assert ids(found(answers((FOUND, 1, 0.5), (FOUND, 2, 7.0), (EXACT, 3, 9.0)), 5)) == [2, 1]


def test_reciprocal_ranks():
    near = answers((EXACT, 5, 0.1), (EXACT, 6, 0.2), (EXACT, 7, 0.3))
    words = answers((FOUND, 7, 9.0), (FOUND, 8, 8.0), (FOUND, 5, 1.0))
    rows = fused(near, words, 10).to_pylist()
    assert [row["_rowid"] for row in rows] == [5, 7, 6, 8]  # 5 and 7 have the ranks 1 and 3: the nearer one comes first
    assert rows[0]["_relevance_score"] == rows[1]["_relevance_score"] == pytest.approx(1 / 61 + 1 / 63)
    assert rows[2] == {
        "_rowid": 6,
        "_rowaddr": 1006,
        "_distance": pytest.approx(0.2),
        "_score": None,
        "_relevance_score": pytest.approx(1 / 62),
    }
    assert rows[3]["_distance"] is None
    assert len(fused(near, words, 2)) == 2
    assert fused(CANDIDATES.empty_table(), CANDIDATES.empty_table(), 5).num_rows == 0
