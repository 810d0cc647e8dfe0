"""``lance-git gc``: removes old versions, and files that nothing needs."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from lance_spark.cli.output import BAR, PARTLY_DONE, Output, confirm
from lance_spark.cli.program import dry_run_option, verb, yes_option
from lance_spark.cli.session import Session
from lance_spark.core.options import to_span
from lance_spark.core.show import counted
from lance_spark.errors import InvalidOption

if TYPE_CHECKING:
    from lance_spark.cleanup.report import CleanupReport
    from lance_spark.cleanup.rules import CleanupPolicy


@verb("gc")
@click.option(
    "--older-than", metavar="SPAN", help="Versions committed longer ago than this, such as 36h.  [default: 14d]"
)
@click.option("--retain", type=click.IntRange(min=1), metavar="N", help="All versions but the N newest of each branch.")
@click.option(
    "--commit-window",
    metavar="SPAN",
    help="Keep versions this young: at least the longest job that commits.  [default: 1d]",
)
@click.option("--undo-window", metavar="SPAN", help="How long reflog's versions can be restored.  [default: 7d]")
@click.option("--policy", type=click.File(encoding="utf-8"), metavar="FILE", help="A policy as TOML.")
@click.option(
    "--branch", "branches", multiple=True, metavar="NAME", help="Clean only this branch, or those of a pattern."
)
@click.option("--known-base", multiple=True, metavar="URI", help="A base path to ignore, with everything below it.")
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


def _policy(
    older_than: str | None,
    retain: int | None,
    policy: Any,
    known_base: tuple[str, ...],
    branches: tuple[str, ...],
    **windows: str | None,
) -> CleanupPolicy:
    from lance_spark.cleanup.rules import CleanupPolicy, of_branches, parse_policy

    base = parse_policy(policy.read()) if policy is not None else CleanupPolicy()
    given: dict[str, Any] = {
        "older_than": None if older_than is None else to_span("--older-than", older_than),
        "retain_versions": retain,
        "known_bases": (*base.known_bases, *known_base),
    }
    for name, text in windows.items():
        given[name] = None if text is None else to_span(f"--{name.replace('_', '-')}", text)
    return of_branches(replace(base, **{name: value for name, value in given.items() if value is not None}), branches)


def _show(output: Output, report: CleanupReport) -> None:
    output.show(json.loads(report.to_json()), str(report))
