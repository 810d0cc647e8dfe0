"""``t.storage()``, ``t.fsck()`` and its repairs, ``t.maintain()``: what refs cost, and whether all is there."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lance_spark.actions.fsck.fsck import FsckOptions, fsck
from lance_spark.actions.fsck.repairing import RepairOptions, fsck_and_repair
from lance_spark.actions.fsck.undo import undo
from lance_spark.actions.storage import storage
from lance_spark.cleanup.policy import CleanupPolicy
from lance_spark.options.text import names_of
from lance_spark.spark.engines import Progressing, engine_of
from lance_spark.spark.maintaining import maintain_table
from lance_spark.spark.ref_verbs import RefVerbs
from lance_spark.spark.session import check_places, session_or_none
from lance_spark.spark.types import to_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lance_spark.checkup.repaired import RepairResult
    from lance_spark.checkup.report import FsckReport
    from lance_spark.location import DatasetLocation
    from lance_spark.spark.engines import Where
    from lance_spark.spark.maintaining import Policy
    from lance_spark.upkeep.report import MaintenanceReport
    from lance_spark.usage.report import StorageReport


class UpkeepVerbs(RefVerbs):
    """Verbs of a table that look at all of its refs and files. On threads where that is quick."""

    spark: SparkSession | None
    location: DatasetLocation

    def storage(self, clones: str | Sequence[str] = (), where: Where = "auto") -> StorageReport:
        """What the whole dataset takes, main and all branches, and what each branch, tag and clone costs.

        ``clones`` are URIs of shallow clones that are not recorded. Where it runs is chosen as for
        :meth:`plan_cleanup`. Raises CorruptData, NotFound and StorageFailure if what is there cannot be understood.
        """
        check_places(self.spark, *names_of(clones))
        report = storage(self.location, CleanupPolicy(clones=names_of(clones)), engine_of(self.spark, where))
        session = session_or_none(self.spark)
        return report if session is None else replace(report, frame=partial(data_frame, session))

    def fsck(
        self,
        deep: bool = False,
        clones: str | Sequence[str] = (),
        where: Where = "auto",
        repair: bool | RepairOptions = False,
        *,
        progress: Progressing = None,
    ) -> FsckReport:
        """Check the whole dataset, main, all branches and tags, and what clones read here.

        Every manifest has to be understood, and every file that a version names has to be there with its size. With
        ``deep`` files are opened: footers, numbers of rows, deletion files, indexes, stable row ids. What is damaged is
        in ``findings``, not an exception. With ``repair=True`` the report's ``repair`` says what can be repaired;
        nothing is changed unless it is ``RepairOptions(dry_run=False)``, and :meth:`undo_repair` takes it back.
        ``progress`` is told how far it is. Raises NotFound, Conflict, Refused for a repair that lacks evidence, and
        StorageFailure if the store does not answer.
        """
        check_places(self.spark, *names_of(clones))
        options, now = FsckOptions(deep, names_of(clones)), time.time_ns()
        engine = engine_of(self.spark, where, progress)
        if repair:
            chosen = repair if isinstance(repair, RepairOptions) else RepairOptions()
            report = fsck_and_repair(self.location, options, chosen, engine, now)
        else:
            report = fsck(self.location, options, engine, now)
        session = session_or_none(self.spark)
        return report if session is None else replace(report, frame=partial(data_frame, session))

    def undo_repair(self, record: str = "last") -> RepairResult:
        """Take back a repair, by the id of its record.

        Files are as they were, byte by byte; branches that got versions get one more, equal to that before. Raises
        NotFound, and Refused if others changed what was repaired since; then nothing is taken back.
        """
        return undo(self.location, record)

    def maintain(self, policy: Policy | None = None, execute: bool = False, where: Where = "auto") -> MaintenanceReport:
        """Look after the whole dataset, main and all branches: check, compaction, indexes, expiry of refs, cleanup.

        ``policy`` is a :class:`MaintenancePolicy`, or the words of a policy file as a dictionary. Without ``execute``
        the report says what would be done. What goes wrong is in the report. Raises InvalidOption for a policy that
        cannot be, NotFound, StorageFailure.
        """
        return maintain_table(self.spark, self.location, policy, execute, where)


def data_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """The rows of a report."""
    return spark.createDataFrame(rows, to_spark(rows.schema))
