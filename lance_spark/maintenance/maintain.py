"""Maintains a dataset, or all tables of a catalog: check, compaction, indexes, expiry of refs, cleanup.

In: a policy, what earlier runs remember, and limits of time. Out: a report with a record for each table and step, and
the memory for the next run. Each table is planned first, then its steps run, the most valuable ones first if time is
short.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from lance_spark.catalog.name_rules import Catalog
from lance_spark.cleanup.cleanup import CleanupPlan, plan_cleanup
from lance_spark.cleanup.lake import check_of_ours, clean_itself, find_tables
from lance_spark.cleanup.many_tables import FleetOptions, FleetTable, look_at, looks_at
from lance_spark.cleanup.report import clones_among, held_back, unreadable
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.cleanup.sweep_rules import DELETE, DELETED
from lance_spark.core.location import DatasetLocation, is_within
from lance_spark.core.patterns import Unused, is_pattern
from lance_spark.core.records.finding_codes import BASE_ABSENT, ERROR, UNREACHABLE
from lance_spark.core.ref_names import branch_or_none, is_plan
from lance_spark.core.refs import MAIN, RefTable
from lance_spark.core.texts import counted, few, moment_at, readable
from lance_spark.engine.local import Engine, told
from lance_spark.errors import CorruptData, InvalidOption, LanceSparkError, NotFound, Refused
from lance_spark.fsck.finding_rules import CheckFinding
from lance_spark.fsck.fsck import fsck as run_fsck
from lance_spark.fsck.option_rules import FsckOptions
from lance_spark.hints import said
from lance_spark.indexes.index_rules import IndexResult
from lance_spark.indexes.indexes import list_indexes, optimize_indexes
from lance_spark.maintenance import expiry_rules, policy_rules
from lance_spark.maintenance.expiry import carry_out, plan_expiry
from lance_spark.maintenance.expiry_rules import ExpiryEntry, ExpiryPlan
from lance_spark.maintenance.lake import Windows, end_publish, expire_branches, remove_leftovers
from lance_spark.maintenance.policy_rules import KindSize, MaintenancePolicy, Memory, StepRecord, TableRecord
from lance_spark.maintenance.report import MaintenanceReport
from lance_spark.optimize.analyzing import renew
from lance_spark.optimize.optimize import optimize
from lance_spark.storage import refs, versions
from lance_spark.storage.datasets import pin_latest
from lance_spark.storage.followers import following
from lance_spark.storage.small_files import read_report, write_report
from lance_spark.survey.survey import take_survey


def maintain(catalog: Catalog, options: UpkeepOptions, engine: Engine, now_ns: int) -> MaintenanceReport:
    """Maintain the content of a directory, one dataset or the tables of a catalog; see the functions below."""
    if catalog.service is None and versions.version_numbers(catalog.root, None):
        return maintain_dataset(catalog.root, options, engine, now_ns)
    return maintain_catalog(catalog, options, engine, now_ns)


def maintain_dataset(
    location: DatasetLocation, options: UpkeepOptions, engine: Engine, now_ns: int
) -> MaintenanceReport:
    """Maintain one dataset, which policies and reports identify by the name of its directory.

    ``now_ns`` is the time that all ages are measured from, in nanoseconds since the epoch. Errors are in the report.
    Raises NotFound if there is no dataset or it is not selected, StorageFailure if the store does not answer.
    """
    began = time.monotonic()
    if not versions.version_numbers(location, None):
        raise NotFound(f"There is no dataset in {location.uri}.", hint="Check the path.")
    name = location.uri.rpartition("/")[2].removesuffix(".lance")
    options.selection.check([name])
    notes = policy_rules.check_only_table(options.policy, name)
    job = _telling(Job(options, engine, now_ns), location.uri, 1, began)
    records = maintain_tables(job, [FleetTable(name, location)])
    notes = (*notes, *_unused_branches(options, records))
    return replace(_report(location.uri, options, records, now_ns, began), notes=notes)


def maintain_catalog(catalog: Catalog, options: UpkeepOptions, engine: Engine, now_ns: int) -> MaintenanceReport:
    """Maintain all tables of a catalog side by side, then the catalog's own table and stray directories.

    First of all, a publish whose process died is ended, and branches of the lake that expired are deleted.

    One table never stops another, with one exception: nothing is deleted while a table cannot be examined, as it may be
    a clone that reads any other one. Raises only if the catalog itself cannot be read or is empty.
    """
    began, now = time.monotonic(), moment_at(now_ns)
    expiry = policy_rules.TablePolicy((options.policy.everywhere,), options.policy.cleanup).expiry
    windows = Windows.of(expiry, options.policy.cleanup)
    check_of_ours(catalog, "maintain")
    itself = end_publish(catalog, engine, options.execute)  # first, as it may create tables that the policy names
    lake = find_tables(catalog)
    names = [*(table.name for table in lake.tables), *lake.lost]
    unmatched = [*options.selection.check(names), *policy_rules.check_tables(options.policy, names)]
    leftovers = remove_leftovers(catalog, now, options.execute, windows)
    if leftovers:
        itself, lake = [*itself, *leftovers], find_tables(catalog)
    wanted = [table for table in lake.tables if options.selection.has(table.name)]
    job = _job(options, engine, now_ns, (*lake.tables, *lake.readers))
    job = _telling(job, catalog.uri, len(wanted), began)
    steps = options.selection.steps - options.policy.everywhere.skip
    notes = [*unmatched, *lake.notes]
    if policy_rules.EXPIRY in steps and len(wanted) == len(lake.tables) and not job.held_back:
        expired, stay = expire_branches(catalog, now, expiry, options.execute)
        itself, notes = [*itself, *expired], [*notes, *stay]
    records = maintain_tables(job, wanted)
    records += [
        TableRecord(name, "", error="its row leads to no directory below the catalog", exit_code=CorruptData.exit_code)
        for name in lake.lost
        if options.selection.has(name)
    ]
    report = replace(_report(catalog.uri, options, records, now_ns, began), catalog=tuple(itself))
    notes += _unused_branches(options, records) if len(wanted) == len(lake.tables) else []
    whole = len(wanted) == len(lake.tables) and policy_rules.CLEANUP in steps
    if job.held_back:
        return replace(report, notes=(*notes, f"nothing was deleted: every table is {job.held_back}"))
    if not whole or (options.time_left is not None and not options.time_left()):
        return replace(report, notes=tuple(notes))
    fleet = FleetOptions(options.policy.cleanup, options.execute, max_deletes_per_second=options.max_deletes_per_second)
    upkeep, kept = clean_itself(catalog, fleet, engine, now)
    seconds = round(time.monotonic() - began, 3)
    return replace(report, catalog=(*itself, *upkeep), notes=(*notes, *kept), seconds=seconds)


def _unused_branches(options: UpkeepOptions, records: Sequence[TableRecord]) -> list[str]:
    """Notes on rules for branches that apply to none; none while the branches of a table are unknown."""
    if any(record.error or record.left for record in records):
        return []
    return policy_rules.unused_branches(options.policy, {record.name: record.branches for record in records})


def _job(options: UpkeepOptions, engine: Engine, now_ns: int, tables: tuple[FleetTable, ...]) -> Job:
    """The job, with what tables need from one another."""
    looks = looks_at(tables, engine)
    bases = frozenset(row["base"] for row in looks if row["base"])
    blind = unreadable(looks)
    if blind:
        why, code = held_back(blind)
        return Job(options, engine, now_ns, bases=bases, held_back=why, held_code=code)
    clones = clones_among(looks, {table.name: table.location.uri for table in tables})
    return Job(options, engine, now_ns, clones, bases)


def _telling(job: Job, root: str, tables: int, began: float) -> Job:
    """The job, which reports its progress while it runs if a callback was given."""
    options = job.options
    if options.progress is None:
        return job
    running = RunningReport(
        lambda records: replace(_report(root, options, records, job.now_ns, began), expected=tables), options.progress
    )
    return replace(job, told=running.add)


def _report(
    root: str, options: UpkeepOptions, records: Sequence[TableRecord], now_ns: int, began: float
) -> MaintenanceReport:
    return MaintenanceReport(
        root=root,
        executed=options.execute,
        tables=tuple(records),
        started=moment_at(now_ns),
        seconds=round(time.monotonic() - began, 3),
        memory=policy_rules.remember(options.memory, records, now_ns) if options.execute else options.memory,
    )


# --- Options and shared state of a maintenance

_FEW = 5
"""Number of tables that an error names."""


@dataclass(frozen=True)
class Selection:
    """Which steps and tables to maintain, in addition to the policy."""

    only: frozenset[str] = frozenset()
    """Steps; empty for all."""
    skip: frozenset[str] = frozenset()
    tables: tuple[str, ...] = ()
    """Names or patterns of tables; empty for all."""
    not_tables: tuple[str, ...] = ()
    """Names or patterns of tables to leave out."""

    def __post_init__(self) -> None:
        for step in sorted(self.only | self.skip):
            if step not in policy_rules.STEPS:
                raise InvalidOption(f"There is no step '{step}'.", hint=f"There are {', '.join(policy_rules.STEPS)}.")

    @property
    def steps(self) -> frozenset[str]:
        return (self.only or frozenset(policy_rules.STEPS)) - self.skip

    def check(self, tables: Sequence[str]) -> list[str]:
        """Notes on patterns that match no table.

        Raises NotFound if there are tables but none is selected, and for a name that no table has: misspelled, it would
        make a job do nothing, or take a table that was to be left out.
        """
        notes = []
        for flag, texts in (("--table", self.tables), ("--skip-table", self.not_tables)):
            for text in texts:
                if any(fnmatchcase(table, text) for table in tables):
                    continue
                if not is_pattern(text):
                    hint = Unused(text).way_out(tables)
                    raise NotFound(f"{flag} {text} matches no table. Nothing was done.", hint=hint)
                notes.append(f"{flag} {text} matches no table")
        if tables and not any(map(self.has, tables)):
            raise NotFound(
                f"The selection matches none of {counted(len(tables), 'table')}.",
                hint=f"There are {few(sorted(tables), _FEW)}.",
            )
        return notes

    def has(self, table: str) -> bool:
        if any(fnmatchcase(table, pattern) for pattern in self.not_tables):
            return False
        return not self.tables or any(fnmatchcase(table, pattern) for pattern in self.tables)


@dataclass(frozen=True)
class UpkeepOptions:
    policy: MaintenancePolicy = field(default_factory=MaintenancePolicy)
    execute: bool = False
    selection: Selection = field(default_factory=Selection)
    memory: Memory = field(default_factory=Memory)
    side_by_side: int = 4
    """Number of tables that are processed at a time."""
    time_left: Callable[[], bool] | None = None
    """Whether another step may begin; None for no time limit. With a limit, the most valuable table comes first."""
    time_to_plan: Callable[[], bool] | None = None
    """Whether another table may be planned; None for no time limit. This time must end sooner: otherwise, a lake that
    takes longer to examine than there is time would never be maintained."""
    max_deletes_per_second: float | None = None
    """For all tables together."""
    say: Callable[[str], object] = str
    """Receives a line about each table."""
    ended: Callable[[TableRecord], object] = bool
    """Receives the record of each table as soon as it has ended, from several threads; not in a dry run."""
    progress: Callable[[MaintenanceReport], object] | None = None
    """Receives the report so far, marked as unfinished, once the tables are known and then after each table."""

    def __post_init__(self) -> None:
        if self.side_by_side < 1:
            raise InvalidOption("At least one table must be processed at a time.")

    @property
    def estimates(self) -> bool:
        """Whether the cleanup is planned before it runs, which lists all files once more."""
        return not self.execute or self.time_left is not None


@dataclass(frozen=True)
class Job:
    options: UpkeepOptions
    engine: Engine
    now_ns: int
    """When it began, in nanoseconds since the epoch; ages are measured from then."""
    clones: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By table, URIs of other tables that read its files."""
    bases: frozenset[str] = frozenset()
    """Places outside their own that any of the tables read files from."""
    held_back: str = ""
    """Why nothing may be deleted from any table."""
    held_code: int = 0
    """The exit code of the error behind that."""
    told: Callable[[TableRecord], object] = bool
    """Receives the last record of each table, from several threads; also in a dry run."""


