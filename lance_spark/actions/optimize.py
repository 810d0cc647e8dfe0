"""Compaction: many small fragments become few large ones, on any branch. No row changes, and their order stays.

Tasks are planned here, run on the engine, and are committed group by group: who is killed has lost one group of work,
and the same call goes on with what is left. New files that are never committed are for the cleanup.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from lance_spark.actions.attempts import attempts, overtaken
from lance_spark.actions.clustering import cluster
from lance_spark.actions.denied import unchanged
from lance_spark.actions.optimize_plan import OPERATION, plan_optimize, work_of
from lance_spark.actions.rehoming import rehome
from lance_spark.actions.sync.write_guards import check_mergeable
from lance_spark.compaction.choosing import landed, same_sources
from lance_spark.compaction.model import (
    OptimizeOptions,
    OptimizePlan,
    OptimizeProgress,
    OptimizeResult,
    RewriteTask,
    RewrittenTask,
)
from lance_spark.errors import Conflict
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Fragment
from lance_spark.refs.model import PinnedVersion
from lance_spark.runner.interface import Engine
from lance_spark.show.words import counted
from lance_spark.store import version_reader
from lance_spark.store.compaction import REWRITTEN, RewriteItem, commit_rewrites, rewrite, rewritten_task
from lance_spark.store.datasets import pin_latest

_LOG = logging.getLogger("lance_spark.optimize")


def optimize(
    location: DatasetLocation,
    branch: str | None,
    options: OptimizeOptions,
    engine: Engine,
    only: frozenset[int] | None = None,
) -> OptimizeResult:
    """Compact a branch (None for main), as ``LanceTable.optimize`` says; with ``only``, nothing but these fragments.

    Commits made meanwhile are kept. Where they changed fragments that are being rewritten, these are planned again
    once, and then named in the result. Raises Refused, NotFound, InvalidOption for a bad condition, and Conflict where
    indexes cannot be re-homed because others commit again and again.
    """
    check_mergeable(location, branch)
    if options.order is not None:
        return cluster(location, branch, options, options.order, engine)
    plan, rehomed = _ready_plan(location, branch, options, engine, only)
    work = _Rewriting(location, engine, options, OptimizeResult(plan.pin, plan, options.dry_run, rehomed=rehomed))
    if options.dry_run:
        return work.result
    overtaken_tasks = work.carry_out(plan)
    if overtaken_tasks:
        only = frozenset(key for task in overtaken_tasks for key in task.ids)
        again, rehomed = _ready_plan(location, branch, options, engine, only)
        work.result = replace(work.result, rehomed=(*work.result.rehomed, *rehomed))
        left = work.carry_out(again)
        work.result = replace(work.result, conflicts=tuple(task.ids for task in left))
    return work.result


def _ready_plan(
    location: DatasetLocation,
    branch: str | None,
    options: OptimizeOptions,
    engine: Engine,
    only: frozenset[int] | None = None,
) -> tuple[OptimizePlan, tuple[str, ...]]:
    """A plan that can be carried out, and the names of the indexes that had to be re-homed for it."""
    done: set[str] = set()
    for _ in attempts():
        plan = plan_optimize(location, branch, options, engine, only)
        if options.dry_run or not plan.rehome:
            return plan, tuple(sorted(done))
        try:
            rehome(location, plan, engine)
        except Conflict:
            continue
        done.update(plan.rehome)
    raise overtaken(branch)


class _Rewriting:
    """One call: what it did so far."""

    def __init__(
        self, location: DatasetLocation, engine: Engine, options: OptimizeOptions, result: OptimizeResult
    ) -> None:
        self._location = location
        self._options = options
        self._engine = engine
        self.result = result

    def carry_out(self, plan: OptimizePlan) -> list[RewriteTask]:
        """Rewrite and commit, group by group; returns the tasks that other commits overtook."""
        left: list[RewriteTask] = []
        for number, group in enumerate(plan.groups, 1):
            _, now = self._look(plan)
            # What was overtaken before it began need not be written.
            standing = [task for task in group if same_sources(task, now)]
            left += [task for task in group if not same_sources(task, now)]
            if standing:
                is_first = not self.result.commits and not self.result.rehomed
                with unchanged() if is_first else nullcontext():
                    rewritten = self._rewrite(plan, standing)
                left += self._commit(plan, rewritten)
            progress = OptimizeProgress(
                f"commit {number} of {len(plan.groups)}",
                self.result.fragments_removed,
                self.result.plan.sources,
                self.result.rows,
                self.result.bytes,
            )
            _LOG.info("%s: %s", plan.pin, progress)
            self._options.tell(progress)
        return left

    def _look(self, plan: OptimizePlan) -> tuple[PinnedVersion, dict[int, Fragment]]:
        """The newest version, and its fragments by id."""
        head = pin_latest(self._location, plan.pin.branch)
        contents = version_reader.read_contents(self._location, head)
        return head, {fragment.id: fragment for fragment in contents.fragments()}

    def _rewrite(self, plan: OptimizePlan, tasks: Sequence[RewriteTask]) -> list[RewrittenTask]:
        items = [
            RewriteItem(self._location, plan.pin, number, task.job, task.rows if plan.counts_rows else None)
            for number, task in enumerate(tasks)
        ]
        work = work_of(tasks)
        runner = self._engine.for_work(OPERATION, work)
        stage = f"rewrite {counted(work.copies, 'fragment')}"
        frame = runner.flat_map(stage, items, rewrite, REWRITTEN)
        rows = runner.collect(stage, frame).to_pylist()
        return [rewritten_task(tasks[row["task"]], row["result"]) for row in rows]

    def _commit(self, plan: OptimizePlan, rewritten: Sequence[RewrittenTask]) -> list[RewriteTask]:
        """Commit what other commits leave of a group; returns the tasks that they do not."""
        left: list[RewriteTask] = []
        pending = list(rewritten)
        for last in (False, False, True):
            head, now = self._look(plan)
            # An answer may have been lost: then the commit is there, and looks like a conflict with itself.
            paths = {file.path for fragment in now.values() for file in fragment.files}
            self._note(head, [entry for entry in pending if landed(entry, paths)])
            pending = [entry for entry in pending if not landed(entry, paths)]
            left += [entry.task for entry in pending if not same_sources(entry.task, now)]
            pending = [entry for entry in pending if same_sources(entry.task, now)]
            if not pending or last:
                break
            try:
                made = commit_rewrites(self._location, plan.pin, pending)
            except Conflict as conflict:
                _LOG.info("%s", conflict.message)
                continue
            self._note(made, pending)
            return left
        return left + [entry.task for entry in pending]

    def _note(self, made: PinnedVersion, committed: Sequence[RewrittenTask]) -> None:
        if not committed:
            return
        before = self.result
        self.result = replace(
            before,
            version=made,
            fragments_removed=before.fragments_removed + sum(len(entry.task.sources) for entry in committed),
            fragments_added=before.fragments_added + sum(entry.fragments for entry in committed),
            rows=before.rows + sum(entry.task.rows for entry in committed),
            bytes=before.bytes + sum(entry.bytes for entry in committed),
            commits=before.commits + 1,
        )
