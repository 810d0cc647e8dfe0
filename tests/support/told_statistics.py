"""What Spark's optimizer knows of a query, in a classic session."""

from __future__ import annotations

from typing import Any


def told(spark: Any, query: str) -> tuple[int | None, dict[str, tuple[str | None, ...]]]:
    """What the optimizer knows of a query: rows, if known; by column (distinct, nulls, least, greatest) as texts."""
    found = spark.sql(query)._jdf.queryExecution().optimizedPlan().stats()
    columns = {}
    for entry in spark._jvm.scala.jdk.javaapi.CollectionConverters.asJava(found.attributeStats()).entrySet():
        known = entry.getValue()
        values = (known.distinctCount(), known.nullCount(), known.min(), known.max())
        columns[entry.getKey().name()] = tuple(
            spark._jvm.String.valueOf(value.get()) if value.isDefined() else None for value in values
        )
    rows = found.rowCount()
    return int(spark._jvm.String.valueOf(rows.get())) if rows.isDefined() else None, columns


def bins_told(spark: Any, query: str, column: str) -> list[tuple[float, float, int]]:
    """The bins of a column's histogram in the optimizer: lower end, upper end, distinct values."""
    stats = spark.sql(query)._jdf.queryExecution().optimizedPlan().stats().attributeStats()
    for entry in spark._jvm.scala.jdk.javaapi.CollectionConverters.asJava(stats).entrySet():
        found = entry.getValue().histogram()
        if entry.getKey().name() == column and found.isDefined():
            return [(each.lo(), each.hi(), each.ndv()) for each in found.get().bins()]
    return []
