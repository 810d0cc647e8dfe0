"""``lance-git fsck``: whether everything that versions name is there and sound."""

from __future__ import annotations

import json
import time

import click

from lance_spark.cli.command import verb
from lance_spark.cli.session import Session


@verb("fsck")
@click.option("--deep", is_flag=True, help="Open files: footers, rows, deletions, indexes, row ids.")
@click.option("--clone", "clones", multiple=True, metavar="URI", help="A clone that is not recorded (repeatable).")
@click.pass_obj
def command(session: Session, /, deep: bool, clones: tuple[str, ...]) -> int:
    """Check that nothing is missing or damaged.

    All versions of main, branches, tags and clones are read, and every file they name has to be there. Nothing is
    changed. Exit code 22 says that something is damaged, 20 that something could not be reached, 0 neither.
    """
    from lance_spark.actions.fsck.fsck import FsckOptions, fsck
    from lance_spark.runner.local import LocalRunner

    report = fsck(session.location, FsckOptions(deep, clones), LocalRunner(), time.time_ns())
    grid = report.grid().text()
    session.output.show(json.loads(report.to_json()), "\n\n".join(part for part in (grid, report.summary()) if part))
    return report.exit_code
