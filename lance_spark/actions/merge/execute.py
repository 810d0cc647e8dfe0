"""Carries a plan out: copies files, commits one version, and takes indexes over afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from lance_spark.actions.attempts import attempts, overtaken
from lance_spark.actions.merge.copying import copy_files
from lance_spark.actions.merge.plan import plan_replay
from lance_spark.actions.merge.request import Request, open_root
from lance_spark.errors import Conflict, PermissionDenied
from lance_spark.merge.hints import hint_for
from lance_spark.merge.plan import ReplayPlan
from lance_spark.merge.result import MergeResult
from lance_spark.refs.names import MAIN
from lance_spark.runner.interface import Engine
from lance_spark.show.progress import WorkProgress
from lance_spark.show.words import counted
from lance_spark.store import files, merge_commit
from lance_spark.store.indexes import carry_indexes
from lance_spark.store.permissions import check_may_commit


def replay(make: Callable[[], Request], engine: Engine, dry_run: bool = False) -> MergeResult:
    """Plan and carry out. After a commit of another process, ``make`` is called again for the newest versions.

    Raises Conflict, naming what clashes, and then nothing was changed; Refused; NotFound.
    """
    for left in attempts():
        engine.tell(WorkProgress("compare versions"))
        request = make()
        plan = plan_replay(request)
        if dry_run:
            return _result(request, plan, dry_run=True)
        _check(plan, request)
        version, ran_on = None, None
        if not plan.is_up_to_date:
            if plan.placed.new_bases:
                merge_commit.add_bases(request.location, request.ours.branch, plan.placed.new_bases)
                continue  # the bases have ids now
            try:
                ran_on = _copied(request, plan, engine)
                engine.tell(WorkProgress("commit"))
                version = merge_commit.commit(request.location, request.their_location, plan)
            except PermissionDenied as denied:
                raise (denied.saying(_left(request, plan)) if denied.of_change else denied) from None
            except Conflict:
                if not left:
                    raise
                continue
        result = replace(_result(request, plan), version=version, ran_on=ran_on)
        if not request.with_indexes:
            return result
        engine.tell(WorkProgress("carry indexes"))
        return _with_indexes(request, plan, result)
    raise overtaken(make().ours.branch)


def _copied(request: Request, plan: ReplayPlan, engine: Engine) -> str | None:
    """Copy the files, unless no version that names them may be committed: nobody else could use the copies.

    They cannot be deleted once they are there. They have the names of their originals, and another process may be
    committing the same merge.
    """
    if plan.copies:
        check_may_commit(request.location, request.ours.branch)
    return copy_files(plan, partial(open_root, request), engine)


def _left(request: Request, plan: ReplayPlan) -> str:
    """What is there of a plan that could not be carried out."""
    root = open_root(request, plan.ours.root.uri)
    copied = sum(files.exists(root, copy.target) for copy in plan.copies)
    where = f" at {request.location.uri}" if request.remote is not None else ""
    if copied:
        return f"No version was made{where}; a cleanup takes the {counted(copied, 'file')} copied so far."
    return f"Nothing was changed{where}."


def _check(plan: ReplayPlan, request: Request) -> None:
    if plan.conflicts:
        listed = "".join(f"\n  - {conflict}{_examples(conflict.rows)}" for conflict in plan.conflicts[:10])
        more = f"\n  - {len(plan.conflicts) - 10} more" if len(plan.conflicts) > 10 else ""
        raise Conflict(
            f"{request.theirs} cannot be combined with {request.ours}; nothing was changed.{listed}{more}",
            hint=hint_for(plan.conflicts),
        )


def _examples(rows: tuple[str, ...]) -> str:
    return "".join(f"\n      {row}" for row in rows)


def _with_indexes(request: Request, plan: ReplayPlan, result: MergeResult) -> MergeResult:
    carried, missing = carry_indexes(request.location, request.their_location, plan, result.version)
    return replace(result, indexes_carried=carried, indexes_missing=missing)


def _result(request: Request, plan: ReplayPlan, dry_run: bool = False) -> MergeResult:
    return MergeResult(
        action=plan.trace.action,
        into=request.ours.branch or MAIN,
        source=str(plan.trace.source),
        base=str(request.base_theirs),
        version=None,
        fast_forward=plan.sides.is_fast_forward,
        up_to_date=plan.is_up_to_date,
        summary=plan.summary(),
        conflicts=plan.conflicts,
        notes=plan.change.notes,
        dry_run=dry_run,
    )
