"""Planning a read: every row once, in order, near the split size, and never more than the limit."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.scan.partition_rules import (
    BATCH_BYTES,
    BATCH_ROWS,
    LARGE_BATCH,
    FragmentSize,
    ScanPartition,
    ScanRequest,
    batch_rows,
    batch_rows_of,
    plan_scan,
    quoted_column,
)

pytestmark = pytest.mark.pure

MIB = 2**20


@st.composite
def fragments(draw):
    """Fragments with gaps in their ids, deleted rows, no rows at all, unknown sizes."""
    count = draw(st.integers(0, 12))
    sizes = st.sampled_from([0, 1, 2, 10, 65_536, 1_000_000]) | st.integers(0, 2_000_000)
    found = []
    for index in range(count):
        physical = draw(sizes)
        live = draw(st.sampled_from([physical, physical // 2, 0]) | st.integers(0, physical))
        found.append(FragmentSize(index * 3 + 1, physical, live, draw(st.just(0) | st.integers(0, 500 * MIB))))
    return found


requests = st.builds(
    ScanRequest,
    row_width=st.sampled_from([0.0, 0.125, 8.0, 24.0, 2048.0]),
    column_share=st.floats(0, 1),
    split_size=st.sampled_from([MIB, 16 * MIB, 128 * MIB, 2**60]),
    cores=st.sampled_from([0, 1, 2, 8, 64]),
    filtered=st.booleans(),
    splittable=st.booleans(),
)


def rows_of(partition, by_id):
    """(fragment, first, last) of what a partition reads, whole fragments told by live rows."""
    if partition.row_count is None:
        return [(key, 0, by_id[key].live_rows) for key in partition.fragment_ids]
    (key,) = partition.fragment_ids
    return [(key, partition.first_row, partition.first_row + partition.row_count)]


@given(fragments(), requests)
def test_the_partitions_cover_every_row_exactly_once_and_in_order(sizes, request):
    by_id = {size.fragment_id: size for size in sizes}
    parts = plan_scan(sizes, request)
    assert all(part.limit is None and part.fragment_ids for part in parts)
    order = [key for part in parts for key in part.fragment_ids]
    assert list(dict.fromkeys(order)) == list(by_id)
    for key, size in by_id.items():
        mine = [part for part in parts if key in part.fragment_ids]
        if mine[0].row_count is None:
            assert len(mine) == 1
            continue
        end = size.physical_rows if request.filtered else size.live_rows
        bounds = [(part.first_row, part.first_row + part.row_count) for part in mine]
        assert bounds[0][0] == 0
        assert bounds[-1][1] == end
        assert all(left[1] == right[0] and left[0] < left[1] for left, right in pairwise(bounds))
        assert request.splittable or not request.filtered


@given(fragments(), requests, st.integers(0, 5_000_000))
def test_a_limit_without_a_filter_is_met_exactly(sizes, request, limit):
    request = ScanRequest(request.row_width, request.column_share, request.split_size, request.cores, limit=limit)
    by_id = {size.fragment_id: size for size in sizes}
    read = []
    for part in plan_scan(sizes, request):
        left = part.limit
        for key, first, last in rows_of(part, by_id):
            last = last if left is None else min(last, first + left)
            left = None if left is None else left - (last - first)
            read.extend([(key, first, last)] if last > first else [])
    whole = [(key, 0, size.live_rows) for key, size in by_id.items()]
    assert flattened(read) == flattened(whole, limit)


def flattened(ranges, limit=None):
    """Ranges as one list of (fragment, first, last), neighbours joined, cut at the limit."""
    found = []
    for key, first, last in ranges:
        if limit is not None:
            last = min(last, first + limit)
            limit -= last - first
        if last <= first:
            continue
        if found and found[-1][0] == key and found[-1][2] == first:
            found[-1] = (key, found[-1][1], last)
        else:
            found.append((key, first, last))
    return found


@given(fragments(), requests, st.integers(0, 100))
def test_a_limit_under_a_filter_is_one_partition_that_reads_everything(sizes, request, limit):
    request = ScanRequest(request.row_width, filtered=True, splittable=request.splittable, limit=limit)
    assert plan_scan(sizes, request) == (ScanPartition(tuple(size.fragment_id for size in sizes), limit=limit),)


def sized(*rows, stored=0):
    return [FragmentSize(index, count, count, stored) for index, count in enumerate(rows)]


@pytest.mark.parametrize(
    ("limit", "fragments_read", "limits"),
    [
        (0, [], []),
        (1, [0], [1]),
        (10, [0], [None]),
        (11, [0, 1], [11]),
        (30, [0, 1, 2], [None]),
        (99, [0, 1, 2], [None]),
    ],
)
def test_a_limit_stops_at_the_fragment_that_fills_it(limit, fragments_read, limits):
    parts = plan_scan(sized(10, 10, 10), ScanRequest(8, limit=limit))
    assert [key for part in parts for key in part.fragment_ids] == fragments_read
    assert [part.limit for part in parts] == limits


def test_a_limit_within_a_split_fragment_drops_the_pieces_behind_it():
    whole = plan_scan(sized(10_000_000), ScanRequest(24, cores=4))
    assert [part.first_row for part in whole] == [0, 2_500_000, 5_000_000, 7_500_000]
    cut = plan_scan(sized(10_000_000), ScanRequest(24, cores=4, limit=2_500_001))
    assert sum(part.row_count if part.limit is None else part.limit for part in cut) == 2_500_001
    assert cut[-1].limit is not None
    assert cut[-1].first_row + cut[-1].limit == 2_500_001


@pytest.mark.parametrize("cores", [1, 2, 3, 8, 16, 32])
@pytest.mark.parametrize(("filtered", "stored"), [(False, 0), (True, 0), (False, 240_000_000), (False, 10_000_000)])
def test_one_fragment_of_ten_million_rows_keeps_every_core_busy(cores, filtered, stored):
    parts = plan_scan(sized(10_000_000, stored=stored), ScanRequest(24, cores=cores, filtered=filtered))
    assert cores <= len(parts) <= max(2 * cores, 3)
    assert max(part.row_count for part in parts if part.row_count) <= 10_000_000 / cores + 1 or cores == 1


@pytest.mark.parametrize(("cores", "stored"), [(2, 0), (64, 1_000)])
def test_a_hundred_thousand_tiny_fragments_make_few_partitions(cores, stored):
    parts = plan_scan([FragmentSize(index, 10, 10, stored) for index in range(100_000)], ScanRequest(24, cores=cores))
    assert 1 < len(parts) < 200


@pytest.mark.parametrize("filtered", [False, True])
def test_a_partition_is_near_the_split_size(filtered):
    request = ScanRequest(100, split_size=16 * MIB, filtered=filtered)
    rows = {size.fragment_id: size.live_rows for size in sized(*[30_000] * 40, 2_000_000, *[10] * 20)}
    parts = plan_scan(sized(*rows.values()), request)
    sizes = [100 * (part.row_count or sum(rows[key] for key in part.fragment_ids)) for part in parts]
    assert max(sizes) <= 1.5 * 16 * MIB
    assert len(parts) <= 2 * sum(sizes) / (16 * MIB)


def test_stored_bytes_count_by_the_share_of_the_columns_that_are_read():
    fragment = sized(1_000_000, stored=1024 * MIB)
    assert len(plan_scan(fragment, ScanRequest(1, column_share=1.0))) == 9
    assert len(plan_scan(fragment, ScanRequest(1, column_share=1 / 64))) == 1


def test_a_filtered_fragment_without_row_addresses_is_read_whole():
    parts = plan_scan(sized(10_000_000, 5), ScanRequest(24, cores=8, filtered=True, splittable=False))
    assert [(part.fragment_ids, part.row_count) for part in parts] == [((0,), None), ((1,), None)]


def test_pieces_under_a_filter_count_deleted_rows_and_others_do_not():
    fragment = [FragmentSize(7, physical_rows=10_000_000, live_rows=4_000_000, stored_bytes=240_000_000)]
    for filtered, rows in ((True, 10_000_000), (False, 4_000_000)):
        parts = plan_scan(fragment, ScanRequest(24, cores=4, filtered=filtered))
        assert len(parts) > 1
        assert sum(part.row_count for part in parts) == rows


def test_an_empty_dataset_has_no_partitions():
    assert plan_scan([], ScanRequest(8)) == plan_scan([], ScanRequest(8, limit=5)) == ()


def test_whole_rows_of_long_texts_are_read_in_smaller_batches():
    """A type does not tell how long texts are; 65,536 rows of 40 KiB are more than pylance can read at once."""
    sizes = ((10**5, 4 * 2**30), (10, 9), (1, 10**8))
    long, short, one = (FragmentSize(0, rows, rows, size) for rows, size in sizes)
    assert batch_rows_of(24, [short, long]) == LARGE_BATCH * 10**5 // (4 * 2**30)
    assert batch_rows_of(24, [short, one]) == batch_rows_of(24, []) == batch_rows(24)
    assert batch_rows_of(24, [FragmentSize(0, 1, 1, 2**33)]) == 1


@given(st.floats(0, 1e12))
def test_a_batch_stays_within_its_rows_and_bytes(width):
    rows = batch_rows(width)
    assert 1 <= rows <= BATCH_ROWS
    assert rows == 1 or rows * width <= BATCH_BYTES


@pytest.mark.parametrize(
    ("filter", "column"),
    [
        ("\"Name\" = 'D'", "Name"),
        ('id > 1 AND "NAME" IS NULL', "Name"),
        ('`Name` = "D"', None),
        ("v = 'a \"Name\" b'", None),
        ("v = 'it''s' OR \"name\" = 'D'", "Name"),
        ('`a"Name"` = 1', None),
    ],
)
def test_a_column_in_double_quotes_is_found(filter, column):
    """Lance takes it for a text, and the filter finds nothing."""
    assert quoted_column(filter, ["id", "Name", "v"]) == column