# --- Many tables side by side

_LOG = logging.getLogger("lance_spark.maintain")


def maintain_tables(job: Job, tables: Sequence[FleetTable]) -> list[TableRecord]:
    """Plan the tables, and carry the plans out if requested; returns a record for each, by name."""
    if not job.options.execute or job.options.time_left is None:
        done = _each(job, tables, lambda table: _ended_table(job, table, plan_table(job, table)))
    else:
        by_name = {table.name: table for table in tables}
        order = policy_rules.left_first({table.name: table.location.uri for table in tables}, job.options.memory)
        plans = _each(job, [by_name[name] for name in order], lambda table: _in_time(job, table))
        plans = policy_rules.most_valuable_first(plans)
        done = _each(job, plans, lambda plan: _ended_table(job, by_name[plan.name], plan))
    return sorted(done, key=lambda record: record.name)


def _ended_table(job: Job, table: FleetTable, record: TableRecord) -> TableRecord:
    if job.options.execute:
        record = carry_out_table(job, table, record)
        job.options.ended(record)
    job.told(record)
    return record


def _in_time(job: Job, table: FleetTable) -> TableRecord:
    enough = job.options.time_to_plan
    return plan_table(job, table) if enough is None or enough() else policy_rules.not_looked_at(_record(job, table))


