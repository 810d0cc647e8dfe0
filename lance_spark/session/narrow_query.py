"""Reads of no more than a query needs, found by explaining the query over an empty stand-in for the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, NoReturn
from weakref import WeakSet

from pyspark.sql import functions as F  # noqa: N812 - the usual name for it
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from lance_spark.core.texts import quoted_name
from lance_spark.format.schema import ROW_ID
from lance_spark.pushdown.narrowing import EVERYTHING, Narrowing, confirmed, narrowing
from lance_spark.session.sources import register_class

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

PROBE = "lance_spark_probe"
"""The format's name, and the table's name in Spark's plans."""
_registered: WeakSet[SparkSession] = WeakSet()


class ProbeSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return PROBE

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        """A reader that only raises Refused."""
        return _NoRows()


class _NoRows(DataSourceReader):
    def partitions(self) -> NoReturn:
        from lance_spark.errors import Refused

        raise Refused(
            "This DataFrame only shows what a query needs; it has no rows.",
            hint="The function passed to query() must return a DataFrame without running or caching anything.",
        )

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:  # noqa: ARG002 - Spark's signature
        return iter(())


def probe(spark: SparkSession, schema: StructType) -> DataFrame:
    """The stand-in: the table's schema, no rows; a query over it can be explained, but not run."""
    if spark not in _registered:
        register_class(spark, ProbeSource)
        _registered.add(spark)
    return spark.read.format(PROBE).schema(schema).load()


# --- A narrowed read, in sessions where Spark does not pass what it needs to the source
# The function that makes the query first runs over a stand-in, so that Spark's own plan reveals what it needs, and then
# over a read of just that. If the plan does not reveal it, the read covers the whole table: the answer is the same.

Query = Callable[["DataFrame"], "DataFrame"]
"""Makes a query from a table's DataFrame; runs nothing."""
_STAND_INS: Mapping[str, object] = {
    "boolean": False,
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "float", "double"), 0),
    "string": "",
    "date": date(1970, 1, 1),
}
"""Values for columns that are never null, by Spark's name of the type."""


def needs(spark: SparkSession, query: Query, spark_schema: StructType, schema: pa.Schema) -> Narrowing:
    """The part of a table that a query needs; the schema is given in Spark's types and in the dataset's own."""

    def found_now() -> Narrowing:
        return narrowing(explained(spark, query(probe(spark, spark_schema))), PROBE, schema)

    try:
        found = found_now()
        return confirmed(found, found_now()) if found.unconfirmed else found
    except Exception:  # noqa: BLE001 - if the query causes it, it recurs over the table itself
        return EVERYTHING


def read_options(found: Narrowing, spark_schema: StructType) -> dict[str, object]:
    """The narrowing as arguments of ``to_df``."""
    given: dict[str, object] = {}
    if found.columns is not None:
        names = _read(found.columns, spark_schema)
        # A read has at least one column, and the row ids cost no file access.
        given["columns"] = [*map(quoted_name, names)] or [ROW_ID]
    if found.filter is not None:
        given["filter"] = found.filter
    if found.limit is not None:
        given["limit"] = found.limit
    return given


def with_all_columns(frame: DataFrame, found: Narrowing, spark_schema: StructType) -> DataFrame:
    """The narrowed read with the schema of the whole: the query can still name columns that its plan dropped."""
    if found.columns is None:
        return frame
    read = set(_read(found.columns, spark_schema))

    def column(field: StructField) -> Column:
        if field.name in read:
            return F.col(quoted_name(field.name))
        return _stand_in(field).alias(field.name)

    return frame.select(*map(column, spark_schema))


def _read(columns: Sequence[str], spark_schema: StructType) -> list[str]:
    """The columns to read, including non-nullable ones that no constant can replace.

    Spark removes what follows from a column's non-nullability, as in ``count(x)``, so nulls cannot stand in for it.
    """
    return [
        field.name
        for field in spark_schema
        if field.name in columns or (not field.nullable and field.dataType.simpleString() not in _STAND_INS)
    ]


def _stand_in(field: StructField) -> Column:
    value = None if field.nullable else _STAND_INS[field.dataType.simpleString()]
    return F.lit(value).cast(field.dataType)


def explained(spark: SparkSession, frame: DataFrame) -> str:
    """What ``frame.explain(extended=True)`` prints, on every kind of session."""
    row = spark.sql("EXPLAIN EXTENDED SELECT * FROM {query}", query=frame).first()
    return "" if row is None else str(row[0])
