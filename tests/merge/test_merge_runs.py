"""Runs of labelled rows, against the plain way: a label, or none, for each row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.format import row_ids

pytestmark = pytest.mark.pure

ROWS = st.lists(st.sampled_from([None, 0, 7]), max_size=14).map(
    lambda marks: [None if mark is None else mark + 10 * at for at, mark in enumerate(marks)]
)
"""Labels that ascend, some of which follow one another once rows are taken out."""
NEXT = st.lists(st.booleans(), max_size=14).map(lambda marks: [at if mark else None for at, mark in enumerate(marks)])
PLAIN = st.one_of(ROWS, NEXT)


def packed(labels):
    found = [[at, at + 1, label] for at, label in enumerate(labels) if label is not None]
    return row_ids.joined(np.array(found, np.int64).reshape(-1, 3))


def plain(found, rows):
    labels = [None] * rows
    for start, end, label in found.tolist():
        assert start < end
        for at in range(start, end):
            assert labels[at] is None
            labels[at] = label + at - start
    return labels


@given(labels=PLAIN, data=st.data())
def test_deleted_rows_and_back(labels, data):
    gone = sorted(data.draw(st.sets(st.integers(0, max(0, len(labels) - 1)), max_size=len(labels))))
    deleted, kept = np.array(gone, np.int64), [at for at in range(len(labels)) if at not in gone]
    live = [labels[at] for at in kept]
    own = packed(labels)
    assert plain(row_ids.live(own, deleted), len(labels)) == [
        None if at in gone else label for at, label in enumerate(labels)
    ]
    ranked = row_ids.ranked(own, deleted)
    assert plain(ranked, len(live)) == live
    assert row_ids.count(ranked) == len([label for label in live if label is not None])
    back = plain(row_ids.unranked(ranked, deleted, len(labels)), len(labels))
    assert back == [None if at in gone else label for at, label in enumerate(labels)]


@given(labels=PLAIN, data=st.data())
def test_parts(labels, data):
    start = data.draw(st.integers(0, len(labels)))
    end = data.draw(st.integers(start, len(labels)))
    own = packed(labels)
    assert plain(row_ids.part(own, start, end), end - start) == labels[start:end]
    assert plain(row_ids.moved(own, 3), len(labels) + 3) == [None] * 3 + labels
    assert row_ids.rows_of(own).tolist() == [at for at, label in enumerate(labels) if label is not None]
    turned = row_ids.by_label(own)
    assert not row_ids.overlap(turned)
    assert row_ids.rows_of(row_ids.by_label(turned)).tolist() == row_ids.rows_of(own).tolist()


@given(one=NEXT, other=PLAIN)
def test_two_of_them(one, other):
    size = max(len(one), len(other))
    both = [[*labels, *[None] * (size - len(labels))] for labels in (one, other)]
    first, second = (packed(labels) for labels in both)
    pairs = list(zip(*both, strict=True))
    assert plain(row_ids.without(first, second), size) == [here if there is None else None for here, there in pairs]
    assert plain(row_ids.within(first, second), size) == [None if there is None else here for here, there in pairs]
    united = row_ids.united(first, second)
    if any(None not in pair and pair[0] != pair[1] for pair in pairs):
        assert united is None
    else:
        assert plain(united, size) == [there if here is None else here for here, there in pairs]


def test_rows_that_are_there_twice_overlap():
    assert row_ids.overlap(np.array([[0, 3, 0], [2, 4, 9]]))
    assert not row_ids.overlap(np.array([[0, 3, 0], [3, 4, 9]]))
    assert not row_ids.overlap(row_ids.NONE)


@given(st.sets(st.integers(0, 20)), st.integers(0, 5))
def test_rows_as_runs(rows, label):
    found = row_ids.of_rows(sorted(rows), label)
    assert plain(found, 21) == [at + label if at in rows else None for at in range(21)]
    assert row_ids.rows_of(found).tolist() == sorted(rows)
    assert len(found) == len({at for at in rows if at - 1 not in rows})
