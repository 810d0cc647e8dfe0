"""Leaving out the first rows of a plan, against the rows themselves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.scan.partition_rules import FragmentSize, ScanPartition, ScanRequest, plan_scan, skip_rows

pytestmark = pytest.mark.pure


def rows_of(parts, live):
    """(fragment, row) of each row that the partitions read, in order."""
    for part in parts:
        if part.row_count is not None:
            found = [(part.fragment_ids[0], part.first_row + at) for at in range(part.row_count)]
        else:
            found = [(key, at) for key in part.fragment_ids for at in range(live[key])]
        yield from found if part.limit is None else found[: part.limit]


@given(
    st.lists(st.integers(0, 40), max_size=8),
    st.integers(0, 200),
    st.none() | st.integers(0, 200),
    st.integers(1, 6),
)
def test_the_rest_is_what_comes_after_the_first_rows(sizes, offset, limit, cores):
    live = dict(enumerate(sizes))
    fragments = [FragmentSize(key, rows, rows, 4 * 2**20 * rows) for key, rows in live.items()]
    parts = plan_scan(fragments, ScanRequest(row_width=8, cores=cores, split_size=32 * 2**20, limit=limit))
    everything = list(rows_of(parts, live))
    assert list(rows_of(skip_rows(parts, fragments, offset), live)) == everything[offset:]


def test_no_partition_without_rows_is_left():
    fragments = [FragmentSize(key, 10, 10, 100) for key in range(3)]
    assert skip_rows([ScanPartition((0, 1)), ScanPartition((2,))], fragments, 20) == (ScanPartition((2,)),)
    assert skip_rows([ScanPartition((0, 1, 2))], fragments, 30) == ()
