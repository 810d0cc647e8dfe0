"""Upkeep of a table: ``storage``, ``fsck`` and its repairs, ``maintain``, ``optimize``, and ``t.indexes``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.cleanup.cleanup import open_plan, plan_cleanup
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.core.location import DatasetLocation
from lance_spark.core.options import names_of
from lance_spark.core.show import Card, Shown
from lance_spark.core.words import ASKED_OF_INDEXES, OF_INDEXES
from lance_spark.disk_usage.disk_usage import storage
from lance_spark.engine.session_spark import (
    SPARK,
    Progressing,
    asks_for_histograms,
    check_places,
    engine_of,
    from_arrow,
    session_or_none,
)
from lance_spark.engine.types_spark import to_spark
from lance_spark.fsck.fsck import fsck
from lance_spark.fsck.option_rules import FsckOptions, RepairOptions
from lance_spark.fsck.repair import fsck_and_repair
from lance_spark.fsck.undo import undo
from lance_spark.indexes import indexes
from lance_spark.indexes.index_rules import IndexInfo, IndexRequest, IndexResult, IndexStats
from lance_spark.maintenance.spark import plan_of_table
from lance_spark.optimize.analyzing import TableStatistics, analyze
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.flatten import flatten
from lance_spark.optimize.mem_wal import WalResult, compact_wal
from lance_spark.optimize.optimize import optimize
from lance_spark.session.caches import refresh
from lance_spark.spark import at_server_rules
from lance_spark.spark.refs import Collection, Handle, RefVerbs, tells
from lance_spark.storage.datasets import locate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lance_spark.cleanup.cleanup import CleanupPlan
    from lance_spark.disk_usage.report import StorageReport
    from lance_spark.engine.session_spark import RunOn
    from lance_spark.fsck.repair_rules import RepairResult
    from lance_spark.fsck.report import FsckReport
    from lance_spark.maintenance.spark import MaintenancePlan, Policy
    from lance_spark.optimize.compaction_rules import FlattenResult, OptimizeProgress, OptimizeResult


class UpkeepVerbs(RefVerbs):
    """Verbs of a table that cover all of its refs and files. They run on threads of this process if that is quick."""

    def storage(self, clones: str | Sequence[str] = (), run_on: RunOn = "auto") -> StorageReport:
        """The size of the whole dataset, main and all branches, and the cost of each branch, tag and clone.

        ``clones`` are URIs of shallow clones that are not recorded. ``run_on`` is as for :meth:`cleanup`. Raises
        CorruptData, NotFound and StorageFailure if the dataset cannot be read.
        """
        check_places(self.spark, *names_of(clones))
        report = storage(self.location, CleanupPolicy(clones=names_of(clones)), engine_of(self.spark, run_on))
        session = session_or_none(self.spark)
        return report if session is None else replace(report, frame=partial(data_frame, session))

    def fsck(
        self,
        deep: bool = False,
        clones: str | Sequence[str] = (),
        run_on: RunOn = "auto",
        *,
        progress: Progressing = None,
    ) -> FsckReport:
        """Check the whole dataset, main, all branches and tags, and the files that clones read here.

        Every manifest must be readable, and every file that a version names must exist with its size. With ``deep``,
        files are opened: footers, numbers of rows, deletion files, indexes, stable row ids. Damage is listed in
        ``findings``, not raised; :meth:`repair` mends what it can. ``progress`` is called with the progress. Raises
        NotFound, Conflict, and StorageFailure if the store does not answer.
        """
        check_places(self.spark, *names_of(clones))
        options, engine = FsckOptions(deep, names_of(clones)), engine_of(self.spark, run_on, progress)
        return self._with_frame(fsck(self.location, options, engine, time.time_ns()))

    def repair(
        self,
        on_main: bool = False,
        dry_run: bool = False,
        deep: bool = False,
        clones: str | Sequence[str] = (),
        run_on: RunOn = "auto",
        *,
        progress: Progressing = None,
    ) -> FsckReport:
        """Check as :meth:`fsck` does and repair what can be repaired; :meth:`undo_repair` reverts it.

        The report's ``repair`` lists the steps and what is beyond repair, ``repaired`` the outcomes. ``on_main`` lets a
        repair commit to branches themselves, including main. ``dry_run`` only plans. Raises like :meth:`fsck`, and
        Refused if evidence is missing; then nothing was changed.
        """
        check_places(self.spark, *names_of(clones))
        options, engine = FsckOptions(deep, names_of(clones)), engine_of(self.spark, run_on, progress)
        chosen = RepairOptions(on_main, dry_run)
        return self._with_frame(fsck_and_repair(self.location, options, chosen, engine, time.time_ns()))

    def _with_frame(self, report: FsckReport) -> FsckReport:
        session = session_or_none(self.spark)
        return report if session is None else replace(report, frame=partial(data_frame, session))

    def undo_repair(self, record: str = "last") -> RepairResult:
        """Revert a repair, by the id of its record.

        Restores files byte by byte; branches that got versions get one more, equal to the one before. Raises NotFound,
        and Refused if others changed the repaired parts since; then nothing is reverted.
        """
        return undo(self.location, record)

    def analyze(self, *columns: str, histograms: bool | None = None, run_on: RunOn = "auto") -> TableStatistics:
        """Measure columns of this version for Spark's cost-based optimizer, by default all of which it makes use.

        Only files that nobody has measured are read, and no version is committed: statistics are about files, so that
        each version and branch has those of its own. They are estimates, and only plans depend on them. Files without
        the facts of the table's layout are measured, too. With ``histograms``, by default if the session has
        ``spark.sql.statistics.histogram.enabled``, how numbers, dates and timestamps are distributed is measured, too;
        a column of which that is known keeps it. Raises InvalidOption for a column that the table does not have or
        that cannot be counted, such as an array.
        """
        if histograms is None:
            session = session_or_none(self.spark)
            histograms = session is not None and asks_for_histograms(session)
        return analyze(self.location, self._pin(), columns or None, engine_of(self.spark, run_on), histograms)

    def maintain(self, policy: Policy | None = None, run_on: RunOn = "auto") -> MaintenancePlan:
        """What upkeep of the whole dataset, main and all branches, has to do; ``apply()`` does it.

        Its steps are check, compaction, indexes, expiry of refs and cleanup. ``policy`` is a
        :class:`MaintenancePolicy`, or the contents of a policy file as a dictionary. Failures are listed in the report.
        Raises InvalidOption for an invalid policy, NotFound, StorageFailure.
        """
        return plan_of_table(self.spark, self.location, policy, run_on)


def data_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """The rows of a report."""
    return from_arrow(spark, rows, to_spark(rows.schema))


# --- Cleanup of a table: small ones on threads of this process, others on Spark


def plan(
    spark: SparkSession | None,
    location: DatasetLocation,
    policy: CleanupPolicy | None,
    run_on: RunOn,
    inventory: DataFrame | pa.Table | None,
) -> CleanupPlan:
    """A plan. "auto" follows the inventory, if there is one: a DataFrame may be too large for this process."""
    policy, spark = policy or CleanupPolicy(), session_or_none(spark)
    check_places(spark, *policy.clones, *policy.clones_from)
    if inventory is not None and run_on == "auto":
        run_on = "local" if isinstance(inventory, pa.Table) else "spark"
    if isinstance(inventory, pa.Table) and run_on == "spark" and spark is not None:
        inventory = spark.createDataFrame(inventory)
    elif inventory is not None and not isinstance(inventory, pa.Table):
        spark = inventory.sparkSession
        inventory = inventory.toArrow() if run_on == "local" else inventory
    engine = engine_of(spark, run_on)
    return _shown(spark, run_on, plan_cleanup(location, policy, engine, time.time_ns(), inventory))


def stored(spark: SparkSession | None, location: DatasetLocation, directory: str, run_on: RunOn) -> CleanupPlan:
    """A plan that was stored in a directory."""
    spark = session_or_none(spark)
    check_places(spark, directory)
    place = locate(directory, location.storage_options)
    return _shown(spark, run_on, open_plan(location, place, engine_of(spark, run_on), time.time_ns()))


def _shown(spark: SparkSession | None, run_on: RunOn, plan: CleanupPlan) -> CleanupPlan:
    """The plan with candidates of one type: whether they are a DataFrame must not depend on their number."""
    if run_on == "local" or spark is None or plan.runner.name == SPARK:
        return plan
    return replace(plan, shown=partial(data_frame, spark))


# --- Compacting a table, and making it self-contained


class OptimizeVerb(Handle):
    """Compaction of the handle's branch."""

    def compact_wal(self) -> WalResult:
        """Bring the rows that wait in pylance's write-ahead log (MemWAL) into the branch, by the table's primary key.

        Each SSTable of the log is one version, or two if it deletes rows; a killed call can be repeated. What a writer
        has not yet moved from its log to an SSTable stays, and the result says so: close the writer first. Raises
        Refused for a table without a primary key, NotFound, Conflict and StorageFailure.
        """
        result = compact_wal(self.location, self._moving_branch("compact the write-ahead log of"))
        refresh(session_or_none(self.spark), self.location)
        return result

    def optimize(  # noqa: PLR0913 - nine words of which most calls take one
        self,
        target_rows: int = 1_000_000,
        where: str | None = None,
        own_only: bool | None = None,
        sort_by: Sequence[str] | str | None = None,
        partial_progress: int = 10,
        dry_run: bool = False,
        *,
        zorder: Sequence[str] | str | None = None,
        progress: Callable[[OptimizeProgress], object] | None = None,
        run_on: RunOn = "auto",
    ) -> OptimizeResult:
        """Rewrite small fragments, and those with many deleted rows, into fragments of ``target_rows`` rows.

        No row changes, rows keep their order, and indexes follow. ``where`` (Lance SQL) selects only fragments with a
        matching row. A branch or shallow clone leaves inherited fragments alone; ``own_only=False`` copies them, and
        the indexes on them. There are at most ``partial_progress`` commits; each rewrites the indexes that cover its
        fragments. To finish a killed call, call it again. ``dry_run`` only plans: see ``plan`` of the result.
        ``progress`` is a function that is called with the progress after each commit. ``run_on`` is "auto", "spark" or
        "local", as for :meth:`cleanup`.

        ``sort_by`` and ``zorder`` reorder the rows, by columns or along a z-curve through several of them, in one
        commit. Fragments whose order is good are left alone. Stable row ids stay. ``uncovered`` of the result names
        indexes that do not follow; ``depth`` reports how much the order helps.

        Concurrent commits are kept. Fragments that they changed are planned again once, then named in the result's
        ``conflicts``. Raises InvalidOption, Refused at a tag or version, Conflict, StorageFailure.
        """
        options = OptimizeOptions(target_rows, where, own_only, partial_progress, sort_by, zorder, dry_run, progress)
        return optimize(self.location, self._moving_branch("optimize"), options, engine_of(self.spark, run_on))

    def flatten(self) -> FlattenResult:
        """Copy all files that the branch or clone reads elsewhere, so that its newest version is self-contained.

        No row changes; older versions still read the same files. Raises Refused at a tag or version, and for files that
        were named by hand, CorruptData, Conflict, StorageFailure.
        """
        return flatten(self.location, self._moving_branch("flatten"), engine_of(self.spark))


