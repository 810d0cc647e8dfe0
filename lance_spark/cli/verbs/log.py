"""``lance-git log``: the versions of a branch, newest first."""

from __future__ import annotations

import click

from lance_spark.cli.command import verb
from lance_spark.cli.session import Session

_SHOWN = 30


@verb("log")
@click.argument("ref", required=False)
@click.option("-n", "count", type=click.IntRange(min=0), default=_SHOWN, show_default=True, help="How many; 0 for all.")
@click.option("--graph", is_flag=True, help="Draw forks and merges beside the versions.")
@click.option("--stat", is_flag=True, help="Say what each version added and removed.")
@click.option("--all", "everything", is_flag=True, help="Versions of all branches.")
@click.pass_obj
def command(session: Session, ref: str | None, count: int, graph: bool, stat: bool, everything: bool) -> None:
    """List versions, newest first.

    Those of REF or of the current branch, and of its parents before its fork. A version's manifest is read when its
    line is printed, so a long history costs nothing until -n asks for it.
    """
    from lance_spark.actions.history import Scope, log
    from lance_spark.cli.printing import painted
    from lance_spark.history.text import graph_lines, log_lines

    start = session.resolve(ref)
    scope: Scope = "all" if everything else "merged" if graph else "chain"
    wanted = count or None
    entries = log(session.location, start.branch, start, None if wanted is None else wanted + 1, stat, scope)
    shown = entries if wanted is None else entries[:wanted]
    lines = graph_lines(shown) if graph else log_lines(shown)
    session.output.show({"versions": [entry.as_record() for entry in shown]}, painted(session.output, lines))
    if len(shown) < len(entries):
        session.output.note(f"There are older versions: -n {wanted and 2 * wanted}, or -n 0 for all.")