def _record(job: Job, table: FleetTable) -> TableRecord:
    uri = table.location.uri
    return TableRecord(table.name, uri, left_before=job.options.memory.of(uri).left)


def _each(job: Job, items: Iterable[object], function: Callable[..., TableRecord]) -> list[TableRecord]:
    """The function's records, a few at a time, started in the order of the items."""
    with ThreadPoolExecutor(job.options.side_by_side, "maintain") as pool:
        return list(pool.map(function, items))


def plan_table(job: Job, table: FleetTable) -> TableRecord:
    """Plan the steps of a table. Errors are in the record."""
    record = _record(job, table)
    try:
        if not versions.version_numbers(table.location, None):
            return record  # declared but not written yet, or dropped meanwhile
        steps = TableSteps(job, table)
        known = refs.read_refs(table.location)
        branches = steps.branches(known)
        record = replace(record, branches=frozenset({MAIN, *known.branches}))
    except LanceSparkError as problem:
        return replace(record, error=told(problem), exit_code=problem.exit_code)
    wanted = job.options.selection.steps - steps.policy.skip
    for step in policy_rules.STEPS:
        for branch in branches if step in policy_rules.OF_BRANCHES else [None]:
            if step in wanted and step not in steps.policy.for_branch(branch).skip:
                record = _with(record, _planned(steps, step, branch, record.steps, job))
    return record


