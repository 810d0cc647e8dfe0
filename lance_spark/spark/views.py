"""Temporary views of a catalog's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_spark.actions.catalog.listing import list_tables
from lance_spark.actions.catalog.lookup import describe_table
from lance_spark.catalog.views import quoted_view, view_names
from lance_spark.spark.table import LanceTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lance_spark.catalog.model import Catalog
    from lance_spark.catalog.names import Name


def register_views(
    spark: SparkSession, catalog: Catalog, namespace: Name = "", recursive: bool = True, prefix: str = ""
) -> list[str]:
    """Make or replace a view for each table that has data; returns their names, in the tables' order.

    All tables are opened before the first view is made, so that a bad one leaves the views as they were. Raises Refused
    for two tables whose views would be one.
    """
    frames = {}
    for table, view in view_names(list_tables(catalog, namespace, recursive), prefix).items():
        described = describe_table(catalog, table)
        if not described.declared:
            frames[view] = LanceTable(spark, described.location).to_df()
    for view, frame in frames.items():
        frame.createOrReplaceTempView(quoted_view(view))
    return list(frames)
