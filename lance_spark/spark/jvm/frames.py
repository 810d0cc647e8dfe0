"""DataFrames of tables that no catalog has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_spark.spark.jvm import names
from lance_spark.spark.jvm.table import NativeTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lance_spark.spark.jvm.bridge import Bridge
    from lance_spark.spark.jvm.source import Source


def data_frame(bridge: Bridge, source: Source) -> DataFrame:
    """A DataFrame that stays with the version."""
    from pyspark.sql import DataFrame

    table = NativeTable(bridge, source, source.name).java()
    none = bridge.option(None)
    given = [table, none, none, bridge.options({})]
    if bridge.relation_arguments > len(given):
        given.append(none)  # no time travel: the version is in the table
    relation = bridge.find(names.RELATION).create(*given)
    return DataFrame(bridge.call(f"{names.DATASET}.ofRows", bridge.session, relation), bridge.spark)
