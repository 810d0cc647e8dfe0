"""The steps of a maintenance on one table: planned, and carried out, by the verbs that they are named after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from lance_spark.actions.cleanup.cleanup_plan import CleanupPlan
from lance_spark.actions.cleanup.evidence import take_survey
from lance_spark.actions.cleanup.multi_table import FleetTable, look_at
from lance_spark.actions.cleanup.plan import plan_cleanup
from lance_spark.actions.expiry import carry_out, plan_expiry
from lance_spark.actions.fsck.fsck import FsckOptions
from lance_spark.actions.fsck.fsck import fsck as run_fsck
from lance_spark.actions.indexes.change import optimize_indexes
from lance_spark.actions.indexes.look import list_indexes
from lance_spark.actions.optimize import optimize
from lance_spark.actions.sync.write_guards import following
from lance_spark.actions.upkeep.job import Job, UpkeepTable
from lance_spark.checkup.codes import BASE_ABSENT, ERROR, UNREACHABLE
from lance_spark.checkup.finding import CheckFinding
from lance_spark.cleanup.candidates import DELETED
from lance_spark.cleanup.policy import CleanupPolicy
from lance_spark.cleanup.sweep import DELETE
from lance_spark.compaction.model import OptimizeOptions
from lance_spark.errors import Refused
from lance_spark.location import is_within
from lance_spark.refs.expiry_plan import (
    BRANCH,
    EXPIRED,
    STAYED,
    TAG,
    UNMERGED,
    WARN,
    WARNED,
    ExpiryEntry,
    ExpiryPlan,
)
from lance_spark.refs.expiry_plan import (
    DELETED as REF_DELETED,
)
from lance_spark.refs.names import branch_or_none, is_plan
from lance_spark.show.moments import moment_at
from lance_spark.show.words import counted, readable
from lance_spark.store import refs
from lance_spark.store.datasets import pin_latest
from lance_spark.upkeep import records
from lance_spark.upkeep.memory import check_due
from lance_spark.upkeep.policy import CLEANUP, COMPACTION, EXPIRY, FSCK, INDEXES, CompactionRule, TablePolicy
from lance_spark.upkeep.records import DONE, FAILED, NOTHING, STOPPED, KindSize, StepRecord

_EXAMPLES = 3
"""Findings that a report shows of a table."""
_ABOUT_TO_GO = (WARN, WARNED, EXPIRED, UNMERGED)
_ENDING = "its time is over soon, and a commit would prolong it"
_STOPPING = frozenset({ERROR, UNREACHABLE})
"""Severities of findings that keep everything that deletes from a table."""


@dataclass(frozen=True)
class Looked:
    """What a step saw of the table beside its own record."""

    step: StepRecord
    kinds: Mapping[str, KindSize] | None = None
    findings: Mapping[str, int] | None = None
    told: tuple[str, ...] = ()
    """What is worth a line of its own."""


class TableSteps:
    """The steps of one table."""

    def __init__(self, job: Job, table: UpkeepTable) -> None:
        self._job, self._table = job, table
        self._location, self._engine = table.location, job.engine
        self.policy: TablePolicy = job.options.policy.for_table(table.name)
        self.remembered = job.options.memory.of(table.location.uri)

    def branches(self) -> list[str | None]:
        """Main and the branches that may be written to: what follows a remote's branch is left to fetches.

        The plans of frozen sets are as large as they have to be: compaction would only store each a second time.
        """
        table = refs.read_refs(self._location)
        plans = {name for name in table.branches if is_plan(name, table.tags)}
        return [None, *sorted(table.branches.keys() - following(table).keys() - plans)]

    def plan(self, step: str, branch: str | None) -> Looked:
        """What a step would do. Raises what the verb raises."""
        plans: dict[str, Callable[[str | None], Looked]] = {
            FSCK: self._plan_fsck,
            COMPACTION: self._plan_compaction,
            INDEXES: self._plan_indexes,
            EXPIRY: self._plan_expiry,
            CLEANUP: self._plan_cleanup,
        }
        return plans[step](branch)

    def carry_out(self, planned: StepRecord) -> Looked:
        """Do it. Raises what the verb raises; whatever is found is a record."""
        verbs: dict[str, Callable[[StepRecord], Looked]] = {
            FSCK: self._do_fsck,
            COMPACTION: self._do_compaction,
            INDEXES: self._do_indexes,
            EXPIRY: self._do_expiry,
            CLEANUP: self._do_cleanup,
        }
        return verbs[planned.step](planned)

    # --- fsck

    def _plan_fsck(self, _: str | None) -> Looked:
        return Looked(records.fsck(check_due(self.remembered, self.policy.fsck, self._job.now_ns)))

    def _do_fsck(self, planned: StepRecord) -> Looked:
        cleanup = self._cleanup_policy()
        options = FsckOptions(self.policy.fsck.deep, cleanup.clones, cleanup.clones_from)
        report = run_fsck(self._location, options, self._engine, self._job.now_ns)
        findings = [finding for finding in report.findings if not _is_known(finding, cleanup)]
        stopping = [finding for finding in findings if finding.severity in _STOPPING]
        state = STOPPED if stopping else DONE
        why = f"{stopping[0].path}: {stopping[0].says}" if stopping else report.summary()
        if len(stopping) > 1:
            why += f" And {len(stopping) - 1:,} more."
        told = tuple(f"{each.severity}: {each.path}: {each.says}" for each in findings[:_EXAMPLES])
        counts = Counter(finding.severity for finding in findings)
        return Looked(replace(planned, state=state, why=why), findings=dict(counts), told=told)

    # --- compaction

    def _plan_compaction(self, branch: str | None) -> Looked:
        if branch in self._ending:
            return Looked(StepRecord(COMPACTION, branch, NOTHING, _ENDING))
        rule = self.policy.for_branch(branch).compaction
        plan = optimize(self._location, branch, _options(rule, dry_run=True), self._engine).plan
        told = records.compaction(branch, plan.sources, plan.parts or len(plan.tasks), plan.bytes, rule.small_fragments)
        return Looked(told)

    def _do_compaction(self, planned: StepRecord) -> Looked:
        branch = branch_or_none(str(planned.branch))
        rule = self.policy.for_branch(branch).compaction
        result = optimize(self._location, branch, _options(rule, dry_run=False), self._engine)
        made = f"{counted(result.fragments_removed, 'fragment')} became {result.fragments_added:,}"
        if result.conflicts:
            made += f"; {counted(len(result.conflicts), 'task')} overtaken by other commits, for the next time"
        return Looked(replace(planned, state=DONE, why=made, fragments=result.fragments_removed, written=result.bytes))

    # --- indexes

    def _plan_indexes(self, branch: str | None) -> Looked:
        if branch in self._ending:
            return Looked(StepRecord(INDEXES, branch, NOTHING, _ENDING))
        rule = self.policy.for_branch(branch).indexes
        infos = list_indexes(self._location, pin_latest(self._location, branch))
        rows = max((info.rows_covered + info.rows_uncovered for info in infos), default=0)
        stale = {info.name: info.rows_uncovered for info in infos}
        return Looked(records.indexes(branch, stale, rows, rule.stale_rows, rule.stale_percent))

    def _do_indexes(self, planned: StepRecord) -> Looked:
        branch = branch_or_none(str(planned.branch))
        rule = self.policy.for_branch(branch).indexes
        infos = list_indexes(self._location, pin_latest(self._location, branch))
        results = []
        for info in infos:
            rows = info.rows_covered + info.rows_uncovered
            if info.rows_uncovered >= rule.stale_rows and 100 * info.rows_uncovered >= rule.stale_percent * rows:
                results += optimize_indexes(self._location, branch, info.name, self._engine)
        why = "; ".join(
            f"{result.name}: {counted(result.rows, 'row')} in {counted(result.segments, 'segment')}"
            if result.changed
            else f"{result.name}: {result.left or 'nothing to index'}"
            for result in results
        )
        changed = any(result.changed for result in results)
        written = sum(result.bytes for result in results)
        rows = sum(result.rows for result in results)
        return Looked(replace(planned, state=DONE if changed else NOTHING, why=why, rows=rows, written=written))

    # --- expiry

    @cached_property
    def _expiry(self) -> ExpiryPlan:
        return plan_expiry(self._location, self._now, self.policy.expiry)

    @cached_property
    def _ending(self) -> frozenset[str]:
        """Branches that are about to go. A commit, also one that changes no row, would let them live on."""
        return frozenset(entry.record.name for entry in self._expiry.of(*_ABOUT_TO_GO) if entry.record.kind == BRANCH)

    @property
    def _now(self) -> datetime:
        return moment_at(self._job.now_ns)

    def _plan_expiry(self, _: str | None) -> Looked:
        plan = self._expiry
        told = tuple(
            f"{entry.record.kind} {entry.record.name} is over and stays: {entry.why}" for entry in plan.of(UNMERGED)
        )
        return Looked(records.expiry(_names(plan.expired), _names(plan.to_warn)), told=told)

    def _do_expiry(self, planned: StepRecord) -> Looked:
        plan = plan_expiry(self._location, self._now, self.policy.expiry)
        read = self._read_by_clones() if plan.expired else frozenset()
        held = [entry for entry in plan.expired if entry.record.kind != TAG and entry.record.name in read]
        plan = replace(plan, entries=tuple(entry for entry in plan.entries if entry not in held))
        report = carry_out(self._location, plan, self._now)
        told = [f"{entry.record.kind} {entry.record.name} is over and stays: a clone reads its files" for entry in held]
        told += [f"{each.kind} {each.name} stays: {each.why}" for each in report.of(STAYED)]
        told += [f"branch {entry.record.name} is over and stays: {entry.why}" for entry in plan.of(UNMERGED)]
        deleted = report.of(REF_DELETED)
        return Looked(replace(planned, state=DONE, why=report.summary, refs=len(deleted)), told=tuple(told))

    def _read_by_clones(self) -> frozenset[str]:
        """Branches whose files a clone reads, whether it is recorded, named by the policy, or a table of the lake."""
        cleanup = self._cleanup_policy()
        survey = take_survey(self._location, cleanup.clones, cleanup.clones_from)
        clones = [FleetTable(place.uri, place) for place in survey.repositories[1:]]
        bases = set(self._job.bases)
        for row in (row for batch in look_at(clones) for row in batch.to_pylist()):
            if row["error"]:
                raise Refused(f"A clone cannot be looked at: {row['error']}", hint="Branches may be what it reads.")
            bases.add(row["base"])
        names = [chain.branch for _, chain in survey.owned() if chain.branch is not None]
        return frozenset(
            name for name in names if any(base and is_within(base, self._location.branch_uri(name)) for base in bases)
        )

    # --- cleanup

    def _plan_cleanup(self, _: str | None) -> Looked:
        if not self._job.options.estimates:
            return Looked(StepRecord(CLEANUP, why="what no version or ref needs"))
        plan = self._cleanup()
        try:
            return Looked(_planned(plan), kinds=_kinds(plan))
        finally:
            plan.runner.release()

    def _do_cleanup(self, planned: StepRecord) -> Looked:
        plan = self._cleanup()
        try:
            would = _planned(plan)
            if would.state == NOTHING:
                return Looked(would, kinds=_kinds(plan))
            options = self._job.options
            share = options.max_deletes_per_second
            report = plan.apply(None if share is None else share / options.side_by_side)
        finally:
            plan.runner.release()
        (files, freed), (failed, _) = report.count(DELETED), report.count(FAILED)
        why = f"{counted(files, 'file')}, {readable(freed)} freed"
        error = f"{counted(failed, 'file')} could not be deleted; the next run finishes" if failed else ""
        step = replace(planned, state=FAILED if failed else DONE, why=why, error=error, files=files, freed=freed)
        return Looked(step, kinds=_kinds(plan, _freed(report.outcomes)))

    def _cleanup(self) -> CleanupPlan:
        return plan_cleanup(self._location, self._cleanup_policy(), self._engine, self._job.now_ns)

    def _cleanup_policy(self) -> CleanupPolicy:
        """That of the table; other tables that read its files are clones."""
        policy = self.policy.kept_for_undo
        return replace(policy, clones=(*policy.clones, *self._job.clones.get(self._table.name, ())))


def _names(entries: Sequence[ExpiryEntry]) -> list[str]:
    return [f"{entry.record.kind} {entry.record.name}" for entry in entries]


def _options(rule: CompactionRule, dry_run: bool) -> OptimizeOptions:
    return OptimizeOptions(rule.target_rows, own_only=rule.own_only, dry_run=dry_run, order=rule.order)


def _is_known(finding: CheckFinding, policy: CleanupPolicy) -> bool:
    """Whether the policy says that this base path needs no looking after."""
    return finding.code == BASE_ABSENT and finding.path.rstrip("/") in {base.rstrip("/") for base in policy.known_bases}


def _planned(plan: CleanupPlan) -> StepRecord:
    report = plan.report()
    files, freed = report.to_delete
    return records.cleanup(sum(counts.get("removed", 0) for counts in report.versions.values()), files, freed)


def _kinds(plan: CleanupPlan, freed: Mapping[str, int] | None = None) -> dict[str, KindSize]:
    """Bytes by kind of file, of all files there are, and of those that go; or that went, if they are given."""
    owned: Counter[str] = Counter()
    goes: Counter[str] = Counter()
    for row in plan.report().planned:
        owned[row["kind"]] += row["bytes"]
        if row["action"] == DELETE:
            goes[row["kind"]] += row["bytes"]
    told = goes if freed is None else freed
    return {kind: KindSize(size, told.get(kind, 0)) for kind, size in sorted(owned.items())}


def _freed(outcomes: Sequence[Mapping[str, Any]]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for row in outcomes:
        if row["outcome"] == DELETED:
            sums[row["kind"]] += row["bytes"]
    return sums
