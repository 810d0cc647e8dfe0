"""``lance-git diff``: what is different between two versions."""

from __future__ import annotations

import click

from lance_spark.cli.command import verb
from lance_spark.cli.session import Session


@verb("diff")
@click.argument("range_", metavar="A..B")
@click.option("--stat", is_flag=True, help="Only fragments and files; reads two manifests and nothing else.")
@click.option("--rows", is_flag=True, help="Compare the rows where files differ, and show examples.")
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Examples of rows.")
@click.pass_obj
def command(session: Session, range_: str, stat: bool, rows: bool, limit: int) -> None:
    """Say what is different between two versions.

    That is what B has and A does not, and the other way round: columns, rows and files. A..B are two refs, such as
    main..exp. An updated row counts as one deleted and one added, unless --rows compares the rows by the table's key.
    """
    from lance_spark.actions.diff import diff
    from lance_spark.actions.expressions import resolve_range
    from lance_spark.cli.printing import painted
    from lance_spark.history.text import diff_lines

    before, after = resolve_range(session.location, range_, session.branch)
    difference = diff(session.location, before, after, rows, limit, stat)
    session.output.show(difference.as_record(), painted(session.output, diff_lines(difference, stat)))
