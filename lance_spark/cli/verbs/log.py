"""``lance-git log``: the versions of a branch, newest first."""

from __future__ import annotations

import click

from lance_spark.cli.program import verb
from lance_spark.cli.session import Session

_SHOWN = 30


@verb("log")
@click.argument("ref", required=False)
@click.option("-n", "count", type=click.IntRange(min=0), default=_SHOWN, show_default=True, help="How many; 0 for all.")
@click.option("--graph", is_flag=True, help="Draw forks and merges next to the versions.")
@click.option("--stat", is_flag=True, help="Show what each version added and removed.")
@click.option("--all", "everything", is_flag=True, help="Versions of all branches.")
@click.pass_obj
def command(session: Session, ref: str | None, count: int, graph: bool, stat: bool, everything: bool) -> None:
    """List versions, newest first.

    Lists the versions of REF or of the current branch, and of its parents before its fork. A version's manifest is read
    when its line is printed, so a long history costs nothing until -n reaches it.
    """
    from lance_spark.cli.output import painted
    from lance_spark.log.log import Scope, recent
    from lance_spark.log.rules import graph_lines, log_lines

    start = session.resolve(ref)
    scope: Scope = "all" if everything else "merged" if graph else "chain"
    history = recent(session.location, start, count or None, stat, scope)
    lines = graph_lines(history.entries) if graph else log_lines(history.entries)
    session.output.show({"versions": [entry.as_record() for entry in history]}, painted(session.output, lines))
    if history.older:
        session.output.note(f"There are older versions: -n {2 * count}, or -n 0 for all.")
