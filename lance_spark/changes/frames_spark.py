"""The change feed as a DataFrame."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lance_spark.changes.changes import FeedEnds, feed_frame, plan_changes
from lance_spark.engine.session_spark import SparkRunner, with_metadata
from lance_spark.engine.types_spark import to_spark, wire_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lance_spark.changes.feed_rules import FeedOptions
    from lance_spark.core.location import DatasetLocation


def changes_frame(
    spark: SparkSession, location: DatasetLocation, ends: FeedEnds, options: FeedOptions, parallelism: int | None = None
) -> DataFrame:
    """The changes between two versions. Manifests are read now, rows when Spark runs.

    Without the number of parallel tasks, a small job determines it.
    Raises NotFound for a version or a column that is gone, Refused, InvalidOption and CorruptData.
    """
    plan = plan_changes(location, ends, options)
    feed = plan.reading.columns
    read = replace(plan.reading, columns=replace(feed, schema=wire_schema(to_spark(feed.schema))))
    frame = feed_frame(SparkRunner(spark, "changes", parallelism), replace(plan, reading=read))
    return with_metadata(frame, to_spark(feed.rows))
