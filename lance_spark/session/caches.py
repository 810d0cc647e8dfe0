"""What Spark has cached of a table, read again after a verb of a handle, as after a statement of Spark's own.

Newer versions of Spark find what is cached of a table by the table's name: without this, a query would get the rows
from before the change.
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
    """A verb of a handle, which has ``spark`` and ``location``: no later query gets older rows out of a cache."""

    @wraps(verb)
    def refreshed(self: Any, *given: Any, **named: Any) -> Any:
        result = verb(self, *given, **named)
        refresh(session_or_none(self.spark), self.location)
        return result

    return cast("_Verb", refreshed)


def refresh(spark: SparkSession | None, location: DatasetLocation) -> None:
    """Let a session read again what it has cached by names of a dataset. DataFrames of paths stay as they are."""
    if spark is None:
        return
    from pyspark.errors import PySparkException

    from lance_spark.jvm.detection import connected

    bridge = connected.get(spark)
    for name in () if bridge is None else bridge.names_of(location):
        # The change is made: that a table was dropped, or that what was cached names a dropped column, is no failure.
        with suppress(PySparkException):
            spark.catalog.refreshTable(name)
