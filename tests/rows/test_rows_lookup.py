"""Whether a merge goes through an index: by numbers, and by what Spark's plan says of the source."""

import pyarrow as pa
import pytest

from lance_spark.rows.action_rules import Found, can_be_looked_up, estimated_bytes, uses_index

pytestmark = pytest.mark.pure

MILLION = 10**6


@pytest.mark.parametrize(
    ("found", "used"),
    [
        (Found(10 * MILLION, 0, 100_000 * 50, 50), True),
        (Found(10 * MILLION, 0, MILLION * 50, 50), False),  # each key of the source costs more than twenty read ones
        (Found(10 * MILLION, 2 * MILLION, 1000, 50), False),  # too many rows that the index does not know
        (Found(10 * MILLION, MILLION // 2, 1000, 50), True),
        (Found(MILLION - 1, 0, 0, 50), False),
        (Found(MILLION, 0, 0, 0), True),
        (Found(10 * MILLION, 0, 8 * 1024**6, 50), False),  # Spark knows nothing
    ],
)
def test_small_sources_of_large_tables_go_through_the_index(found, used):
    assert uses_index(found) is used


@pytest.mark.parametrize(
    ("kind", "can"),
    [
        (pa.int8(), True),
        (pa.int64(), True),
        (pa.string(), True),
        (pa.large_string(), True),
        (pa.uint32(), False),
        (pa.float64(), False),
        (pa.decimal128(10, 2), False),
        (pa.timestamp("us"), False),
        (pa.binary(), False),
    ],
)
def test_keys_that_both_compare_alike(kind, can):
    assert can_be_looked_up(kind) is can


@pytest.mark.parametrize(
    ("first", "size"),
    [
        ("LocalRelation [id#1L], Statistics(sizeInBytes=48.0 B)", 48),
        ("Project [id#1L], Statistics(sizeInBytes=1.5 MiB, rowCount=1.00E+5)", 1.5 * 2**20),
        ("RelationV2[id#0L] lance, Statistics(sizeInBytes=8.0 EiB)", 8 * 2**60),
        ("Filter (id#0L > 5), Statistics(sizeInBytes=1.23E+4 TiB)", 12_300 * 2**40),
        ("Project [id#1L]", None),
    ],
)
def test_what_spark_expects_of_a_source(first, size):
    text = f"== Optimized Logical Plan ==\n{first}\n+- Scan, Statistics(sizeInBytes=7.0 B)\n\n== Physical Plan ==\n"
    assert estimated_bytes(text) == size
    assert estimated_bytes(first) is None
