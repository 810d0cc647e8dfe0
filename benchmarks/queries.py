"""One question over any columns, in Spark's words and in Arrow's: a number per column that needs all its values."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as st


def totals(frame: DataFrame) -> list[float | int | None]:
    """The sum of every column (of the lengths for text, of the first elements for vectors), in one Spark job."""
    row = frame.agg(*(f.sum(_number(field)).alias(field.name) for field in frame.schema)).first()
    return [None if value is None else float(value) for value in row or ()]


def fetched(frame: DataFrame) -> list[float | int | None]:
    """The totals of rows that Spark hands to the driver: a few rows, all columns."""
    return arrow_totals(frame.toArrow().to_batches())


def arrow_totals(batches: Iterable[pa.RecordBatch]) -> list[float | int | None]:
    """The same over Arrow batches."""
    sums_so_far: list[float] = []
    for batch in batches:
        sums = [pc.sum(_arrow_number(column)).as_py() or 0 for column in batch.columns]
        sums_so_far = [float(a) + float(b) for a, b in zip(sums_so_far or [0] * len(sums), sums, strict=True)]
    return list(sums_so_far)


def _number(field: st.StructField) -> Column:
    column = f.col(f"`{field.name}`")
    kind = field.dataType
    if isinstance(kind, st.StringType):
        return f.length(column)
    if isinstance(kind, st.BooleanType):
        return column.cast("int")
    if isinstance(kind, st.DateType):
        return f.unix_date(column)
    if isinstance(kind, st.TimestampType):
        return f.unix_seconds(column)
    return f.element_at(column, 1) if isinstance(kind, st.ArrayType) else column


def _arrow_number(column: pa.Array) -> pa.Array:
    kind = column.type
    if pt.is_string(kind):
        return pc.utf8_length(column)
    if pt.is_date32(kind):
        return column.view(pa.int32())
    if pt.is_timestamp(kind):
        return pc.divide(column.view(pa.int64()), 1_000_000)
    return pc.list_element(column, 0) if pt.is_fixed_size_list(kind) else column
