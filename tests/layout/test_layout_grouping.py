"""Which functions of columns have one value in each fragment, and how a read is divided by them."""

from decimal import Decimal

import pyarrow as pa
import pytest

from lance_spark.errors import InvalidOption
from lance_spark.layout import grouping_rules as rules
from lance_spark.layout.fact_rules import Bounds, bounds_of, only_key
from lance_spark.layout.layout_rules import BUCKET, IDENTITY, TRUNCATE, Transform, parse
from lance_spark.scan.partition_rules import FragmentSize, ScanPartition, ScanRequest, plan_by_key, weights_by_key

pytestmark = pytest.mark.pure
STORED = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.int32()),
        ("c", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
        ("f", pa.float64()),
        ("d", pa.decimal128(10, 2)),
    ]
)
DAY = 86_400_000_000


def facts(buckets=(4,), **columns):
    """Facts of the columns of one fragment, each given by its values."""
    return {
        name: bounds_of(pa.array(values, STORED.field(name).type), buckets if name in ("id", "f") else ())
        for name, values in columns.items()
    }


ONE_KEY = [
    ("day", [facts(day=[1, 1]), facts(day=[2])], [(1,), (2,)]),
    ("day", [facts(day=[1]), facts(day=[1])], [(1,), (1,)]),
    ("day", [facts(day=[None, None]), facts(day=[2])], [(None,), (2,)]),
    ("day", [facts(day=[1, None])], None),  # a null is another group
    ("day", [facts(day=[1, 2])], None),
    ("day", [facts(day=[1]), {}], None),  # a fragment without facts may hold anything
    ("day", [facts(day=[1]), facts(c=["a"])], None),
    ("c", [facts(c=["a"]), facts(c=["A"])], [("a",), ("A",)]),
    ("d", [facts(d=[Decimal("1.50")])], [(Decimal("1.50"),)]),
    ("bucket(4, id)", [facts(id=[0]), facts(id=[None])], [(0,), (0,)]),  # nulls are in bucket 0
    ("bucket(8, id)", [facts(id=[0])], None),  # the only bucket of 4 tells nothing of 8
    ("bucket(4, f)", [facts(f=[-0.0]), facts(f=[0.0])], [(0,), (0,)]),
    ("days(ts)", [facts(ts=[0, DAY - 1]), facts(ts=[-1])], [(0,), (-1,)]),
    ("days(ts)", [facts(ts=[DAY - 1, DAY])], None),
    ("hours(ts)", [facts(ts=[-1]), facts(ts=[0])], [(-1,), (0,)]),
    ("truncate(10, day)", [facts(day=[10, 19]), facts(day=[-1])], [(10,), (-10,)]),
    ("truncate(1, c)", [facts(c=["ab", "az"])], [("a",)]),
    ("truncate(2, c)", [facts(c=["ab", "az"])], None),
    ("day, bucket(4, id)", [facts(day=[1], id=[0])], [(1, 0)]),
    ("day, c", [facts(day=[1, 2], c=["a"])], [("a",)]),  # what has one value counts by itself
]


@pytest.mark.parametrize(("by", "known", "keys"), ONE_KEY)
def test_functions_with_one_value_in_each_fragment(by, known, keys):
    fragments = [10 * at for at in range(len(known))]
    found = rules.grouping_of(parse(by, None).partition, STORED, dict(zip(fragments, known, strict=True)), fragments)
    assert (None if found is None else [found.keys[each] for each in fragments]) == keys
    if found is not None:
        assert len(found.kinds) == len(found.transforms) == len(keys[0])


