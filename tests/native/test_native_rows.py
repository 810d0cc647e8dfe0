"""Rows that the driver hands to Spark: every type, as bytes of Spark's own or through Arrow, as tasks return them."""

import lance
import pyarrow as pa
import pytest
from support.frames import load
from support.type_table import READABLE

from lance_spark import register
from lance_spark.native import scan
from lance_spark.native.rows import has_unsafe_rows

pytestmark = [pytest.mark.spark, pytest.mark.on_connect, pytest.mark.when(oldest=0.3)]

TIMES = {"bytes": 1, "Arrow": 150}
"""How often three rows are in a table: few go as bytes of Spark's own, more through Arrow."""


@pytest.fixture(scope="module", params=TIMES)
def times(request):
    return TIMES[request.param]


@pytest.fixture(scope="module")
def typed(spark, times, tmp_path_factory):
    """One column for each row of the type table."""
    register(spark, catalog="lance")
    uri = str(tmp_path_factory.mktemp("rows") / "typed.lance")
    lance.write_dataset(pa.concat_tables([pa.table({row.name: row.stored for row in READABLE})] * times), uri)
    return load(spark, uri)


def test_every_type_in_a_row_of_its_own(typed, times):
    """Nested types only go through Arrow, and are read with the others."""
    found = {row.name: [each[0] for each in typed.select(f"`{row.name}`").collect()] for row in READABLE}
    assert found == {row.name: [*row.shown] * times for row in READABLE}


def test_most_types_need_no_arrow(typed, times):
    simple = [row.name for row in READABLE if has_unsafe_rows(typed.select(f"`{row.name}`").schema)]
    assert len(simple) > len(READABLE) / 2
    rows = [*zip(*(row.shown for row in READABLE if row.name in simple), strict=True)]
    assert [tuple(row) for row in typed.select([f"`{name}`" for name in simple]).collect()] == rows * times


@pytest.fixture
def wide():
    """More columns than one word has bits, strings of every length beside each other, values at the ends of types."""
    columns = {}
    for at in range(70):
        columns[f"n{at}"] = pa.array([None if at % 3 else at, -(2**63) + at, 2**63 - 1 - at], pa.int64())
        columns[f"s{at}"] = pa.array(["é" * at, None, "x" * at if at % 2 else None])
    columns["f"] = pa.array([float("nan"), -0.0, float("-inf")], pa.float32())
    columns["b"] = pa.array([True, None, False])
    return pa.table(columns)


def test_wide_rows_with_nulls_everywhere(spark, uri, times, wide):
    register(spark, catalog="lance")
    lance.write_dataset(pa.concat_tables([wide] * times), uri)
    found = [repr(row.asDict()) for row in load(spark, uri).collect()]
    assert found == [repr(row) for row in wide.to_pylist()] * times


@pytest.mark.on_connect(False)  # whose clients do not see the process that decides
def test_tasks_return_the_same_rows(spark, uri, times, wide, monkeypatch):
    register(spark)
    lance.write_dataset(pa.concat_tables([wide] * times), uri)
    found = [repr(row) for row in load(spark, uri).collect()]
    monkeypatch.setattr(scan, "LOCAL_ROWS", 0)
    assert found == [repr(row) for row in load(spark, uri).collect()]


def test_rows_are_filtered_and_joined_as_any_others(spark, uri):
    register(spark, catalog="lance")
    lance.write_dataset(pa.table({"id": [1, 2, 3, None], "text": ["a", "b", None, "d"]}), uri)
    frame = load(spark, uri)
    joined = frame.join(spark.range(2, 5), "id").select("id", "text").orderBy("id").collect()
    assert [tuple(row) for row in joined] == [(2, "b"), (3, None)]
    assert frame.groupBy("text").count().count() == 4
    assert frame.distinct().where("text IS NULL").collect()[0].id == 3
