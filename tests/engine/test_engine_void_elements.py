"""Spark's array() and map(): collections whose elements have no type."""

import pyarrow as pa
import pytest
from pyspark.sql import types as st

from lance_spark.engine.types_spark import to_arrow

pytestmark = pytest.mark.pure

VOID = st.NullType()


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (lambda nullable: st.ArrayType(VOID, nullable), pa.list_(pa.null())),
        (lambda nullable: st.MapType(st.StringType(), VOID, nullable), pa.map_(pa.string(), pa.null())),
    ],
    ids=["array", "map"],
)
def test_an_array_or_map_of_nothing_has_an_arrow_type(kind, expected, nullable):
    assert to_arrow(st.StructType([st.StructField("c", kind(nullable))])).field("c").type == expected