def _planned(steps: TableSteps, step: str, branch: str | None, before: Sequence[StepRecord], job: Job) -> Looked:
    with _failing(StepRecord(step, (branch or MAIN) if step in policy_rules.OF_BRANCHES else None)) as ended:
        looked = steps.plan(step, branch)
        if looked.step.state == policy_rules.WOULD and not job.options.execute:
            reason = policy_rules.obstacle(looked.step, before, steps.remembered, job.held_back)
            # A check that is due comes first, and may find everything sound by now.
            if reason and not any(
                each.state == policy_rules.WOULD and each.step == policy_rules.FSCK for each in before
            ):
                looked = replace(
                    looked, step=policy_rules.stopped(looked.step, reason, _code_behind(reason, before, job))
                )
        ended.append(looked)
    return ended[-1]


def _code_behind(reason: str, before: Sequence[StepRecord], job: Job) -> int:
    """The exit code of what stops a step: of another table, or of the check of this one."""
    if reason == job.held_back:
        return job.held_code
    return next((each.exit_code for each in before if each.step == policy_rules.FSCK and each.bad), 0)


def carry_out_table(job: Job, table: FleetTable, plan: TableRecord) -> TableRecord:
    """Carry out the plan of a table, step by step. Errors are in the record."""
    if not any(step.state in (policy_rules.WOULD, policy_rules.NOTHING) for step in plan.steps):
        return plan
    steps = TableSteps(job, table)
    record = replace(plan, steps=(), kinds=policy_rules.nothing_freed(plan.kinds), told=())
    for planned in policy_rules.in_safe_order(plan.steps):
        record = _with(record, _ended(job, steps, planned, record.steps))
    job.options.say(f"{table.name}: {record.state}")
    return record


def _ended(job: Job, steps: TableSteps, planned: StepRecord, before: Sequence[StepRecord]) -> Looked:
    if planned.state == policy_rules.NOTHING and not policy_rules.worth_again(planned, before):
        return Looked(planned)
    if planned.state not in (policy_rules.WOULD, policy_rules.NOTHING):
        return Looked(planned)
    reason = policy_rules.obstacle(planned, before, steps.remembered, job.held_back)
    if reason:
        return Looked(policy_rules.stopped(planned, reason, _code_behind(reason, before, job)))
    time_left = job.options.time_left
    if time_left is not None and not time_left():
        return Looked(planned.undone(policy_rules.LEFT))
    began = time.monotonic()
    with _failing(planned) as ended:
        ended.append(steps.carry_out(planned))
    looked = ended[-1]
    return replace(looked, step=replace(looked.step, seconds=round(time.monotonic() - began, 3)))


