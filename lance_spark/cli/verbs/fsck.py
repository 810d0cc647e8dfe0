"""``lance-git fsck``: checks that everything versions name exists and is sound; repairs it, with an undo."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from lance_spark.cli.output import BAR, PARTLY_DONE, confirm
from lance_spark.cli.program import options_of, verb, yes_option
from lance_spark.cli.session import Session
from lance_spark.core.declared import typed_at
from lance_spark.core.show import counted
from lance_spark.fsck.option_rules import FsckOptions, RepairOptions, check_combination

if TYPE_CHECKING:
    from lance_spark.fsck.report import FsckReport


@verb("fsck")
@options_of(FsckOptions)
@click.option("--repair", is_flag=True, help="Show the repairs that are possible; all can be undone.")
@click.option("--execute", is_flag=True, help="With --repair: do it.")
@options_of(RepairOptions)
@click.option("--undo", metavar="RECORD", help="Undo the repair of that id, or the 'last' one.")
@yes_option
@click.pass_obj
def command(session: Session, /, undo: str | None, yes: bool, **given: Any) -> int:
    """Check that nothing is missing or damaged.

    Reads all versions of main, branches, tags and clones; every file they name must exist. Changes nothing without
    --execute. Exit code 22 means damage, 20 that something could not be reached, and 0 neither. With --execute, 0 means
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
    _show(session, report)
    return report.exit_code


def _repair(session: Session, options: FsckOptions, given: Mapping[str, Any], yes: bool) -> int:
    from lance_spark.fsck.repair import execute, fsck_and_repair

    now = time.time_ns()
    report = fsck_and_repair(session.location, options, RepairOptions(given["on_main"]), session.engine, now)
    plan = report.repair
    if plan is None or not given["execute"] or not (plan.steps or plan.stopped):
        _show(session, report)
        return report.exit_code
    if not yes:
        BAR.wipe()
        click.echo(str(plan), err=True)
    confirm(f"{counted(len(plan.steps), 'step')} will be done to {session.location.uri}; each can be undone.", yes)
    report = report.with_repair(plan, execute(session.location, plan, now))
    _show(session, report)
    return report.exit_code_after_repair(PARTLY_DONE)


def _undo(session: Session, record: str, yes: bool) -> int:
    from lance_spark.fsck.undo import undo

    confirm(f"The repair '{record}' of {session.location.uri} will be undone.", yes)
    done = undo(session.location, record)
    session.output.show({"undone": done.to_record()}, str(done))
    return 0


def _show(session: Session, report: FsckReport) -> None:
    plan, done = report.repair, report.repaired
    parts = [report.grid().text(), report.summary()]
    if plan is not None and done is not None:
        parts = [str(done), plan.grids()[1].text()]
    elif plan is not None:
        parts += [str(plan), "Nothing was changed; --execute carries it out." if plan.steps else ""]
    session.output.show(json.loads(report.to_json()), "\n\n".join(part for part in parts if part))
