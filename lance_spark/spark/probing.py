"""A stand-in for a table, with its schema and no rows: a query over it can be explained, and cannot run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn
from weakref import WeakSet

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from lance_spark.spark.source_classes import register_class

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

PROBE = "lance_spark_probe"
"""The format's name, and the table's in Spark's plans."""
_registered: WeakSet[SparkSession] = WeakSet()


class ProbeSource(DataSource):
    """Needs a schema."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(...)``."""
        return PROBE

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        """A reader that says why there are no rows."""
        return _NoRows()


class _NoRows(DataSourceReader):
    def partitions(self) -> NoReturn:
        from lance_spark.errors import Refused

        raise Refused(
            "This DataFrame only shows what a query needs; it has no rows.",
            hint="The function that query() gets has to return a DataFrame, and to run and keep nothing.",
        )

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:  # noqa: ARG002 - Spark's signature
        return iter(())


def probe(spark: SparkSession, schema: StructType) -> DataFrame:
    """The stand-in."""
    if spark not in _registered:
        register_class(spark, ProbeSource)
        _registered.add(spark)
    return spark.read.format(PROBE).schema(schema).load()