@contextmanager
def _failing(step: StepRecord) -> Iterator[list[Looked]]:
    """Turns an exception from a step into a record."""
    ended: list[Looked] = []
    try:
        yield ended
    except LanceSparkError as problem:
        ended.append(Looked(step.failed(problem.message, said(problem.hint or "", "shell"), problem.exit_code)))
    except Exception as problem:  # noqa: BLE001 - one table's failure is reported and must not stop the others
        _LOG.exception("%s failed", step.name)
        error = f"{type(problem).__name__}: {problem}"
        ended.append(Looked(step.failed(error, "", LanceSparkError.exit_code)))


def _with(record: TableRecord, looked: Looked) -> TableRecord:
    return replace(
        record,
        steps=(*record.steps, looked.step),
        kinds=record.kinds if looked.kinds is None else looked.kinds,
        findings=record.findings if looked.findings is None else looked.findings,
        told=(*record.told, *looked.told),
    )


# --- The steps of a maintenance on one table

_EXAMPLES = 3
"""Number of findings that a report shows for a table."""
_ABOUT_TO_GO = (expiry_rules.WARN, expiry_rules.WARNED, expiry_rules.EXPIRED, expiry_rules.UNMERGED)
_ENDING = "it expires soon, and a commit would prolong its life"
_DELETED = "the branch has been deleted"
_STOPPING = frozenset({ERROR, UNREACHABLE})
"""Severities of findings that block every deletion in a table."""


@dataclass(frozen=True)
class Looked:
    """What a step saw of the table, and its record."""

    step: StepRecord
    kinds: Mapping[str, KindSize] | None = None
    findings: Mapping[str, int] | None = None
    told: tuple[str, ...] = ()
    """Remarks that deserve a line of their own."""