# --- ``table.indexes``


@tells(at_server_rules.INDEXES)
@dataclass(frozen=True, repr=False)
class Indexes(Handle, Shown, Collection[IndexInfo]):
    """The indexes of a dataset at a ref: ``"id_idx" in t.indexes``, ``t.indexes["id_idx"].columns``.

    A handle pinned to a tag or version can list them, but not change them.
    """

    _kind, _typed, _words, _asked = "index", "t.indexes", OF_INDEXES, ASKED_OF_INDEXES

    def list(self) -> list[IndexInfo]:
        """All indexes, by name, with the rows that they cover."""
        return indexes.list_indexes(self.location, self._pin())

    def stats(self, name: str) -> IndexStats:
        """One index, by its name or its column: settings and segments. Raises NotFound."""
        return indexes.index_stats(self.location, self._pin(), name)

    def create(
        self,
        column: str,
        kind: str = "btree",
        name: str | None = None,
        replace: bool = False,
        *,
        message: str | None = None,
        run_on: RunOn = "auto",
        **settings: Any,
    ) -> IndexResult:
        """Create an index on a column, built by the executors and committed as one version.

        ``kind`` is btree, bitmap, zonemap, bloomfilter, label_list, ngram, inverted (or fts), ivf_flat, ivf_sq, ivf_pq,
        ivf_rq, ivf_hnsw_flat, ivf_hnsw_sq or ivf_hnsw_pq; ``name`` is ``<column>_idx`` by default. On a branch, an
        inherited index stays as it is, and only the rows that it does not cover are indexed.

        ``settings`` depend on the kind. Vectors: metric (l2, cosine or dot), num_partitions, sample_rate (rows for each
        centroid), max_iters; num_sub_vectors and num_bits; m and ef_construction. Text: with_position, base_tokenizer,
        language, stem and the like. All: num_segments, the number of segments to build. ``message`` is for the log;
        ``run_on`` "auto" takes threads of this process if they are as fast as Spark; or "spark", "local".

        Raises NotFound for an unknown column, InvalidOption for an unknown kind or setting, SchemaMismatch for a column
        that the kind does not fit, AlreadyExists for a name that is taken (unless ``replace``), Refused for a handle at
        a tag or version, for no rows or too few to train on, and Conflict.
        """
        branch = self._moving_branch("create an index on")
        request = IndexRequest(column, kind, name, replace, settings, message)
        return indexes.create_index(self.location, branch, request, engine_of(self.spark, run_on))

    def optimize(
        self, name: str | None = None, message: str | None = None, run_on: RunOn = "auto"
    ) -> Sequence[IndexResult]:
        """Index the uncovered rows of one index (by name or column) or of all; ``run_on`` as for :meth:`create`.

        Small segments of the branch itself are rebuilt together with them; inherited segments are not touched. Raises
        NotFound, Refused for a handle at a tag or version, and Conflict.
        """
        branch = self._moving_branch("optimize indexes of")
        return indexes.optimize_indexes(self.location, branch, name, engine_of(self.spark, run_on), message)

    def drop(self, name: str, message: str | None = None) -> IndexResult:
        """Drop an index, by its name or column; other branches and older versions keep it. Raises NotFound, Refused."""
        return indexes.drop_index(self.location, self._moving_branch("drop an index of"), name, message)

    def _card(self) -> Card:
        return indexes.look_at_indexes(type(self).__name__, self.location, self.ref)