def test_a_float_with_nan_has_no_facts_and_no_key():
    assert bounds_of(pa.array([float("nan")]), (4,)) is None
    assert rules.grouping_of(parse("bucket(4, f)", None).partition, STORED, {0: {}}, [0]) is None
    assert rules.grouping_of(parse("day", None).partition, STORED, {}, []) is None


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize(
    ("ends", "keys"),
    [
        ((2**62,) * 2, [(53_375_995,), (146_138,)]),  # beyond the dates of Python, and beyond years of 16 bits
        ((-62_135_596_800_000_001,) * 2, [(-719_163,), (-1970,)]),
        ((0, 253_402_300_800_000_000), [None, None]),
        ((0, 65_536 * 31_556_952_000_000), [None, None]),
    ],
)
def test_days_and_moments_beyond_the_dates_of_python_have_facts_and_keys(ends, keys, zone):
    moments = pa.array(ends, pa.int64()).cast(pa.timestamp("us", zone))
    days = pa.array([each // DAY for each in ends], pa.int32()).cast(pa.date32())
    for column, known in ((moments, ends), (days, tuple(each // DAY for each in ends))):
        found = bounds_of(column, (2,))
        assert found[:3] == (*known, False)
        transforms = parse("days(a), years(a)", None).partition
        assert [only_key([each], {"a": found}, {"a": column.type}) for each in transforms] == keys


def test_only_fragments_of_the_read_count():
    known = {0: facts(day=[1]), 1: facts(day=[1, 2]), 2: {}}
    found = rules.grouping_of(parse("day", None).partition, STORED, known, [0])
    assert found is not None
    assert found.keys == {0: (1,)}


TYPES = [
    (Transform(IDENTITY, "a"), pa.int8(), pa.int8()),
    (Transform(IDENTITY, "a"), pa.large_string(), pa.string()),
    (Transform(IDENTITY, "a"), pa.timestamp("us"), pa.timestamp("us")),
    (Transform(IDENTITY, "a"), pa.timestamp("ns"), None),  # two instants in a file may be one for Spark
    (Transform("days", "a"), pa.timestamp("ms", "UTC"), None),
    (Transform(BUCKET, "a", 4), pa.timestamp("ns"), None),
    (Transform(IDENTITY, "a"), pa.decimal128(18, 2), pa.decimal128(18, 2)),
    (Transform(IDENTITY, "a"), pa.decimal128(19, 2), None),
    (Transform(BUCKET, "a", 4), pa.string(), pa.int32()),
    (Transform("hours", "a"), pa.timestamp("us"), pa.int32()),
    (Transform(TRUNCATE, "a", 3), pa.int8(), pa.int64()),
    (Transform(TRUNCATE, "a", 3), pa.large_string(), pa.string()),
]


@pytest.mark.parametrize(("transform", "kind", "expected"), TYPES)
def test_types_of_keys(transform, kind, expected):
    assert rules.key_type(transform, kind) == expected


def test_only_columns_of_the_result_that_spark_compares_by_their_bytes_are_keys():
    layout = parse("day, bucket(4, id), c", None)
    found = rules.candidates(layout, STORED, ["id", "c"], ["id", "day"])
    assert [str(each) for each in found] == ["bucket(4, id)"]
    partition = parse("day, bucket(4, id), truncate(3, c), days(ts)", None).partition
    assert [rules.function_name(each) for each in partition] == ["identity", "bucket", "truncate_3", "days"]


@pytest.mark.parametrize(
    ("given", "expected"), [(None, rules.AUTO), (" Never ", rules.NEVER), ("always", rules.ALWAYS), ("", rules.AUTO)]
)
def test_the_setting(given, expected):
    assert rules.parse_grouping(given) == expected


def test_another_setting_is_refused():
    with pytest.raises(InvalidOption, match=rules.GROUPING):
        rules.parse_grouping("sometimes")


MEGABYTE = 2**20
WORTH = [
    ({(0,): 10.0, (1,): 10.0}, 2, False, True),
    ({(0,): 900.0 * MEGABYTE, (1,): MEGABYTE}, 100, False, True),
    ({(0,): 2000.0 * MEGABYTE, (1,): MEGABYTE}, 100, False, False),  # one task would do the work of many
    ({(0,): 2000.0 * MEGABYTE, (1,): MEGABYTE}, 2, False, True),
    ({(0,): 900.0 * MEGABYTE, (1,): MEGABYTE}, 100, True, False),
    ({}, 2, False, True),
]


@pytest.mark.parametrize(("weights", "cores", "eager", "expected"), WORTH)
def test_a_key_must_not_be_too_large_for_one_task(weights, cores, eager, expected):
    assert rules.is_worthwhile(weights, 128 * MEGABYTE, cores, eager) is expected


def size(fragment, rows=1000, stored=8 * MEGABYTE):
    return FragmentSize(fragment, rows, rows, stored)


def test_partitions_have_one_key_and_all_rows_once():
    fragments = [size(at) for at in range(6)]
    keys = {0: ("a",), 1: ("b",), 2: ("a",), 4: ("b",), 5: (None,)}
    request = ScanRequest(row_width=8.0, cores=2)
    planned = plan_by_key(fragments, keys, request)
    assert planned == (
        (ScanPartition((0, 2)), ("a",)),
        (ScanPartition((1, 4)), ("b",)),
        (ScanPartition((5,)), (None,)),
    )
    weights = weights_by_key([each for each in fragments if each.fragment_id in keys], keys, request)
    assert weights[("a",)] == weights[("b",)] == 2 * weights[(None,)]


@pytest.mark.parametrize("filtered", [False, True])
def test_a_large_key_is_divided_and_a_filter_makes_no_partition_more(filtered):
    fragments = [size(0, 10_000, 64 * MEGABYTE), size(1), size(2, 10_000, 64 * MEGABYTE)]
    keys = {0: (0,), 1: (1,), 2: (0,)}
    request = ScanRequest(row_width=8.0, cores=8, filtered=filtered)
    planned = plan_by_key(fragments, keys, request)
    assert len([key for _, key in planned if key == (0,)]) > 2
    for fragment in (0, 2):
        ranges = [part for part, _ in planned if part.fragment_ids == (fragment,)]
        covered = [row for part in ranges for row in range(part.first_row, part.first_row + (part.row_count or 0))]
        assert sorted(covered) == list(range(10_000))
    again = plan_by_key(fragments, keys, request, {(0,): 1, (1,): 1})
    assert again == ((ScanPartition((0, 2)), (0,)), (ScanPartition((1,)), (1,)))


def test_bounds_of_deleted_rows_only_widen():
    wide = Bounds(1, 2, False).joined(Bounds(1, 1, False))
    assert rules.grouping_of(parse("day", None).partition, STORED, {0: {"day": wide}}, [0]) is None
