"""Registers a Python data source in a session, on every Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource


def register_class(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a data source in a session, unless Spark finds it by itself."""
    from lance_spark.engine.session_spark import is_connect

    if is_connect(spark):  # its client may have neither py4j nor Java
        with _known_already():
            spark.dataSource.register(source)
        return
    from lance_spark.jvm.detection import activity, expect_replacement

    expect_replacement(spark, source.name())
    try:
        spark.dataSource.register(source)
    except AnalysisException as problem:
        # Spark 4.0 refuses a name that it finds by itself. Any Spark refuses a name that the active session knows, even
        # if this session does not know it.
        if problem.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        with suppress(AnalysisException), activity(spark):
            spark.dataSource.register(source)


@contextmanager
def _known_already() -> Iterator[None]:
    """Let Spark 4.0 refuse a name that it finds by itself."""
    try:
        yield
    except AnalysisException as problem:
        if problem.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
