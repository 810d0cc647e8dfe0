"""Which session Spark takes for the one of a thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lance_spark.errors import Refused
from lance_spark.spark.jvm import names
from lance_spark.spark.jvm.detection import connect, connected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def activity(spark: SparkSession) -> Iterator[None]:
    """Make a session the active one of this thread for a while, where that can be done.

    Spark looks names of Python data sources up in the active session, whichever session is asked.
    """
    try:
        bridge = connected.get(spark) or connect(spark)
    except Refused:
        yield
        return
    before = bridge.call(f"{names.SESSION}.getActiveSession")
    bridge.call(f"{names.SESSION}.setActiveSession", bridge.session)
    try:
        yield
    finally:
        if before.isDefined():
            bridge.call(f"{names.SESSION}.setActiveSession", before.get())
        else:
            bridge.call(f"{names.SESSION}.clearActiveSession")