class TableSteps:
    def __init__(self, job: Job, table: FleetTable) -> None:
        self._job, self._table = job, table
        self._location, self._engine = table.location, job.engine
        self.policy: policy_rules.TablePolicy = job.options.policy.for_table(table.name)
        self.remembered = job.options.memory.of(table.location.uri)

    def branches(self, table: RefTable) -> list[str | None]:
        """Main and the branches that may be written to: branches that follow a remote's are left to fetches.

        The plans of frozen sets have their final size: compaction would only store each a second time.
        """
        plans = {name for name in table.branches if is_plan(name, table.tags)}
        return [None, *sorted(table.branches.keys() - following(table).keys() - plans)]

    def plan(self, step: str, branch: str | None) -> Looked:
        """Plan a step. Raises what the verb raises."""
        plans: dict[str, Callable[[str | None], Looked]] = {
            policy_rules.FSCK: self._plan_fsck,
            policy_rules.COMPACTION: self._plan_compaction,
            policy_rules.INDEXES: self._plan_indexes,
            policy_rules.EXPIRY: self._plan_expiry,
            policy_rules.CLEANUP: self._plan_cleanup,
        }
        if step in policy_rules.OF_BRANCHES and branch in self._ending:
            return Looked(StepRecord(step, branch, policy_rules.NOTHING, _ENDING))
        return self._unless_deleted(step, branch, lambda: plans[step](branch))

    def carry_out(self, planned: StepRecord) -> Looked:
        """Carry out a step. Raises what the verb raises; everything else goes into the record."""
        verbs: dict[str, Callable[[StepRecord], Looked]] = {
            policy_rules.FSCK: self._do_fsck,
            policy_rules.COMPACTION: self._do_compaction,
            policy_rules.INDEXES: self._do_indexes,
            policy_rules.EXPIRY: self._do_expiry,
            policy_rules.CLEANUP: self._do_cleanup,
        }
        return self._unless_deleted(planned.step, planned.branch, lambda: verbs[planned.step](planned))

    def _unless_deleted(self, step: str, branch: str | None, run: Callable[[], Looked]) -> Looked:
        """What a step does, or that its branch is gone: who deletes a branch meanwhile has not damaged the table."""
        try:
            return run()
        except LanceSparkError as problem:
            if branch in (None, MAIN) or self._is_there(str(branch), problem):
                raise
            return Looked(StepRecord(step, branch, policy_rules.NOTHING, _DELETED))

    def _is_there(self, branch: str, problem: LanceSparkError) -> bool:
        try:
            return branch in refs.read_refs(self._location).branches
        except LanceSparkError:
            raise problem from None

    # --- fsck

    def _plan_fsck(self, _: str | None) -> Looked:
        return Looked(policy_rules.fsck(policy_rules.check_due(self.remembered, self.policy.fsck, self._job.now_ns)))

    def _do_fsck(self, planned: StepRecord) -> Looked:
        cleanup = self._cleanup_policy()
        options = FsckOptions(self.policy.fsck.deep, cleanup.clones, cleanup.clones_from)
        report = run_fsck(self._location, options, self._engine, self._job.now_ns)
        findings = [finding for finding in report.findings if not _is_known(finding, cleanup)]
        stopping = [finding for finding in findings if finding.severity in _STOPPING]
        state = policy_rules.STOPPED if stopping else policy_rules.DONE
        why = f"{stopping[0].path}: {stopping[0].says}" if stopping else report.summary()
        if len(stopping) > 1:
            why += f" And {len(stopping) - 1:,} more."
        shown = [each for each in findings if each not in stopping[:1]]  # the step itself tells the first
        told = tuple(f"{each.severity}: {each.path}: {each.says}" for each in shown[:_EXAMPLES])
        hint = stopping[0].do if stopping else ""
        counts = Counter(finding.severity for finding in findings)
        return Looked(replace(planned, state=state, why=why, hint=hint), findings=dict(counts), told=told)

    # --- compaction

    def _plan_compaction(self, branch: str | None) -> Looked:
        rule = self.policy.for_branch(branch).compaction
        plan = optimize(self._location, branch, replace(rule, dry_run=True), self._engine).plan
        tasks = plan.parts or len(plan.tasks)
        return Looked(policy_rules.compaction(branch, plan.sources, tasks, plan.bytes, rule.small_fragments))

    def _do_compaction(self, planned: StepRecord) -> Looked:
        branch = branch_or_none(str(planned.branch))
        rule = self.policy.for_branch(branch).compaction
        result = optimize(self._location, branch, rule, self._engine)
        made = f"{counted(result.fragments_removed, 'fragment')} became {result.fragments_added:,}"
        try:
            renew(self._location, pin_latest(self._location, branch), self._engine)
        except LanceSparkError as problem:  # costs plans: the compaction itself is done
            made += f"; columns were not measured again: {problem.message}"
        if result.conflicts:
            made += f"; {counted(len(result.conflicts), 'task')} overtaken by other commits, left for next time"
        return Looked(
            replace(
                planned, state=policy_rules.DONE, why=made, fragments=result.fragments_removed, written=result.bytes
            )
        )

    # --- indexes

    def _plan_indexes(self, branch: str | None) -> Looked:
        rule = self.policy.for_branch(branch).indexes
        infos = list_indexes(self._location, pin_latest(self._location, branch))
        rows = max((info.rows_covered + info.rows_uncovered for info in infos), default=0)
        stale = {info.name: info.rows_uncovered for info in infos}
        return Looked(policy_rules.indexes(branch, stale, rows, rule.stale_rows, rule.stale_percent))

    def _optimized(self, branch: str | None, name: str) -> Sequence[IndexResult]:
        """What became of an index; nothing if somebody dropped it meanwhile."""
        try:
            return optimize_indexes(self._location, branch, name, self._engine)
        except NotFound:
            if name in [info.name for info in list_indexes(self._location, pin_latest(self._location, branch))]:
                raise
            return ()

    def _do_indexes(self, planned: StepRecord) -> Looked:
        branch = branch_or_none(str(planned.branch))
        rule = self.policy.for_branch(branch).indexes
        infos = list_indexes(self._location, pin_latest(self._location, branch))
        results: list[IndexResult] = []
        for info in infos:
            rows = info.rows_covered + info.rows_uncovered
            if info.rows_uncovered >= rule.stale_rows and 100 * info.rows_uncovered >= rule.stale_percent * rows:
                results += self._optimized(branch, info.name)
        why = "; ".join(
            f"{result.name}: {counted(result.rows, 'row')} indexed in {counted(result.segments, 'segment')}"
            if result.changed
            else f"{result.name}: {result.left or 'nothing to index'}"
            for result in results
        )
        changed = any(result.changed for result in results)
        written = sum(result.bytes for result in results)
        rows = sum(result.rows for result in results)
        return Looked(
            replace(
                planned,
                state=policy_rules.DONE if changed else policy_rules.NOTHING,
                why=why,
                rows=rows,
                written=written,
            )
        )

    # --- expiry

    @cached_property
    def _expiry(self) -> ExpiryPlan:
        return plan_expiry(self._location, self._now, self.policy.expiry)

    @cached_property
    def _ending(self) -> frozenset[str]:
        """Branches that will expire soon. Any commit, even one without row changes, would prolong their lives."""
        return frozenset(
            entry.record.name for entry in self._expiry.of(*_ABOUT_TO_GO) if entry.record.kind == expiry_rules.BRANCH
        )

    @property
    def _now(self) -> datetime:
        return moment_at(self._job.now_ns)

    def _plan_expiry(self, _: str | None) -> Looked:
        plan = self._expiry
        told = tuple(
            f"{entry.record.kind} {entry.record.name} expired but stays: {entry.why}"
            for entry in plan.of(expiry_rules.UNMERGED)
        )
        return Looked(policy_rules.expiry(_names(plan.expired), _names(plan.to_warn)), told=told)

    def _do_expiry(self, planned: StepRecord) -> Looked:
        plan = plan_expiry(self._location, self._now, self.policy.expiry)
        read = self._read_by_clones() if plan.expired else frozenset()
        held = [entry for entry in plan.expired if entry.record.kind != expiry_rules.TAG and entry.record.name in read]
        plan = replace(plan, entries=tuple(entry for entry in plan.entries if entry not in held))
        report = carry_out(self._location, plan, self._now)
        told = [f"{entry.record.kind} {entry.record.name} expired but stays: a clone reads its files" for entry in held]
        told += [f"{each.kind} {each.name} stays: {each.why}" for each in report.of(expiry_rules.STAYED)]
        told += [
            f"branch {entry.record.name} expired but stays: {entry.why}" for entry in plan.of(expiry_rules.UNMERGED)
        ]
        deleted = report.of(expiry_rules.DELETED)
        names = [f"{each.kind} {each.name}" for each in deleted]
        why = f"{report.summary}: {few(names, _FEW)}" if deleted else report.summary
        return Looked(replace(planned, state=policy_rules.DONE, why=why, refs=len(deleted)), told=tuple(told))

    def _read_by_clones(self) -> frozenset[str]:
        """Branches with files that a clone reads, be it recorded, named by the policy, or a table of the lake."""
        cleanup = self._cleanup_policy()
        survey = take_survey(self._location, cleanup.clones, cleanup.clones_from)
        clones = [FleetTable(place.uri, place) for place in survey.repositories[1:]]
        bases = set(self._job.bases)
        for row in (row for batch in look_at(clones) for row in batch.to_pylist()):
            if row["error"]:
                raise Refused(f"A clone cannot be looked at: {row['error']}", hint="It may read branches.")
            bases.add(row["base"])
        names = [chain.branch for _, chain in survey.owned() if chain.branch is not None]
        return frozenset(
            name for name in names if any(base and is_within(base, self._location.branch_uri(name)) for base in bases)
        )

    # --- cleanup

    def _plan_cleanup(self, _: str | None) -> Looked:
        if not self._job.options.estimates:
            return Looked(StepRecord(policy_rules.CLEANUP, why="what no version or ref needs"))
        plan = self._cleanup()
        try:
            return Looked(_planned_step(plan), kinds=_kinds(plan))
        finally:
            plan.runner.release()

    def _do_cleanup(self, planned: StepRecord) -> Looked:
        plan = self._cleanup()
        try:
            would = _planned_step(plan)
            if would.state == policy_rules.NOTHING:
                return Looked(would, kinds=_kinds(plan))
            options = self._job.options
            share = options.max_deletes_per_second
            report = plan.apply(None if share is None else share / options.side_by_side)
        finally:
            plan.runner.release()
        files, freed = report.count(DELETED)
        why = f"{counted(files, 'file')}, {readable(freed)} freed"
        state = policy_rules.DONE if report.complete else policy_rules.FAILED
        step = replace(planned, state=state, why=why, error=report.failure, files=files, freed=freed)
        step = replace(step, exit_code=report.exit_code if report.is_denied else 0)
        deleted = _by_kind(row for row in report.outcomes if row["outcome"] == DELETED)
        return Looked(step, kinds=_kinds(plan, deleted))

    def _cleanup(self) -> CleanupPlan:
        return plan_cleanup(self._location, self._cleanup_policy(), self._engine, self._job.now_ns)

    def _cleanup_policy(self) -> CleanupPolicy:
        """The table's policy, with other tables that read its files as clones."""
        policy = self.policy.kept_for_undo
        return replace(policy, clones=(*policy.clones, *self._job.clones.get(self._table.name, ())))


