"""``lance-git status``: where the current branch stands."""

from __future__ import annotations

import click

from lance_spark.cli.command import verb
from lance_spark.cli.output import counted
from lance_spark.cli.session import Session


@verb("status")
@click.pass_obj
def command(session: Session) -> None:
    """Show the current branch, its newest version, and how far it is ahead of and behind its parent."""
    from lance_spark.actions.status import status

    found = status(session.location, session.branch)
    lines = [f"On branch {found.branch}, version {found.version}."]
    if found.parent is not None:
        lines.append(
            f"Ahead of {found.parent} by {counted(found.ahead, 'version')}, "
            f"behind by {counted(found.behind, 'version')} (last common version {found.common})."
        )
        if found.ahead:
            lines.append(f"  lance-git switch {found.parent} && lance-git merge {found.branch}   publishes them")
    session.output.show(found.as_record(), "\n".join(lines))
