"""``lance-git expire-refs``: deletes expired branches and tags."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import click

from lance_spark.cli.output import PARTLY_DONE, confirm
from lance_spark.cli.program import dry_run_option, options_of, verb, yes_option
from lance_spark.cli.session import Session
from lance_spark.core.declared import typed_at
from lance_spark.core.show import counted
from lance_spark.errors import InvalidOption
from lance_spark.maintenance.expiry_rules import ExpiryOptions


@verb("expire-refs")
@options_of(ExpiryOptions)
@click.option("--execute", is_flag=True, help="Warn and delete; without it, only show what would happen.")
@dry_run_option
@yes_option
@click.pass_obj
def command(session: Session, /, **given: Any) -> int:
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
        if not yes:
            click.echo(str(plan), err=True)
        confirm(f"{counted(len(plan.expired), 'ref')} of {session.location.uri} will be deleted.", yes)
    report = carry_out(session.location, plan, now)
    session.output.show(json.loads(report.to_json()), str(report))
    return 0 if report.complete else PARTLY_DONE
