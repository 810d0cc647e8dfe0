"""``LanceTable.changes``: which rows changed between two versions, as a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lance_spark.actions.changes import Point, feed_frame, find_ends, plan_changes
from lance_spark.feed.model import FeedOptions, FeedPlan, Images
from lance_spark.options.text import names_of
from lance_spark.spark.session import needed_session
from lance_spark.spark.shown import with_metadata
from lance_spark.spark.types import to_spark, wire_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lance_spark.location import DatasetLocation
    from lance_spark.refs.model import PinnedVersion

_HINT = "Give one: LanceTable.for_path(spark, uri). Without Spark, lance-git diff --rows compares two versions."


class ChangeFeed:
    """What a handle says of changes."""

    if TYPE_CHECKING:
        spark: SparkSession | None
        location: DatasetLocation

        def _pin(self) -> PinnedVersion: ...

    def changes(
        self,
        since: Point,
        until: Point | None = None,
        columns: str | Sequence[str] | None = None,
        images: Images = "update",
        net: bool = False,
        key: str | Sequence[str] = (),
    ) -> DataFrame:
        """The rows that lead from version ``since`` to ``until``, by default this handle's version.

        A version is a number, a ref (tag, branch, ``branch@7``) or a datetime. Rows have the columns of ``until``,
        ``_change_type`` (insert, delete, update_preimage, update_postimage), ``_commit_version``, ``_commit_timestamp``
        and ``_commit_branch``. A row was updated if stable row ids or the columns of ``key``, by default the table's
        key, tell that it is the same one; else it was deleted and inserted. ``images``: "update" shows it before and
        after, "post" only after, "none" as a delete and an insert. With ``net`` each row is there once at most, with
        all that happened to it put together. Only values of ``columns`` count as changes.

        Manifests are read now, rows when Spark runs. Across branches, what ``since`` has beyond the last common version
        is taken back first. Raises NotFound where a version in between is gone, Refused, InvalidOption.
        """
        spark = needed_session(self.spark, _HINT)
        options = FeedOptions(None if columns is None else names_of(columns), images, net, names_of(key))
        ends = find_ends(self.location, self._pin(), since, until)
        return _as_dataframe(spark, plan_changes(self.location, ends, options))


def _as_dataframe(spark: SparkSession, plan: FeedPlan) -> DataFrame:
    from lance_spark.spark.runner import SparkRunner

    shown = to_spark(plan.reading.columns.rows)
    wire = wire_schema(to_spark(plan.reading.columns.schema))
    columns = replace(plan.reading.columns, schema=wire)
    frame = feed_frame(SparkRunner(spark, "changes"), replace(plan, reading=replace(plan.reading, columns=columns)))
    return with_metadata(frame, shown)
