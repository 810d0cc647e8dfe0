"""DataFrames of what this package computed, with what the dataset says of its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from lance_spark.runner.interface import Frame


def as_dataframe(spark: SparkSession, frame: Frame, schema: StructType) -> DataFrame:
    """A runner's frame, computed here or by Spark, as a DataFrame."""
    if isinstance(frame, pa.Table):
        frame = spark.createDataFrame(frame, schema)
    return with_metadata(frame, schema)


def with_metadata(frame: DataFrame, schema: StructType) -> DataFrame:
    """The DataFrame, told of its columns what does not cross to executors, such as the length of vectors."""
    from pyspark.sql import functions as F  # noqa: N812 - the usual name for it

    if not any(field.metadata for field in schema.fields):
        return frame
    named = [
        F.col("`" + field.name.replace("`", "``") + "`").alias(field.name, metadata=field.metadata)
        for field in schema.fields
    ]
    return frame.select(*named)
