"""What a write of a DataFrame knows before it begins: how its rows are to come, and which statement it is part of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from lance_spark.core.isolation import ANY, STATEMENT, Statement
from lance_spark.datasource.datasource import LanceDataSource, names_in
from lance_spark.engine.types_spark import quoted, to_arrow
from lance_spark.errors import LanceSparkError
from lance_spark.layout.layout_rules import AS_THEY_COME, Arrangement
from lance_spark.session.narrow_query import explained
from lance_spark.tables.write import Foreseen, foresee

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RELATION = re.compile(r"RelationV2\[.*\] (\S+)")


def prepared(frame: DataFrame, mode: str, options: Mapping[str, str]) -> tuple[DataFrame, dict[str, str]]:
    """The rows of a write where Spark does not plan into Lance, and what the write knows of its statement, as options.

    ``options`` name the target. The rows for a table with ``optimize_write`` come together before: nothing asks such
    a source how it wants them.
    """
    start = foresee(options)
    return _together(frame, start), _statement(frame, start) if mode == "overwrite" else {}


def arranged_for(frame: DataFrame, start: Foreseen) -> Arrangement:
    """How Spark is to bring the rows of a DataFrame; as they come if Lance has no type for one of its columns."""
    try:
        return start.arranged(to_arrow(frame.schema))
    except (LanceSparkError, PySparkException):  # the write itself reports it
        return AS_THEY_COME


def _together(frame: DataFrame, start: Foreseen) -> DataFrame:
    """The rows in tasks of the size that Spark's settings advise, which only adaptive execution can make.

    Those for a table with a layout stay where they are: each task divides its own.
    """
    arranged = arranged_for(frame, start)
    if arranged.order or not arranged or frame.sparkSession.conf.get("spark.sql.adaptive.enabled") != "true":
        return frame
    return frame.hint("rebalance", *(quoted(name) for name in arranged.by_hash))


def _statement(frame: DataFrame, start: Foreseen) -> dict[str, str]:
    """The option by which an overwrite knows its statement.

    Spark's plan shows that tables of Lance are read, but not which: any of them counts as the target.
    """
    version = start.planned_with
    if version is None:
        return {}
    try:
        read = {*_RELATION.findall(explained(frame.sparkSession, frame))}
    except PySparkException:  # the write itself reports it
        return {}
    reads = ((ANY, None, version),) if read & {LanceDataSource.name(), *names_in(frame.sparkSession)} else ()
    return {STATEMENT: Statement(version, reads).as_text()}
