"""``lance-git du``: shows what a dataset takes, and what each ref costs."""

from __future__ import annotations

import json
from typing import Any

import click

from lance_spark.cleanup.rules import CleanupPolicy
from lance_spark.cli.program import options_of, verb
from lance_spark.cli.session import Session
from lance_spark.core.declared import typed_at


@verb("du")
@click.option("--refs", is_flag=True, help="Each branch, tag and clone, and what deleting it would free.")
@options_of(CleanupPolicy, "clones", "clones_from")
@click.pass_obj
def command(session: Session, /, refs: bool, **given: Any) -> None:
    """Show what takes space, and what refs cost.

    Shows bytes by kind of file, and how much of them no branch, tag or clone needs. The space that deleting a ref frees
    includes what the next cleanup then removes: files that nothing else needs.
    """
    from lance_spark.disk_usage.disk_usage import storage

    report = storage(session.location, typed_at("shell", CleanupPolicy, given), session.engine)
    grid = report.refs_grid() if refs else report.kinds_grid()
    session.output.show(json.loads(report.to_json()), f"{grid.text()}\n\n{report.summary()}")
    for warning in report.warnings:
        session.output.note(f"warning: {warning}")
