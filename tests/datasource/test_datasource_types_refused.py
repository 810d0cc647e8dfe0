"""What the other side cannot hold is refused with the column's name, and never read or written wrong."""

import os
from decimal import Decimal

import lance
import pyarrow as pa
import pytest
from pyspark.sql import types as st
from support.frames import load, numbers, refused, save
from support.type_table import HAS_TIME

from lance_spark.errors import SchemaMismatch

pytestmark = [pytest.mark.spark, pytest.mark.when(oldest=0.3)]


def _raw(kind, value, size=8):
    """One value of any type from its bytes: Python's own types cannot say it."""
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(value.to_bytes(size, "little", signed=True))])


UNREADABLE_TYPES = {
    "decimal256_39": pa.array([Decimal(1)], pa.decimal256(39, 0)),
    "negative_scale": _raw(pa.decimal128(5, -2), 123, 16),
    "scale_above_precision": _raw(pa.decimal128(3, 5), 12, 16),
    "nested_decimal256": pa.array([[{"price": Decimal(1)}]], pa.list_(pa.struct([("price", pa.decimal256(76, 0))]))),
}

UNREADABLE_VALUES = {
    "timestamp_ns": _raw(pa.timestamp("ns"), 1),
    "timestamp_ns_utc": _raw(pa.timestamp("ns", "UTC"), 1001),
    "duration_ns": _raw(pa.duration("ns"), 1),
    "timestamp_s_far_future": _raw(pa.timestamp("s"), 2**60),
    "duration_s_too_long": _raw(pa.duration("s"), 2**60),
    "date64_within_a_day": _raw(pa.date64(), 1),
    "nested_timestamp_ns": pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), _raw(pa.timestamp("ns"), 1)),
}
if HAS_TIME:
    UNREADABLE_VALUES["time64_ns"] = _raw(pa.time64("ns"), 1)
    UNREADABLE_VALUES["nested_time64_ns"] = pa.StructArray.from_arrays([_raw(pa.time64("ns"), 1)], ["at"])


@pytest.mark.when(day={"name": ["decimal256_39", "nested_decimal256"]})
@pytest.mark.parametrize("name", UNREADABLE_TYPES)
def test_a_type_that_spark_lacks_is_refused_at_load_and_can_be_left_out(spark, uri, name):
    lance.write_dataset(pa.table({"id": [7], "odd": UNREADABLE_TYPES[name]}), uri)
    with refused(SchemaMismatch, "'odd", "columns"):
        load(spark, uri)
    assert load(spark, uri, columns="id").collect() == [(7,)]


@pytest.mark.when(day={"name": ["timestamp_ns", "duration_s_too_long", "date64_within_a_day", "nested_timestamp_ns"]})
@pytest.mark.parametrize("name", UNREADABLE_VALUES)
def test_a_value_that_spark_cannot_hold_fails_the_query(spark, uri, name):
    lance.write_dataset(pa.table({"id": [7], "odd": UNREADABLE_VALUES[name]}), uri)
    with refused(SchemaMismatch, "Column 'odd'"):
        load(spark, uri).collect()


@pytest.mark.parametrize(
    ("expression", "column"),
    [
        ("interval '1' year as odd", "odd"),
        ("map() as odd", "odd"),
        ("named_struct('inner', interval '1' month) as odd", "odd.inner"),
    ],
)
def test_a_type_that_lance_lacks_is_refused_before_anything_is_written(spark, uri, expression, column):
    with refused(SchemaMismatch, f"Column '{column}' is ", "Cast it first"):
        save(numbers(spark, 0, 1).selectExpr(expression), uri)
    assert not os.path.exists(uri)


@pytest.mark.parametrize("size", ["two", 0, -1])
def test_metadata_that_is_no_vector_length_is_refused(spark, uri, size):
    field = st.StructField("v", st.ArrayType(st.FloatType()), True, {"arrow.fixed-size-list.size": size})
    with refused(SchemaMismatch, "Column 'v'", "arrow.fixed-size-list.size"):
        save(spark.createDataFrame([([1.0],)], st.StructType([field])), uri)
    assert not os.path.exists(uri)


def test_a_name_with_a_dot_is_refused_before_anything_is_written(spark, uri):
    with refused(SchemaMismatch, "'a.b'", "withColumnRenamed"):
        save(numbers(spark, 0, 1).withColumnRenamed("id", "a.b"), uri)
    assert not os.path.exists(uri)
