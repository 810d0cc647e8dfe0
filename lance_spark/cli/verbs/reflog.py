"""``lance-git reflog``: lists what branches and tags pointed at before."""

from __future__ import annotations

import click

from lance_spark.cli.program import verb
from lance_spark.cli.session import Session


@verb("reflog")
@click.argument("ref", required=False)
@click.option(
    "-n",
    "--max-count",
    "count",
    type=click.IntRange(min=0),
    default=20,
    metavar="N",
    help="Versions; 0: all.  [default: 20]",
)
@click.pass_obj
def command(session: Session, ref: str | None, count: int) -> None:
    """List what refs pointed at before, newest first.

    REF is a branch or tag. Without it, lists all recorded changes: moved or deleted tags, and deleted or restored
    branches. A branch's versions are listed as far as they exist. branch --restore and tag --restore undo a change.
    """
    from lance_spark.refs.reflog import list_changes

    found = list_changes(session.location, ref, count or None)
    grid = found.grid()
    text = session.output.table(grid.header, list(grid.rows)) if grid.rows else ""
    session.output.show({"dataset": session.location.uri, "ref": ref, "changes": found.as_records()}, text)
