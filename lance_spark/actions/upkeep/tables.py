"""Maintenance of many tables side by side: plan each, then do it, the most valuable first where time is short."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from lance_spark.actions.upkeep.job import Job, UpkeepTable
from lance_spark.actions.upkeep.steps import Looked, TableSteps
from lance_spark.errors import LanceSparkError
from lance_spark.refs.names import MAIN
from lance_spark.store import version_listing
from lance_spark.upkeep.order import in_safe_order, left_first, most_valuable_first, obstacle, worth_again
from lance_spark.upkeep.policy import FSCK, OF_BRANCHES, STEPS
from lance_spark.upkeep.records import (
    FAILED,
    LEFT,
    NOTHING,
    STOPPED,
    WOULD,
    StepRecord,
    TableRecord,
    not_looked_at,
    nothing_freed,
)

_LOG = logging.getLogger("lance_spark.maintain")


def maintain_tables(job: Job, tables: Sequence[UpkeepTable]) -> list[TableRecord]:
    """Plan the tables, and carry the plans out if that is wanted; a record for each, by name."""
    if not job.options.execute:
        return sorted(_each(job, tables, lambda table: _planned_table(job, table)), key=lambda record: record.name)
    if job.options.time_left is None:
        done = _each(job, tables, lambda table: _ended_table(job, table, plan_table(job, table)))
        return sorted(done, key=lambda record: record.name)
    by_name = {table.name: table for table in tables}
    order = left_first({table.name: table.location.uri for table in tables}, job.options.memory)
    plans = most_valuable_first(_each(job, [by_name[name] for name in order], lambda table: _in_time(job, table)))
    done = _each(job, plans, lambda plan: _ended_table(job, by_name[plan.name], plan))
    return sorted(done, key=lambda record: record.name)


def _planned_table(job: Job, table: UpkeepTable) -> TableRecord:
    record = plan_table(job, table)
    job.told(record)
    return record


def _ended_table(job: Job, table: UpkeepTable, plan: TableRecord) -> TableRecord:
    record = carry_out_table(job, table, plan)
    job.options.ended(record)
    job.told(record)
    return record


def _in_time(job: Job, table: UpkeepTable) -> TableRecord:
    """The plan of a table, if there is time for it."""
    enough = job.options.time_to_plan
    return plan_table(job, table) if enough is None or enough() else not_looked_at(_record(job, table))


def _record(job: Job, table: UpkeepTable) -> TableRecord:
    uri = table.location.uri
    return TableRecord(table.name, uri, left_before=job.options.memory.of(uri).left)


def _each(job: Job, items: Iterable[object], function: Callable[..., TableRecord]) -> list[TableRecord]:
    """The function's records, a few side by side, begun in the order of the items."""
    with ThreadPoolExecutor(job.options.side_by_side, "maintain") as pool:
        return list(pool.map(function, items))


def plan_table(job: Job, table: UpkeepTable) -> TableRecord:
    """What is to be done to a table. Whatever goes wrong is in the record."""
    record = _record(job, table)
    try:
        if not version_listing.version_numbers(table.location, None):
            return record  # declared, and not written yet; or dropped meanwhile
        steps = TableSteps(job, table)
        branches = steps.branches()
    except LanceSparkError as problem:
        return replace(record, error=problem.message, exit_code=problem.exit_code)
    wanted = job.options.selection.steps - steps.policy.skip
    for step in STEPS:
        for branch in branches if step in OF_BRANCHES else [None]:
            if step in wanted and step not in steps.policy.for_branch(branch).skip:
                record = _with(record, _planned(steps, step, branch, record.steps, job))
    return record


def _planned(steps: TableSteps, step: str, branch: str | None, before: Sequence[StepRecord], job: Job) -> Looked:
    with _failing(StepRecord(step, (branch or MAIN) if step in OF_BRANCHES else None)) as ended:
        looked = steps.plan(step, branch)
        if looked.step.state == WOULD and not job.options.execute:
            reason = obstacle(looked.step, before, steps.remembered, job.held_back)
            # A check that is due comes first, and may find that all is well by now.
            if reason and not any(each.state == WOULD and each.step == FSCK for each in before):
                looked = replace(looked, step=looked.step.undone(STOPPED, reason))
        ended.append(looked)
    return ended[-1]


def carry_out_table(job: Job, table: UpkeepTable, plan: TableRecord) -> TableRecord:
    """Do what is planned for a table, step by step. Whatever goes wrong is in the record."""
    if not any(step.state in (WOULD, NOTHING) for step in plan.steps):
        return plan
    steps = TableSteps(job, table)
    record = replace(plan, steps=(), kinds=nothing_freed(plan.kinds), told=())
    for planned in in_safe_order(plan.steps):
        record = _with(record, _ended(job, steps, planned, record.steps))
    job.options.say(f"{table.name}: {record.state}")
    return record


def _ended(job: Job, steps: TableSteps, planned: StepRecord, before: Sequence[StepRecord]) -> Looked:
    if planned.state == NOTHING and not worth_again(planned, before):
        return Looked(planned)
    if planned.state not in (WOULD, NOTHING):
        return Looked(planned)
    reason = obstacle(planned, before, steps.remembered, job.held_back)
    if reason:
        return Looked(planned.undone(STOPPED, reason))
    time_left = job.options.time_left
    if time_left is not None and not time_left():
        return Looked(planned.undone(LEFT))
    began = time.monotonic()
    with _failing(planned) as ended:
        ended.append(steps.carry_out(planned))
    looked = ended[-1]
    return replace(looked, step=replace(looked.step, seconds=round(time.monotonic() - began, 3)))


@contextmanager
def _failing(step: StepRecord) -> Iterator[list[Looked]]:
    """What a step raised, as a record of its own."""
    ended: list[Looked] = []
    try:
        yield ended
    except LanceSparkError as problem:
        ended.append(Looked(step.undone(FAILED, error=problem.message, exit_code=problem.exit_code)))
    except Exception as problem:  # noqa: BLE001 - of one table: it is reported, and must not end what others need
        _LOG.exception("%s failed", step.name)
        error = f"{type(problem).__name__}: {problem}"
        ended.append(Looked(step.undone(FAILED, error=error, exit_code=LanceSparkError.exit_code)))


def _with(record: TableRecord, looked: Looked) -> TableRecord:
    return replace(
        record,
        steps=(*record.steps, looked.step),
        kinds=record.kinds if looked.kinds is None else looked.kinds,
        findings=record.findings if looked.findings is None else looked.findings,
        told=(*record.told, *looked.told),
    )
