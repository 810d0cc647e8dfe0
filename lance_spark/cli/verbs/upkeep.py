"""The verbs for upkeep: ``gc``, ``expire-refs``, ``du`` and ``fsck``."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import click

from lance_spark.cleanup.retention_rules import CleanupPolicy, parse_policy
from lance_spark.cli.output import PARTLY_DONE, Output, confirm
from lance_spark.cli.program import dry_run_option, options_of, verb, yes_option
from lance_spark.cli.session import Session
from lance_spark.core.declared import at, typed_at, values
from lance_spark.core.texts import counted, readable
from lance_spark.errors import InvalidOption
from lance_spark.fsck.option_rules import FsckOptions, RepairOptions, check_combination
from lance_spark.maintenance.expiry_rules import ExpiryOptions

if TYPE_CHECKING:
    from lance_spark.cleanup.report import CleanupReport
    from lance_spark.fsck.report import FsckReport


@verb("gc")
@options_of(CleanupPolicy)
@click.option("--policy", metavar="FILE", help="A policy as TOML: its path or URI.")
@click.option("--execute", is_flag=True, help="Delete; without it, only show what would be deleted.")
@dry_run_option
@yes_option
@click.pass_obj
def gc(session: Session, /, execute: bool, dry_run: bool, yes: bool, **given: Any) -> int:
    """Remove old versions, and files nothing needs.

    Works on main and all branches, or with --branch on some; then it writes nowhere else. Only shows what would be
    deleted, unless --execute is given. Kept: the newest version of every branch, versions of the last day, tagged
    versions, versions that branches were created from, and what clones need.
    """
    from lance_spark.cleanup.cleanup import plan_cleanup

    if execute and dry_run:
        raise InvalidOption("--execute and --dry-run cannot be combined.")
    plan = plan_cleanup(session.location, _policy(session, **given), session.engine, time.time_ns())
    planned = plan.report()
    if not execute:
        _show_cleanup(session.output, planned)
        return 0
    files, size = planned.to_delete
    what = f"{counted(files, 'file')} of {session.location.uri}, {readable(size)}, will be deleted."
    if files:  # with nothing to delete there is nothing to ask, and a schedule without --yes does not fail
        confirm(what, yes, str(planned))
    report = plan.apply()
    _show_cleanup(session.output, report)
    return report.exit_code


def _policy(session: Session, policy: str | None, **given: Any) -> CleanupPolicy:
    from lance_spark.storage.small_files import read_report

    text = "" if policy is None else read_report(policy, session.storage)
    if text is None:
        raise InvalidOption(f"There is no policy file {policy}.", hint="Give its path or URI.")
    base = parse_policy(text)
    return replace(base, **values(at(CleanupPolicy, "shell"), given, base))


def _show_cleanup(output: Output, report: CleanupReport) -> None:
    output.show(json.loads(report.to_json()), str(report))


@verb("expire-refs")
@options_of(ExpiryOptions)
@click.option("--execute", is_flag=True, help="Warn and delete; without it, only show what would happen.")
@dry_run_option
@yes_option
@click.pass_obj
def expire_refs(session: Session, /, **given: Any) -> int:
    """Delete branches and tags that have expired.

    Only refs created or altered with --expire-after have an end. The first run that finds it approaching writes a
    warning into the ref; a later run deletes the ref when the end and the warning period are over. Only shows what
    would happen, unless --execute is given. Kept: branches with unmerged changes, protected ones, and refs that another
    ref or a clone needs. Also removes the files of branches that were deleted with branch -d and can no longer be
    restored.
    """
    from lance_spark.maintenance.expiry import carry_out, plan_expiry

    execute, yes = given["execute"], given["yes"]
    if execute and given["dry_run"]:
        raise InvalidOption("--execute and --dry-run cannot be combined.")
    now = datetime.now(timezone.utc)
    options = typed_at("shell", ExpiryOptions, given)
    plan = plan_expiry(session.location, now, options)
    if not execute:
        session.output.show(plan.as_document(), str(plan))
        return 0
    if plan.expired:
        confirm(f"{counted(len(plan.expired), 'ref')} of {session.location.uri} will be deleted.", yes, str(plan))
    report = carry_out(session.location, plan, now)
    session.output.show(json.loads(report.to_json()), str(report))
    return 0 if report.complete else PARTLY_DONE


@verb("du")
@click.option("--refs", is_flag=True, help="Each branch, tag and clone, and what deleting it would free.")
@options_of(CleanupPolicy, "clones", "clones_from")
@click.pass_obj
def du(session: Session, /, refs: bool, **given: Any) -> None:
    """Show what takes space, and what refs cost.

    Shows bytes by kind of file, and how much of them no branch, tag or clone needs. The space that deleting a ref frees
    includes what the next cleanup then removes: files that nothing else needs.
    """
    from lance_spark.disk_usage.disk_usage import storage

    report = storage(session.location, typed_at("shell", CleanupPolicy, given), session.engine)
    grids = (report.refs_grid() if refs else report.kinds_grid(), *report.elsewhere_grid())
    shown = "\n\n".join(grid.text() for grid in grids)
    session.output.show(json.loads(report.to_json()), f"{shown}\n\n{report.summary()}")
    for warning in report.warnings:
        session.output.note(f"warning: {warning}")


@verb("fsck")
@options_of(FsckOptions)
@click.option("--repair", is_flag=True, help="Repair what can be repaired; all of it can be undone.")
@options_of(RepairOptions)
@click.option("--undo", metavar="RECORD", help="Undo the repair of that id, or the 'last' one.")
@yes_option
@click.pass_obj
def fsck(session: Session, /, undo: str | None, yes: bool, **given: Any) -> int:
    """Check that nothing is missing or damaged.

    Reads all versions of main, branches, tags and clones; every file they name must exist. Changes nothing without
    --repair. Exit code 22 means damage, 20 that something could not be reached, and 0 neither. With --repair, 0 means
    that everything was repaired, 6 that only part was.
    """
    from lance_spark.fsck.fsck import fsck

    check_combination({**given, "undo": undo})
    if undo is not None:
        return _undo(session, undo, yes)
    options = typed_at("shell", FsckOptions, given)
    if given["repair"]:
        return _repair(session, options, given, yes)
    report = fsck(session.location, options, session.engine, time.time_ns())
    _show_fsck(session, report)
    return report.exit_code


def _repair(session: Session, options: FsckOptions, given: Mapping[str, Any], yes: bool) -> int:
    from lance_spark.fsck.repair import execute, fsck_and_repair

    now = time.time_ns()
    report = fsck_and_repair(
        session.location, options, RepairOptions(given["on_main"], dry_run=True), session.engine, now
    )
    plan = report.repair
    if plan is None or given["dry_run"] or not (plan.steps or plan.stopped):
        _show_fsck(session, report)
        return report.exit_code
    what = f"{counted(len(plan.steps), 'step')} will be done to {session.location.uri}; each can be undone."
    confirm(what, yes, str(plan))
    report = report.with_repair(plan, execute(session.location, plan, now))
    _show_fsck(session, report)
    return report.exit_code_after_repair(PARTLY_DONE)


def _undo(session: Session, record: str, yes: bool) -> int:
    from lance_spark.fsck.undo import undo

    confirm(f"The repair '{record}' of {session.location.uri} will be undone.", yes)
    done = undo(session.location, record)
    session.output.show({"undone": done.to_record()}, str(done))
    return 0


def _show_fsck(session: Session, report: FsckReport) -> None:
    plan, done = report.repair, report.repaired
    parts = [report.grid().text(), report.summary()]
    if plan is not None and done is not None:
        parts = [str(done), plan.grids()[1].text()]
    elif plan is not None:
        parts += [str(plan), "Nothing was changed." if plan.steps else ""]
    session.output.show(json.loads(report.to_json()), "\n\n".join(part for part in parts if part))
