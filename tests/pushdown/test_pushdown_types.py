"""What is said of Spark's types without Spark is what Spark says."""

import pyarrow as pa
import pytest
from pyspark.sql import types as st
from support.type_table import READABLE

from lance_spark.engine.types_spark import to_spark, wire_schema
from lance_spark.format.blobs import BLOB_KEY
from lance_spark.pushdown.filters import as_spark_sends, field_at, plain_field, same_type, spark_name

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("row", READABLE, ids=lambda row: row.name)
def test_simple_types_are_those_of_the_data_source(row):
    spark = to_spark(pa.schema([("c", row.lance)]))
    kind = spark.fields[0].dataType
    unknown = isinstance(kind, st.ArrayType | st.MapType | st.StructType | st.NullType | st.DayTimeIntervalType)
    if unknown or type(kind).__name__ == "TimeType":
        assert as_spark_sends(row.lance) is None
        assert spark_name(row.lance) is None
        return
    assert as_spark_sends(row.lance) == wire_schema(spark).field(0).type
    assert spark_name(row.lance) == kind.simpleString()
    assert same_type(kind.simpleString(), row.lance)
    assert same_type(kind.typeName() if not isinstance(kind, st.DecimalType) else kind.jsonValue(), row.lance)


def test_fields_are_found_by_their_exact_names():
    inner = pa.struct([("x.y", pa.int32()), ("X", pa.string())])
    schema = pa.schema([("a", inner), ("l", pa.list_(inner))])
    assert field_at(schema, ("a", "x.y")).type == pa.int32()
    assert field_at(schema, ("a", "X")).type == pa.string()
    assert field_at(schema, ("a",)).type == inner
    for path in [("A",), ("a", "x"), ("a", "x", "y"), ("l", "X"), ("a", "X", "z"), ()]:
        assert field_at(schema, path) is None


def test_fields_that_are_read_as_something_else_are_not_plain():
    mark = {"ARROW:extension:name": "arrow.json"}
    inner = pa.struct([("x", pa.int32()), pa.field("j", pa.string(), metadata=mark)])
    schema = pa.schema(
        [
            ("a", inner),
            pa.field("b", pa.struct([("x", pa.int32())]), metadata={BLOB_KEY: "true"}),
            ("u", pa.uuid()),
        ]
    )
    assert plain_field(schema, ("a", "x")).type == pa.int32()
    for path in [("a", "j"), ("b",), ("b", "x"), ("u",), ("c",)]:
        assert plain_field(schema, path) is None
