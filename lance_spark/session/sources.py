"""Registers a Python data source in a session, on every Spark."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource


def register_class(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a data source in a session, unless Spark finds it by itself."""
    from lance_spark.engine.session_spark import is_connect

    classic = not is_connect(spark)  # a client of Spark Connect may have neither py4j nor Java
    if classic:
        from lance_spark.jvm.detection import expect_replacement

        expect_replacement(spark, source.name())
    try:
        spark.dataSource.register(source)
    except AnalysisException as problem:
        # Spark 4.0 refuses a name that it finds by itself. Any Spark refuses a name that the active session knows, even
        # if this session does not know it.
        if problem.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        if classic:
            from lance_spark.jvm.detection import activity

            with suppress(AnalysisException), activity(spark):
                spark.dataSource.register(source)
