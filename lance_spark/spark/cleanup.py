"""Cleanup from a table: on threads of this process while it is little work, on Spark beyond."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_spark.actions.cleanup.plan import open_plan, plan_cleanup
from lance_spark.cleanup.policy import CleanupPolicy
from lance_spark.location import DatasetLocation
from lance_spark.spark.engines import engine_of
from lance_spark.store.uri import locate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lance_spark.actions.cleanup.planned import CleanupPlan
    from lance_spark.spark.engines import Where


def plan(
    spark: SparkSession | None,
    location: DatasetLocation,
    policy: CleanupPolicy | None,
    where: Where,
    inventory: DataFrame | pa.Table | None,
) -> CleanupPlan:
    """A plan. With an inventory "auto" is where that is: a DataFrame may be too large for this process."""
    if inventory is not None and where == "auto":
        where = "local" if isinstance(inventory, pa.Table) else "spark"
    if isinstance(inventory, pa.Table) and where == "spark" and spark is not None:
        inventory = spark.createDataFrame(inventory)
    elif inventory is not None and not isinstance(inventory, pa.Table):
        spark = inventory.sparkSession
        inventory = inventory.toArrow() if where == "local" else inventory
    return plan_cleanup(location, policy or CleanupPolicy(), engine_of(spark, where), inventory)


def stored(spark: SparkSession | None, location: DatasetLocation, directory: str, where: Where) -> CleanupPlan:
    """A plan that was stored in a directory."""
    return open_plan(location, locate(directory, location.storage_options), engine_of(spark, where))
