"""Row addresses in the form pylance takes, and fragments chosen by an index."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from lance_spark.scan import partition_rules as rules

pytestmark = pytest.mark.pure


def decode(content):
    """{fragment: bitmap} from a RowAddrTreeMap: count, then id, length and portable Roaring bitmap of each."""
    (count,) = struct.unpack_from("<I", content)
    found, position = {}, 4
    for _ in range(count):
        fragment, length = struct.unpack_from("<II", content, position)
        found[fragment] = BitMap.deserialize(content[position + 8 : position + 8 + length])
        position += 8 + length
    assert position == len(content)
    return found


@given(st.integers(0, 2**32 - 1), st.integers(0, 10_000_000), st.integers(0, 10_000_000))
def test_a_range_of_rows_is_one_fragment_with_exactly_these_rows(fragment, first, count):
    content = rules.row_address_set(fragment, first, count)
    ((found, rows),) = decode(content).items()
    assert (found, len(rows)) == (fragment, count)
    assert not count or (rows.min(), rows.max()) == (first, first + count - 1)


@pytest.mark.parametrize(("first", "count"), [(0, 1), (65_535, 2), (2**32 - 1, 1), (2**32 - 70_000, 70_000)])
def test_the_ends_of_blocks_and_of_the_address_space_are_kept(first, count):
    assert decode(rules.row_address_set(0, first, count)) == {0: BitMap(range(first, first + count))}


def test_a_range_of_ten_million_rows_is_small():
    assert len(rules.row_address_set(0, 5, 10_000_000)) < 4096


def explained(query=None, full="f", refine="--", project=False):
    """A plan as pylance 14 prints it: what is left to check is in refine_filter."""
    read = "LanceRead: uri=tmp/t.lance/data, projection=[], num_fragments=4, range_before=None, range_after=Some(0..9)"
    lines = [f"{read}, row_id=false, row_addr=true, full_filter={full}, refine_filter={refine}"]
    lines = ["ProjectionExec: expr=[_rowaddr@3 as _rowaddr]", *lines] if project else lines
    lines += [f"ScalarIndexQuery: query={query}"] if query else []
    return "".join("  " * depth + line + "\n" for depth, line in enumerate(lines))


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("[id = 5]@id_idx(BTree)", {"id_idx"}),
        ("[k IS NULL]@k_idx(Bitmap)", {"k_idx"}),
        ("[array_has_any(tags, List([t1]))]@tags_idx(LabelList)", {"tags_idx"}),
        ("NOT([id = 5]@id_idx(BTree))", {"id_idx"}),
        ("OR([id = 1]@id_idx(BTree),[id = 2]@id_idx(BTree))", {"id_idx"}),
        ("AND([id > 5]@id_idx(BTree),[k = 3]@k idx(2)(Bitmap))", {"id_idx", "k idx(2)"}),
        ("AND([id = 5]@id_idx(BTree),NOT([k = 3]@k_idx(Bitmap)))", {"id_idx", "k_idx"}),
    ],
)
def test_indexes_that_alone_answer_a_filter_are_named(query, names):
    assert rules.answering_indexes(explained(query)) == names


@pytest.mark.parametrize(
    "plan",
    [
        "",
        "GlobalLimitExec: skip=0",
        explained(),
        explained(refine="x > 0.5", project=True),
        explained("[k = 3]@k_idx(Bitmap)", refine="x > 0.5", project=True),
        explained("[k = 3]@k_idx(Bitmap)", full='s = "refine_filter=--"', refine='s = "refine_filter=--"'),
        explained("[x > 0.5]@x_idx(ZoneMap)"),
        explained("[s = s1]@s_idx(BloomFilter)"),
        explained("[contains(txt, w99)]@txt_idx(NGram)"),
        explained("AND([id = 5]@id_idx(BTree),[x > 0.5]@x_idx(ZoneMap))"),
        explained("[id = 5]@id_idx(BTree)") * 2,
        explained("[id = 5]@id_idx(BTree)").replace("LanceRead", "NewRead"),
        explained("[id = 5]@id_idx(BTree)").replace("refine_filter", "rest"),
    ],
)
def test_a_filter_that_leaves_data_to_be_read_names_no_index(plan):
    assert rules.answering_indexes(plan) == frozenset()


FRAGMENTS = [rules.FragmentSize(index, 1_000_000, 900_000, 100_000_000) for index in range(4)]


def test_only_covered_fragments_without_a_match_are_left_out():
    found = rules.only_matching(FRAGMENTS, rules.IndexMatches(frozenset({0, 1, 2}), {1: 500, 2: 0}))
    assert [fragment.fragment_id for fragment in found] == [1, 3]
    assert found[1] == FRAGMENTS[3]
    assert (found[0].live_rows, found[0].stored_bytes) == (500, 50_000)


def test_matches_may_be_anywhere_in_a_split_fragment():
    visited = rules.only_matching(FRAGMENTS[:1], rules.IndexMatches(frozenset({0}), {0: 800_000}))
    parts = rules.plan_scan(visited, rules.ScanRequest(100, cores=8, filtered=True))
    assert len(parts) > 1
    assert sum(part.row_count for part in parts) == 1_000_000


def test_an_index_without_any_match_leaves_nothing_to_read():
    assert rules.only_matching(FRAGMENTS, rules.IndexMatches(frozenset(range(4)), {})) == []
    assert rules.only_matching([], rules.IndexMatches(frozenset({1}), {1: 5})) == []
    assert rules.only_matching([rules.FragmentSize(0, 0, 0, 0)], rules.IndexMatches(frozenset({0}), {})) == []
