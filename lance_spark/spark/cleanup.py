"""Cleanup from a table: the Spark runner by default, the local one for small datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from lance_spark.actions.cleanup.plan import open_plan, plan_cleanup
from lance_spark.cleanup.policy import CleanupPolicy
from lance_spark.errors import InvalidOption
from lance_spark.location import DatasetLocation
from lance_spark.runner.interface import Runner
from lance_spark.runner.local import LocalRunner
from lance_spark.store.uri import locate

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lance_spark.actions.cleanup.planned import CleanupPlan

Where = Literal["spark", "local"]


def plan(
    spark: SparkSession,
    location: DatasetLocation,
    policy: CleanupPolicy | None,
    where: Where,
    inventory: DataFrame | pa.Table | None,
) -> CleanupPlan:
    """A plan, made on Spark or in this process."""
    return plan_cleanup(location, policy or CleanupPolicy(), runner(spark, where), inventory)


def stored(spark: SparkSession, location: DatasetLocation, directory: str, where: Where) -> CleanupPlan:
    """A plan that was stored in a directory."""
    return open_plan(location, locate(directory, location.storage_options), runner(spark, where))


def runner(spark: SparkSession | None, where: Where, **arguments: Any) -> Runner:
    """The engine to run on; without a session, this process. ``arguments`` are parallelism and say."""
    if str(where) not in ("spark", "local"):
        raise InvalidOption(f"A cleanup runs on 'spark' or 'local', not on {where!r}.")
    if where == "local" or spark is None:
        return LocalRunner(**arguments)
    from lance_spark.spark.runner import SparkRunner

    return SparkRunner(spark, **arguments)
