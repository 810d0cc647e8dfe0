"""What a write to a table by a handle knows of its DataFrame, where Spark does not plan into Lance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from lance_spark.core.isolation import ANY, STATEMENT, Statement
from lance_spark.datasource.datasource import LanceDataSource, names_in
from lance_spark.jvm.detection import connected
from lance_spark.session.narrow_query import explained
from lance_spark.tables.write import planned_with

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RELATION = re.compile(r"RelationV2\[.*\] (\S+)")


def overwriting(frame: DataFrame, options: Mapping[str, str]) -> dict[str, str]:
    """The option by which an overwrite with these options knows its statement; none if Spark's planner tells more.

    Spark's plan shows that tables of Lance are read, but not which: any of them counts as the target.
    """
    if frame.sparkSession in connected:
        return {}
    version = planned_with(options)
    if version is None:
        return {}
    try:
        read = {*_RELATION.findall(explained(frame.sparkSession, frame))}
    except PySparkException:  # the write itself reports it
        return {}
    reads = ((ANY, None, version),) if read & {LanceDataSource.name(), *names_in(frame.sparkSession)} else ()
    return {STATEMENT: Statement(version, reads).as_text()}
