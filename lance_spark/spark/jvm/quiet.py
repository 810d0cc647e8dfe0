"""Keeps one warning of Spark's from users: that a data source of ours takes the place of ours."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_silenced: WeakKeyDictionary[SparkContext, set[str]] = WeakKeyDictionary()


def expect_replacement(spark: SparkSession, name: str) -> None:
    """Let Spark not log that the data source of this name replaced another one; all else is logged as before.

    Spark finds our source by itself before it is registered, and copies what is registered for each streaming query and
    each new session, always with that warning. Nothing is done on Spark Connect, and where Spark logs by other means.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return
    known = _silenced.setdefault(spark.sparkContext, set())
    if name not in known:
        known.add(name)
        try:
            _refuse(spark.sparkContext, name)
        except (Py4JError, PySparkException, AttributeError, TypeError):
            return  # the warning is harmless


def _refuse(context: Any, name: str) -> None:
    jvm = context._jvm
    log4j = jvm.org.apache.logging.log4j
    results = log4j.core.Filter.Result
    text = f"The data source {re.escape(name)} replaced a (statically|previously) registered data source\\.?"
    no_flags = context._gateway.new_array(jvm.java.lang.String, 0)
    refusing = log4j.core.filter.RegexFilter.createFilter(text, no_flags, False, results.DENY, results.NEUTRAL)
    root = log4j.LogManager.getContext(False).getConfiguration().getRootLogger()
    for appender in root.getAppenders().values():  # a filter of a logger would change what Spark's shells show of it
        appender.addFilter(refusing)