def _names(entries: Sequence[ExpiryEntry]) -> list[str]:
    return [f"{entry.record.kind} {entry.record.name}" for entry in entries]


def _is_known(finding: CheckFinding, policy: CleanupPolicy) -> bool:
    """Whether the policy lists this base path as known."""
    return finding.code == BASE_ABSENT and finding.path.rstrip("/") in {base.rstrip("/") for base in policy.known_bases}


def _planned_step(plan: CleanupPlan) -> StepRecord:
    report = plan.report()
    files, freed = report.to_delete
    return policy_rules.cleanup(sum(counts.get("removed", 0) for counts in report.versions.values()), files, freed)


def _kinds(plan: CleanupPlan, freed: Mapping[str, int] | None = None) -> dict[str, KindSize]:
    """Bytes by kind of file: all existing files, and those to delete (or deleted, if given)."""
    planned = plan.report().planned
    told = _by_kind(row for row in planned if row["action"] == DELETE) if freed is None else freed
    return {kind: KindSize(size, told.get(kind, 0)) for kind, size in sorted(_by_kind(planned).items())}


def _by_kind(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for row in rows:
        sums[row["kind"]] += row["bytes"]
    return sums


# --- The report of a running maintenance
# It lets an interrupted run still show what was done.

_QUICK = 0.5
"""Seconds that a report may take without a pause after it."""
_SHARE = 10
"""Length of the pause, as a multiple of a slow report's time: a page of 50,000 tables is not written for each one."""


class RunningReport:
    """Reports after each table; threads share one instance."""

    def __init__(
        self, report: Callable[[Sequence[TableRecord]], MaintenanceReport], tell: Callable[[MaintenanceReport], object]
    ) -> None:
        """``report`` makes the report from some records. The first report, without tables, is sent at once."""
        self._report, self._tell = report, tell
        self._lock = threading.Lock()
        self._ended: list[TableRecord] = []
        self._next = 0.0
        self._told()

    def add(self, record: TableRecord) -> None:
        """Report how a table ended. A failing store is not an error here: the last report shows what is wrong."""
        with self._lock:
            self._ended.append(record)
            if time.monotonic() >= self._next:
                self._told()

    def _told(self) -> None:
        began = time.monotonic()
        with suppress(LanceSparkError):
            self._tell(self._report(sorted(self._ended, key=lambda record: record.name)))
        took = time.monotonic() - began
        self._next = began + took + _SHARE * took if took > _QUICK else began


# --- The state file of runs
# Written while a run goes on, so that a crash does not waste its checks.

_PAUSE = 60
"""Seconds between two writes. The file lists all tables of a lake: writing it for each of 50,000 would cost hours."""


class StateFile:
    """What runs remember about tables, in a file given by path or URI; threads share one instance."""

    def __init__(self, path: str, storage: Mapping[str, str], now_ns: int) -> None:
        """``now_ns`` is when the run began, in nanoseconds since the epoch: checks are dated with it."""
        self._path, self._storage, self._now_ns = path, storage, now_ns
        self._lock = threading.Lock()
        self._ended: list[TableRecord] = []
        self._next = time.monotonic() + _PAUSE

    def load(self) -> Memory:
        """The state of the last run, empty without a file. Raises CorruptData, StorageFailure."""
        text = read_report(self._path, self._storage)
        return Memory() if text is None else policy_rules.read_memory(text)

    def add(self, record: TableRecord) -> None:
        """Remember how a table ended, for the next write. A failing store is not an error here."""
        with self._lock:
            self._ended.append(record)
            if time.monotonic() < self._next:
                return
            try:
                self._write()
            except LanceSparkError:
                self._next = time.monotonic() + _PAUSE  # the final write reports what is wrong

    def close(self) -> None:
        """Write everything that was not written yet. Raises CorruptData, StorageFailure."""
        with self._lock:
            if self._ended:
                self._write()

    def _write(self) -> None:
        """Write on top of the current file: a run on other tables may have written meanwhile."""
        memory = policy_rules.remember(self.load(), self._ended, self._now_ns)
        write_report(self._path, memory.to_json(), self._storage)
        self._ended.clear()
        self._next = time.monotonic() + _PAUSE
