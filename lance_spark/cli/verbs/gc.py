"""``lance-git gc``: removes old versions, and files that nothing needs."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from lance_spark.cleanup.rules import CleanupPolicy, parse_policy
from lance_spark.cli.output import BAR, PARTLY_DONE, Output, confirm
from lance_spark.cli.program import dry_run_option, options_of, verb, yes_option
from lance_spark.cli.session import Session
from lance_spark.core.declared import at, values
from lance_spark.core.show import counted
from lance_spark.errors import InvalidOption

if TYPE_CHECKING:
    from lance_spark.cleanup.report import CleanupReport


@verb("gc")
@options_of(CleanupPolicy)
@click.option("--policy", type=click.File(encoding="utf-8"), metavar="FILE", help="A policy as TOML.")
@click.option("--execute", is_flag=True, help="Delete; without it, only show what would be deleted.")
@dry_run_option
@yes_option
@click.pass_obj
def command(session: Session, /, execute: bool, dry_run: bool, yes: bool, **given: Any) -> int:
    """Remove old versions, and files nothing needs.

    Works on main and all branches, or with --branch on some; then it writes nowhere else. Only shows what would be
    deleted, unless --execute is given. Kept: the newest version of every branch, versions of the last day, tagged
    versions, versions that branches were created from, and what clones need.
    """
    from lance_spark.cleanup.cleanup import plan_cleanup
    from lance_spark.core.show import readable

    if execute and dry_run:
        raise InvalidOption("--execute and --dry-run cannot be combined.")
    plan = plan_cleanup(session.location, _policy(**given), session.engine, time.time_ns())
    planned = plan.report()
    if not execute:
        _show(session.output, planned)
        return 0
    files, size = planned.to_delete
    if not yes:
        BAR.wipe()
        click.echo(str(planned), err=True)
    confirm(f"{counted(files, 'file')} of {session.location.uri}, {readable(size)}, will be deleted.", yes)
    report = plan.apply()
    _show(session.output, report)
    return 0 if report.complete else PARTLY_DONE


def _policy(policy: Any, **given: Any) -> CleanupPolicy:
    base = parse_policy(policy.read()) if policy is not None else CleanupPolicy()
    return replace(base, **values(at(CleanupPolicy, "shell"), given, base))


def _show(output: Output, report: CleanupReport) -> None:
    output.show(json.loads(report.to_json()), str(report))
