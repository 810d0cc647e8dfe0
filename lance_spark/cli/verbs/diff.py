"""``lance-git diff``: shows the differences between two versions."""

from __future__ import annotations

import click

from lance_spark.cli.program import verb
from lance_spark.cli.session import Session
from lance_spark.core.ref_expressions import HEAD, is_range
from lance_spark.errors import InvalidOption


@verb("diff")
@click.argument("first", metavar="A..B|REF", required=False)
@click.argument("second", metavar="[REF]", required=False)
@click.option("--stat", is_flag=True, help="Only fragments and files; reads two manifests and nothing else.")
@click.option("--rows", is_flag=True, help="Compare the rows where files differ, and show examples.")
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Examples of rows.")
@click.pass_obj
def command(session: Session, first: str | None, second: str | None, stat: bool, rows: bool, limit: int) -> None:
    """Show the differences between two versions.

    That is what B has and A does not, and vice versa: columns, rows and files. A..B are two refs, such as main..exp;
    A B is the same. A single REF is compared with the current branch, as REF..HEAD. An updated row counts as one
    deleted and one added, unless --rows compares the rows by the table's key.
    """
    from lance_spark.changes.diff import diff
    from lance_spark.cli.output import painted
    from lance_spark.log.rules import diff_lines
    from lance_spark.storage.resolving import resolve_range

    before, after = resolve_range(session.location, _range(first, second), session.branch)
    difference = diff(session.location, before, after, rows, limit, stat)
    session.output.show(difference.as_record(), painted(session.output, diff_lines(difference, stat)))


def _range(first: str | None, second: str | None) -> str:
    """The arguments as a range. Raises InvalidOption for none, and for more than two refs."""
    if first is None:
        raise InvalidOption(
            "Name what to compare: every write is a version, so nothing is uncommitted.",
            hint="lance-git diff REF compares the current branch with REF; lance-git diff A..B compares two refs.",
        )
    if second is None:
        return first if is_range(first) else f"{first}..{HEAD}"
    if is_range(first) or is_range(second):
        raise InvalidOption(f"'{first} {second}' is more than two refs.", hint="Write A..B, or A B.")
    return f"{first}..{second}"
