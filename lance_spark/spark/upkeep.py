"""``t.storage()`` and ``t.fsck()``: what refs cost, and whether all is there. On threads where that is quick."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lance_spark.actions.fsck.fsck import FsckOptions, fsck
from lance_spark.actions.storage import storage
from lance_spark.cleanup.policy import CleanupPolicy
from lance_spark.spark.engines import engine_of
from lance_spark.spark.session import session_or_none
from lance_spark.spark.types import to_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lance_spark.checkup.report import FsckReport
    from lance_spark.location import DatasetLocation
    from lance_spark.spark.engines import Where
    from lance_spark.usage.report import StorageReport


class UpkeepVerbs:
    """Verbs of a table that look at all of its refs and files, and change nothing."""

    spark: SparkSession | None
    location: DatasetLocation

    def storage(self, clones: Sequence[str] = (), where: Where = "auto") -> StorageReport:
        """What the whole dataset takes, main and all branches, and what each branch, tag and clone costs.

        ``clones`` are URIs of shallow clones that are not recorded. Where it runs is chosen as for
        :meth:`plan_cleanup`. Raises CorruptData, NotFound and StorageFailure if what is there cannot be understood.
        """
        report = storage(self.location, CleanupPolicy(clones=tuple(clones)), engine_of(self.spark, where))
        session = session_or_none(self.spark)
        return report if session is None else replace(report, frame=partial(_data_frame, session))

    def fsck(self, deep: bool = False, clones: Sequence[str] = (), where: Where = "auto") -> FsckReport:
        """Check the whole dataset, main, all branches and tags, and what clones read here; nothing is changed.

        Every manifest has to be understood, and every file that a version names has to be there with its size. With
        ``deep`` files are opened: footers, numbers of rows, deletion files, indexes, stable row ids. What is damaged is
        in ``findings``, not an exception. Raises NotFound, Conflict, and StorageFailure if the store does not answer.
        """
        options = FsckOptions(deep, tuple(clones))
        report = fsck(self.location, options, engine_of(self.spark, where), time.time_ns())
        session = session_or_none(self.spark)
        return report if session is None else replace(report, frame=partial(_data_frame, session))


def _data_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    return spark.createDataFrame(rows, to_spark(rows.schema))
