"""Sizes for Spark's choice of joins, and what the manifest alone answers."""

import pyarrow as pa
import pytest

from lance_spark.pushdown.aggregates import Aggregate, answer, plan_aggregates
from lance_spark.pushdown.filters import Column
from lance_spark.pushdown.order import Statistics, estimate
from lance_spark.scan.partition_rules import FragmentSize

pytestmark = pytest.mark.pure

WHOLE = pa.schema([("a", pa.int64()), ("b", pa.int32()), ("v", pa.list_(pa.float32(), 256))])
FRAGMENTS = [FragmentSize(0, 100, 100, 120_000), FragmentSize(3, 100, 50, 120_000), FragmentSize(4, 10, 0, 1_000)]


@pytest.mark.parametrize(
    ("names", "fragments", "expected"),
    [
        (["a"], FRAGMENTS, Statistics(150, 1_389)),  # 8 of 1,036 bytes of what is stored, more than 150 * 8
        (["a"], [FragmentSize(0, 100, 100, 0)], Statistics(100, 800)),  # an old writer, which recorded no size
        (["a", "b", "v"], FRAGMENTS, Statistics(150, 180_000)),
        ([], FRAGMENTS, Statistics(150, 1)),
        (["a"], [], Statistics(0, 1)),
        (["b"], [FragmentSize(0, 10, 10, 50)], Statistics(10, 40)),
    ],
)
def test_the_larger_of_two_guesses(names, fragments, expected):
    assert estimate(fragments, pa.schema([WHOLE.field(name) for name in names]), WHOLE) == expected


COUNT = Aggregate("COUNT_STAR")


@pytest.mark.parametrize(
    ("aggregates", "groups", "filter", "rows"),
    [
        ([COUNT], [], None, 150),
        ([COUNT], [], "true", 150),
        ([COUNT], [], "false", 0),
        ([COUNT], [], "`a` = 1", None),
        ([COUNT], [Column(("a",))], None, None),
        ([COUNT, Aggregate("MAX", Column(("a",)))], [], None, None),
        ([Aggregate("COUNT", Column(("a",)))], [], None, None),
        ([], [Column(("a",))], None, None),
    ],
)
def test_counting_rows_needs_no_data(aggregates, groups, filter, rows):
    found = answer(plan_aggregates(aggregates, groups, WHOLE), filter, FRAGMENTS)
    assert (found and found.to_pylist()) == (None if rows is None else [{"count(*)": rows}])
