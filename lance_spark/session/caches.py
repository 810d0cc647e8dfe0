"""Spark's cached tables, refreshed after a verb of a handle, as after Spark's own statements.

Newer versions of Spark find cached data by the table's name: without the refresh, a query would get the rows from
before the change.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from lance_spark.core.location import DatasetLocation
from lance_spark.engine.session_spark import session_or_none

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Verb = TypeVar("_Verb", bound=Callable[..., Any])


def refreshing(verb: _Verb) -> _Verb:
    """Wraps a verb of a handle with ``spark`` and ``location``, so that no later query gets older rows from a cache."""

    @wraps(verb)
    def refreshed(self: Any, *given: Any, **named: Any) -> Any:
        result = verb(self, *given, **named)
        refresh(session_or_none(self.spark), self.location)
        return result

    return cast("_Verb", refreshed)


def refresh(spark: SparkSession | None, location: DatasetLocation) -> None:
    """Refresh what a session has cached by names of a dataset. DataFrames of paths stay unchanged."""
    if spark is None:
        return
    from pyspark.errors import PySparkException

    from lance_spark.jvm.detection import connected

    bridge = connected.get(spark)
    for name in () if bridge is None else bridge.names_of(location):
        # The change is made: a dropped table, or a cached query that names a dropped column, is not a failure.
        with suppress(PySparkException):
            spark.catalog.refreshTable(name)
