"""Rows that the driver hands to Spark: every type, as bytes of Spark's own or through Arrow, as tasks return them."""

import lance
import pyarrow as pa
import pytest
from support.frames import load
from support.type_table import READABLE

from lance_spark import register
from lance_spark.native import rows, scan
from lance_spark.native.rows import has_unsafe_rows

pytestmark = [pytest.mark.spark, pytest.mark.when(oldest=0.3)]


@pytest.fixture(scope="module")
def typed(spark, tmp_path_factory):
    """One column for each row of the type table, three rows."""
    register(spark)
    uri = str(tmp_path_factory.mktemp("rows") / "typed.lance")
    lance.write_dataset(pa.table({row.name: row.stored for row in READABLE}), uri)
    return load(spark, uri)


@pytest.fixture(params=["bytes", "Arrow"])
def way(request, monkeypatch):
    if request.param == "Arrow":
        monkeypatch.setattr(rows, "_FEW", -1)
        monkeypatch.setattr(rows, "_FEW_AT_ONCE", -1)
    return request.param


def test_every_type_in_a_row_of_its_own(typed, way):
    """Nested types only go through Arrow, and are read with the others."""
    found = {row.name: [each[0] for each in typed.select(f"`{row.name}`").collect()] for row in READABLE}
    assert found == {row.name: row.shown for row in READABLE}


def test_most_types_need_no_arrow(typed):
    simple = [row.name for row in READABLE if has_unsafe_rows(typed.select(f"`{row.name}`").schema)]
    assert len(simple) > len(READABLE) / 2
    assert [tuple(row) for row in typed.select([f"`{name}`" for name in simple]).collect()] == list(
        zip(*(row.shown for row in READABLE if row.name in simple), strict=True)
    )


def test_wide_rows_with_nulls_everywhere(spark, uri, way, monkeypatch):
    """More columns than one word has bits, strings of every length beside each other, values at the ends of types."""
    register(spark)
    columns = {}
    for at in range(70):
        columns[f"n{at}"] = pa.array([None if at % 3 else at, -(2**63) + at, 2**63 - 1 - at], pa.int64())
        columns[f"s{at}"] = pa.array(["é" * at, None, "x" * at if at % 2 else None])
    columns["f"] = pa.array([float("nan"), -0.0, float("-inf")], pa.float32())
    columns["b"] = pa.array([True, None, False])
    lance.write_dataset(pa.table(columns), uri)
    frame = load(spark, uri)
    found = [repr(row) for row in frame.collect()]
    monkeypatch.setattr(scan, "LOCAL_ROWS", 0)
    assert found == [repr(row) for row in load(spark, uri).collect()]
    assert [row.n69 for row in frame.collect()] == [69, -(2**63) + 69, 2**63 - 70]
    assert [row.s69 for row in frame.collect()] == ["é" * 69, None, "x" * 69]


def test_rows_are_filtered_and_joined_as_any_others(spark, uri, way):
    register(spark)
    lance.write_dataset(pa.table({"id": [1, 2, 3, None], "text": ["a", "b", None, "d"]}), uri)
    frame = load(spark, uri)
    joined = frame.join(spark.range(2, 5), "id").select("id", "text").orderBy("id").collect()
    assert [tuple(row) for row in joined] == [(2, "b"), (3, None)]
    assert frame.groupBy("text").count().count() == 4
    assert frame.distinct().where("text IS NULL").collect()[0].id == 3
