"""Plans a repair and carries it out. Each step looks again first: a dataset that changes is not a corrupt one.

A record of everything that will be done is written before anything is, so a repair that was killed can be taken back,
or be gone on with by another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from uuid import uuid4

from lance_spark import hints
from lance_spark.actions.denied import unchanged
from lance_spark.actions.fsck.facts import facts_of
from lance_spark.actions.fsck.fsck import FsckOptions, examine
from lance_spark.actions.fsck.repair_steps import StepContext, carry_out
from lance_spark.checkup.record import RepairRecord
from lance_spark.checkup.repair import RepairPlan, plan_repair
from lance_spark.checkup.repaired import DONE, Outcome, RepairResult
from lance_spark.checkup.report import FsckReport
from lance_spark.errors import AlreadyExists, Conflict, CorruptData, NotFound, PermissionDenied, Refused, StorageFailure
from lance_spark.location import DatasetLocation
from lance_spark.runner.interface import Engine
from lance_spark.show.moments import moment_at
from lance_spark.store.quarantine import forget_record, holds_the_only_copy, write_record


@dataclass(frozen=True)
class RepairOptions:
    """How a dataset is repaired."""

    on_main: bool = False
    """Whether versions may be committed to the branches themselves, main as well, and newest ones be taken away."""
    dry_run: bool = True
    """Whether it is only planned."""


def fsck_and_repair(
    location: DatasetLocation, options: FsckOptions, repair: RepairOptions, engine: Engine, now_ns: int
) -> FsckReport:
    """Check a dataset, plan what can be repaired, and carry it out unless it is a dry run. Raises as ``fsck``.

    Raises Refused if something could not be looked at; then nothing was changed. Raises StorageFailure if the store
    stops to answer; the error names the record.
    """
    examined = examine(location, options, engine, now_ns)
    plan = plan_repair(location.uri, examined.report.findings, facts_of(location, examined), repair.on_main)
    result = None if repair.dry_run else execute(location, plan, now_ns)
    return examined.report.with_repair(plan, result)


def execute(location: DatasetLocation, plan: RepairPlan, now_ns: int) -> RepairResult:
    """Carry out a plan. What does not look as it did when the plan was made is passed over.

    Raises Refused for a plan that stopped, StorageFailure.
    """
    if plan.stopped:
        raise Refused(f"Nothing was repaired: {plan.stopped}.", hint="Mend that, then run it again.")
    if not plan.steps:
        return RepairResult("", ())
    now = moment_at(now_ns)
    record = RepairRecord(
        id=f"{now:%Y%m%dT%H%M%S.%f}-{uuid4().hex[:8]}",
        dataset=location.uri,
        made=now.isoformat(),
        software=f"lance-spark {import_module('lance_spark').__version__}",
        steps=plan.steps,
    )
    with unchanged():
        write_record(location, record)
    context = StepContext(location, record)
    outcomes = []
    for number in range(len(plan.steps)):
        try:
            outcomes.append(_outcome(context, number))
        except StorageFailure as problem:
            stopped = f"The repair {record.id} stopped at step {number + 1} of {len(plan.steps)}: {problem.message}"
            hint = hints.of("Run it again to go on, or take it back: ", hints.undo_repair(record.id), ".")
            if isinstance(problem, PermissionDenied):
                raise problem.reworded(stopped, hint) from None
            raise type(problem)(stopped, hint=hint) from None
    if not any(outcome.state == DONE for outcome in outcomes) and not holds_the_only_copy(location, record):
        forget_record(location, record)
        return RepairResult("", tuple(outcomes))
    return RepairResult(record.id, tuple(outcomes))


def _outcome(context: StepContext, number: int) -> Outcome:
    step = context.record.steps[number]
    try:
        carry_out(context, step)
    except (Conflict, NotFound, AlreadyExists) as problem:
        return Outcome(str(step), "passed over", problem.message)
    except (Refused, CorruptData) as problem:
        return Outcome(str(step), "not possible", problem.message)
    return Outcome(str(step), DONE)
