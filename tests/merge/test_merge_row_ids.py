"""Stable row ids: every way a manifest writes them, and those that may be taken over to another chain."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.errors import CorruptData
from lance_spark.format.manifest import message
from lance_spark.format.row_ids import kept_row_ids, matched_row_ids, read_row_ids, write_row_ids

pytestmark = pytest.mark.pure

CODES = {"narrow": "H", "wide": "I", "whole": "Q"}
SMALL = st.integers(0, 60_000)


def sequence(fill):
    """The bytes of a sequence, after ``fill`` was called with its segments."""
    found = message("RowIdSequence")
    fill(found.segments)
    return found.SerializeToString()


def put_array(encoded, width, ids):
    """Offsets from the smallest one, little-endian, with a certain number of bytes each."""
    part = getattr(encoded, width)
    part.base = min(ids) if width != "whole" else 0
    part.values = struct.pack(f"<{len(ids)}{CODES[width]}", *(row - part.base for row in ids))


@given(st.lists(st.integers(0, 2**40)))
def test_what_is_written_is_read(ids):
    assert read_row_ids(write_row_ids(ids)) == ids


@pytest.mark.parametrize("kind", ["array", "sorted_array"])
@pytest.mark.parametrize("width", CODES)
@given(ids=st.lists(SMALL, min_size=1), offset=st.sampled_from([0, 2**40]))
def test_ids_in_an_array(kind, width, ids, offset):
    ids = [row + offset for row in (sorted(ids) if kind == "sorted_array" else ids)]
    assert read_row_ids(sequence(lambda found: put_array(getattr(found.add(), kind), width, ids))) == ids


@pytest.mark.parametrize("width", CODES)
@given(start=SMALL, kept=st.lists(st.booleans(), min_size=1, max_size=40))
def test_ids_of_a_range_with_holes(width, start, kept):
    holes = [start + at for at, keep in enumerate(kept) if not keep]

    def fill(segments):
        found = segments.add().range_with_holes
        found.start, found.end = start, start + len(kept)
        if holes:
            put_array(found.holes, width, holes)

    assert read_row_ids(sequence(fill)) == [start + at for at, keep in enumerate(kept) if keep]


@given(start=SMALL, kept=st.lists(st.booleans(), min_size=1, max_size=40))
def test_ids_of_a_range_with_a_bitmap(start, kept):
    bits = sum(1 << at for at, keep in enumerate(kept) if keep)

    def fill(segments):
        found = segments.add().range_with_bitmap
        found.start, found.end = start, start + len(kept)
        found.bitmap = bits.to_bytes((len(kept) + 7) // 8, "little")

    assert read_row_ids(sequence(fill)) == [start + at for at, keep in enumerate(kept) if keep]


def test_segments_follow_each_other():
    def fill(segments):
        found = segments.add().range
        found.start, found.end = 5, 7
        put_array(segments.add().array, "wide", [100_000, 3])

    assert read_row_ids(sequence(fill)) == [5, 6, 100_000, 3]
    assert read_row_ids(b"") == []


def test_an_unknown_kind_of_segment_is_no_guess():
    with pytest.raises(CorruptData):
        read_row_ids(sequence(lambda segments: segments.add()))
    with pytest.raises(CorruptData):
        read_row_ids(b"\xff\xff")


def test_rows_from_before_the_base_keep_their_ids_and_new_ones_do_not():
    assert kept_row_ids([3, 7, 10, 11], {3: 3, 7: 7}.get) == [3, 7]
    assert kept_row_ids([3, 7], {3: 3, 7: 20}.get) == [3, 20]
    assert kept_row_ids([10, 11], {}.get) == []
    assert kept_row_ids([10, 3], {3: 3}.get) is None


@pytest.mark.parametrize(
    ("ids", "dead", "kept"),
    [
        ([3, 7, 8], {1, 2}, [3, 7, 8]),
        ([7, 3], {0}, [7, 3]),
        ([3, 20, 7, 21], {1, 2}, [3, 0, 7]),
        ([3, 20, 7], {2}, [3]),
        ([7, 20], {0}, []),
        ([7, 8], {0, 1}, []),
        ([7, 20, 3], {0}, None),
    ],
    ids=["at the end", "in front", "beside unknown ones", "behind a new row", "only dead", "all dead", "mixed"],
)
def test_deleted_rows_keep_the_ids_by_which_updated_ones_are_known(ids, dead, kept):
    assert kept_row_ids(ids, {3: 3, 7: 7, 8: 8}.get, dead) == kept


def test_rows_that_the_chains_number_differently_are_told_by_their_places():
    assert matched_row_ids(write_row_ids([1, 2, 9]), write_row_ids([1, 2, 30])) == {1: 1, 2: 2, 9: 30}
    assert matched_row_ids(write_row_ids([1, 2]), write_row_ids([1, 2])) == {1: 1, 2: 2}
