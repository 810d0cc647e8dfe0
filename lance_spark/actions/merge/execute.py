"""Carries a plan out: copies files, commits one version, and sees to indexes and notes afterwards."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from lance_spark.actions.merge.copying import copy_files
from lance_spark.actions.merge.plan import Request, plan_replay
from lance_spark.errors import Conflict
from lance_spark.location import DatasetLocation
from lance_spark.merge.plan import ReplayPlan
from lance_spark.merge.result import MergeResult
from lance_spark.refs.names import MAIN
from lance_spark.runner.interface import Engine
from lance_spark.store import merge_commit
from lance_spark.store.indexes import carry_indexes

_ATTEMPTS = 50
_LONGEST_PAUSE = 0.5
"""Seconds; others are given the time to finish their commits."""


@dataclass(frozen=True)
class Replayed:
    """What was done."""

    plan: ReplayPlan
    version: int | None
    carried: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    ran_on: str | None = None


def replay(make: Callable[[], Request], engine: Engine, dry_run: bool = False) -> MergeResult:
    """Plan and carry out. ``make`` is asked again after every commit of somebody else's, for the newest versions.

    Raises Conflict, naming what clashes, and then nothing was changed; Refused; NotFound.
    """
    for attempt in range(_ATTEMPTS):
        request = make()
        plan = plan_replay(request)
        if dry_run:
            return _result(request, plan, Replayed(plan, None), dry_run=True)
        _check(plan, request)
        if plan.is_up_to_date:
            outcome = Replayed(plan, None)
        elif plan.placed.new_bases:
            merge_commit.add_bases(request.location, request.ours.branch, plan.placed.new_bases)
            continue  # the bases have ids now
        else:
            ran_on = copy_files(plan, partial(_place, request), engine)
            try:
                version = merge_commit.commit(request.location, request.their_location, plan)
            except Conflict:
                if attempt + 1 == _ATTEMPTS:
                    raise
                time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.01 * 2**attempt)))
                continue
            outcome = Replayed(plan, version, ran_on=ran_on)
        if request.with_indexes:
            outcome = _with_indexes(request, outcome)
        return _result(request, plan, outcome)
    raise Conflict(
        f"Others committed to '{make().ours.branch or MAIN}' again and again; nothing was changed.",
        hint="Run it again.",
    )


def _check(plan: ReplayPlan, request: Request) -> None:
    if plan.conflicts:
        listed = "".join(f"\n  - {found}{_examples(found.rows)}" for found in plan.conflicts[:10])
        more = f"\n  - {len(plan.conflicts) - 10} more" if len(plan.conflicts) > 10 else ""
        raise Conflict(
            f"{request.theirs} cannot be combined with {request.ours}; nothing was changed.{listed}{more}",
            hint="Settle it on one side first, e.g. restore or delete there what should not win, then try again.",
        )


def _examples(rows: tuple[str, ...]) -> str:
    return "".join(f"\n      {row}" for row in rows)


def _place(request: Request, uri: str) -> DatasetLocation:
    """A root with the storage options that open it: those of whichever side is in the same store."""
    there = request.their_location
    found = DatasetLocation(uri, there.options)
    return found if found.store == there.store else DatasetLocation(uri, request.location.options)


def _with_indexes(request: Request, outcome: Replayed) -> Replayed:
    carried, missing = carry_indexes(request.location, request.their_location, outcome.plan, outcome.version)
    return replace(outcome, carried=carried, missing=missing)


def _result(request: Request, plan: ReplayPlan, outcome: Replayed, dry_run: bool = False) -> MergeResult:
    return MergeResult(
        action=plan.trace.action,
        into=request.ours.branch or MAIN,
        source=str(plan.trace.source),
        base=str(request.base_theirs),
        version=outcome.version,
        fast_forward=plan.sides.is_fast_forward,
        up_to_date=plan.is_up_to_date,
        summary=plan.summary(),
        conflicts=plan.conflicts,
        indexes_carried=outcome.carried,
        indexes_missing=outcome.missing,
        notes=plan.change.notes,
        dry_run=dry_run,
        ran_on=outcome.ran_on,
    )
