"""Cleanup of a table: on threads of this process if it is little work, else on Spark."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_spark.actions.cleanup.plan import open_plan, plan_cleanup
from lance_spark.cleanup.policy import CleanupPolicy
from lance_spark.location import DatasetLocation
from lance_spark.spark.engines import engine_of
from lance_spark.spark.runner import SPARK
from lance_spark.spark.session import check_places
from lance_spark.spark.types import to_spark
from lance_spark.store.uri import locate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lance_spark.actions.cleanup.cleanup_plan import CleanupPlan
    from lance_spark.spark.engines import Where


def plan(
    spark: SparkSession | None,
    location: DatasetLocation,
    policy: CleanupPolicy | None,
    where: Where,
    inventory: DataFrame | pa.Table | None,
) -> CleanupPlan:
    """A plan. "auto" is where the inventory is, if there is one: a DataFrame may be too large for this process."""
    policy = policy or CleanupPolicy()
    check_places(spark, *policy.clones, *policy.clones_from)
    if inventory is not None and where == "auto":
        where = "local" if isinstance(inventory, pa.Table) else "spark"
    if isinstance(inventory, pa.Table) and where == "spark" and spark is not None:
        inventory = spark.createDataFrame(inventory)
    elif inventory is not None and not isinstance(inventory, pa.Table):
        spark = inventory.sparkSession
        inventory = inventory.toArrow() if where == "local" else inventory
    engine = engine_of(spark, where)
    return _shown(spark, where, plan_cleanup(location, policy, engine, time.time_ns(), inventory))


def stored(spark: SparkSession | None, location: DatasetLocation, directory: str, where: Where) -> CleanupPlan:
    """A plan that was stored in a directory."""
    check_places(spark, directory)
    place = locate(directory, location.storage_options)
    return _shown(spark, where, open_plan(location, place, engine_of(spark, where), time.time_ns()))


def _shown(spark: SparkSession | None, where: Where, plan: CleanupPlan) -> CleanupPlan:
    """The plan with candidates of one kind: whether they are a DataFrame must not depend on how many there are."""
    if where == "local" or spark is None or plan.runner.name == SPARK:
        return plan
    return replace(plan, shown=partial(_data_frame, spark))


def _data_frame(spark: SparkSession, candidates: pa.Table) -> DataFrame:
    return spark.createDataFrame(candidates, to_spark(candidates.schema))
