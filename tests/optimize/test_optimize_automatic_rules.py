"""Which small fragments a write compacts, and what the property of a table says."""

import pytest

from lance_spark.core.isolation import ISOLATION
from lance_spark.core.table_properties import AUTO_COMPACT, OPTIMIZE_WRITE, auto_compact, obeyed, optimize_write
from lance_spark.errors import InvalidOption
from lance_spark.format.contents import DataFile, Fragment
from lance_spark.optimize.automatic_rules import affordable, alike, due, neighbors, rows_of

pytestmark = pytest.mark.pure

DELTA = "delta.autoOptimize.autoCompact"
KIB, MIB = 1 << 10, 1 << 20


def fragment(key, size=10 * KIB, rows=100):
    return Fragment(key, (DataFile(f"{key}.lance", (0,), size, None),), None, rows, b"", False)


def fragments(*sizes):
    return [fragment(key, size) for key, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("metadata", "many"),
    [
        ({}, None),
        ({AUTO_COMPACT: "true"}, 50),
        ({AUTO_COMPACT: " TRUE "}, 50),
        ({AUTO_COMPACT: "auto"}, 50),
        ({AUTO_COMPACT: "false"}, None),
        ({AUTO_COMPACT: "8"}, 8),
        ({DELTA: "true"}, 50),
        ({DELTA: "true", AUTO_COMPACT: "false"}, None),
        ({AUTO_COMPACT: "yes, please"}, None),
        ({AUTO_COMPACT: "1"}, None),
    ],
)
def test_a_table_says_how_many_small_fragments_it_may_have(metadata, many):
    assert auto_compact(metadata) == many


@pytest.mark.parametrize("key", OPTIMIZE_WRITE)
def test_a_table_says_whether_rows_are_divided_evenly(key):
    assert [optimize_write({key: value}) for value in ("true", " TRUE", "false", "maybe")] == [True, True, False, False]
    assert not optimize_write({AUTO_COMPACT: "true"})
    assert obeyed({key: "true"}) == {key: "true"}
    assert obeyed({}, (key,)) == {key: None}
    with pytest.raises(InvalidOption, match="must be true or false"):
        obeyed({key: "1"})


@pytest.mark.parametrize("value", ["1", "0", "-3", "many", "", "1.5", "²"])
def test_a_value_that_means_nothing_is_refused(value):
    with pytest.raises(InvalidOption, match="must be true, false, or a number"):
        obeyed({AUTO_COMPACT: value})


@pytest.mark.parametrize(
    ("put", "unset", "told"),
    [
        ({}, (), {}),
        ({"owner": "ada"}, ("color",), {}),
        ({AUTO_COMPACT: "true"}, (), {AUTO_COMPACT: "true"}),
        ({DELTA: "auto"}, (AUTO_COMPACT,), {AUTO_COMPACT: None, DELTA: "auto"}),
        ({ISOLATION: "Serializable"}, (), {ISOLATION: "serializable"}),
        ({}, (ISOLATION,), {ISOLATION: None}),
    ],
)
def test_only_properties_that_writers_obey_are_told_to_the_dataset(put, unset, told):
    assert obeyed(put, unset) == told


@pytest.mark.parametrize(
    ("sizes", "many", "wanted"),
    [
        ([10 * KIB] * 3, 4, []),
        ([10 * KIB] * 4, 4, [0, 1, 2, 3]),
        ([200 * MIB] + [10 * KIB] * 4, 4, [1, 2, 3, 4]),
        # one that is large stands between them: they are no neighbors
        ([10 * KIB] * 2 + [200 * MIB] + [10 * KIB] * 2, 4, []),
        # what came of earlier compactions waits for others of its size
        ([2 * MIB] * 3 + [10 * KIB] * 4, 4, [3, 4, 5, 6]),
        ([2 * MIB] * 3 + [10 * KIB] * 3, 4, []),
        ([2 * MIB] * 4 + [10 * KIB], 4, [0, 1, 2, 3, 4]),
        # alternating sizes would never be neighbors of their own size
        ([2 * MIB, 10 * KIB] * 4, 5, []),
        ([2 * MIB, 10 * KIB] * 5, 5, [*range(10)]),
        # a size that nobody recorded
        ([0] * 9, 4, []),
    ],
)
def test_fragments_of_one_size_are_compacted_once_there_are_many(sizes, many, wanted):
    assert [*due(neighbors(fragments(*sizes)), many)] == wanted


def test_what_a_compaction_may_not_touch_parts_its_neighbors():
    assert [[each.id for each in run] for run in neighbors([None, *fragments(1, 1), None, fragment(7)])] == [
        [0, 1],
        [7],
    ]


def test_fragments_of_many_narrow_rows_are_not_small():
    assert neighbors([fragment(0, rows=600_000)]) == []


def test_a_partition_counts_for_itself():
    runs = alike(fragments(*[10 * KIB] * 7), {0: "a", 1: "b", 2: "a", 3: "b", 4: "a", 5: None})
    assert [*due(runs, 3)] == [0, 2, 4]
    assert [*due(runs, 4)] == []


def test_one_compaction_rewrites_a_gibibyte_at_most():
    chosen = [*due(neighbors(fragments(*[60 * MIB] * 50)), 50)]
    assert chosen == [*range(17)]
    assert [*affordable(fragments(*[60 * MIB] * 2))] == [0, 1]


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        ([], 1_000_000),
        ([fragment(0, KIB, 1000)], 1_000_000),
        ([fragment(0, 2 * MIB, 1000), None], 64_000),
        ([fragment(0, 60 * MIB, 1)], 2),
    ],
)
def test_a_new_fragment_has_128_mib_or_a_million_rows(given, rows):
    assert rows_of(given) == rows


@pytest.mark.parametrize(("many", "small", "times"), [(2, 22, 11), (5, 25, 6), (50, 100, 3)])
def test_ten_thousand_batches_leave_few_small_fragments_and_rewrite_each_row_a_few_times(many, small, times):
    standing, written, rewritten, most = [], 0, 0, 0
    for key in range(10_000):
        standing.append(fragment(key, 100 * KIB))
        written += 100 * KIB
        chosen = {*due(neighbors(standing), many)}
        if chosen:
            size = sum(each.size for each in standing if each.id in chosen)
            rewritten += size
            standing = [each for each in standing if each.id not in chosen]
            standing.append(fragment(-key - 1, size, min(100, size)))
        most = max(most, len(standing))
    assert most <= small + written // (64 * MIB)
    assert rewritten < written * times
