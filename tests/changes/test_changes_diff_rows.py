"""Rows compared as multisets, with and without something that tells which of them are the same."""

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.format.row_values import HASHED, compare_hashed, hashed

pytestmark = pytest.mark.pure


def table(rows):
    """Rows of (key, value), at the addresses 0, 1, ..."""
    keys, values = zip(*rows, strict=True) if rows else ((), ())
    return pa.table(
        {
            "key": pa.array(keys, pa.int64()),
            "value": pa.array(values, pa.string()),
            "_rowaddr": pa.array(range(len(rows)), pa.uint64()),
        }
    )


def compared(before, after, identity=()):
    sides = [
        pa.Table.from_batches([hashed(batch, ["key", "value"], identity) for batch in table(side).to_batches()], HASHED)
        for side in (before, after)
    ]
    found = compare_hashed(*sides)
    return (
        [before[place] for place in found.deleted.to_pylist()],
        [after[place] for place in found.added.to_pylist()],
        [
            (before[old], after[new])
            for old, new in zip(found.changed_before.to_pylist(), found.changed_after.to_pylist(), strict=True)
        ],
    )


def test_order_does_not_matter_and_duplicates_do():
    assert compared([(1, "a"), (2, "b"), (1, "a")], [(2, "b"), (1, "a")]) == ([(1, "a")], [], [])
    assert compared([], [(1, None), (1, None)]) == ([], [(1, None)] * 2, [])
    assert compared([], []) == ([], [], [])


def test_a_key_tells_changed_rows():
    before, after = [(1, "a"), (2, "b"), (3, "c")], [(2, "x"), (3, "c"), (4, "d")]
    assert compared(before, after, ["key"]) == ([(1, "a")], [(4, "d")], [((2, "b"), (2, "x"))])
    assert compared(before, after) == ([(1, "a"), (2, "b")], [(2, "x"), (4, "d")], [])


def test_a_key_that_several_rows_have_tells_nothing():
    before, after = [(1, "a"), (1, "b")], [(1, "x"), (1, "b")]
    assert compared(before, after, ["key"]) == ([], [], [((1, "a"), (1, "x"))])
    assert compared([(1, "a"), (1, "b")], [(1, "x")], ["key"]) == ([(1, "a"), (1, "b")], [(1, "x")], [])


def test_equal_rows_of_another_identity_are_no_change():
    rows = [table([(number, "same")]) for number in (1, 2)]
    sides = [
        pa.Table.from_batches([hashed(batch, ["value"], ["key"]) for batch in side.to_batches()], HASHED)
        for side in rows
    ]
    found = compare_hashed(*sides)
    assert not any(map(len, (found.deleted, found.added, found.changed_before, found.changed_after)))


def test_a_blob_is_told_by_its_size():
    kind = pa.struct([("position", pa.uint64()), ("size", pa.uint64())])

    def content(position, size):
        rows = pa.record_batch([pa.array([{"position": position, "size": size}], kind), [0]], names=["b", "_rowaddr"])
        return hashed(rows, ["b"], blobs=["b"])["content"].to_pylist()

    assert content(0, 5) == content(64, 5) != content(0, 6)


ROWS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["a", "b", None])), max_size=12)


@given(ROWS, ROWS)
def test_without_a_key_rows_are_a_multiset(before, after):
    deleted, added, changed = compared(before, after)
    assert Counter(deleted) == Counter(before) - Counter(after)
    assert Counter(added) == Counter(after) - Counter(before)
    assert changed == []


@given(
    st.dictionaries(st.integers(0, 8), st.sampled_from("abc")),
    st.dictionaries(st.integers(0, 8), st.sampled_from("abc")),
)
def test_with_a_key_rows_are_a_mapping(before, after):
    deleted, added, changed = compared(list(before.items()), list(after.items()), ["key"])
    assert dict(deleted) == {key: before[key] for key in before.keys() - after.keys()}
    assert dict(added) == {key: after[key] for key in after.keys() - before.keys()}
    both = before.keys() & after.keys()
    assert {new[0]: (old[1], new[1]) for old, new in changed} == {
        key: (before[key], after[key]) for key in both if before[key] != after[key]
    }
