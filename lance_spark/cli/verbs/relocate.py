"""``lance-git relocate``: after a dataset was moved or copied, makes its branches read from its current place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lance_spark.cli.output import confirm
from lance_spark.cli.program import dry_run_option, verb, yes_option
from lance_spark.cli.session import Session
from lance_spark.core.refs import MAIN

if TYPE_CHECKING:
    from lance_spark.clones.rules import Relocation

_NOT_FOUND, _NO_ANSWER = 10, 20


@verb("relocate")
@click.option("--from", "old", metavar="URI", help="The former place of the files; found by default.")
@click.option("--to", "new", metavar="URI", help="Their current place, if not in this dataset.")
@dry_run_option
@yes_option
@click.pass_obj
def command(session: Session, old: str | None, new: str | None, dry_run: bool, yes: bool) -> int:
    """Repair branches after a move or a copy.

    A branch names the files of its parent by their absolute place. After a move of the dataset, the branch breaks;
    after a copy, it reads from the original. This verb checks the base paths of main and every branch. If every file of
    a base path is here, it makes a version that reads the files from here. A clone whose source was moved needs
    --from OLD --to NEW.
    """
    from lance_spark.cli.output import painted
    from lance_spark.clones.relocate import relocate

    relocation = relocate(session.location, old, new, dry_run=True)
    if relocation.branches and not dry_run:
        if not yes:
            click.echo(painted(session.output, relocation.base_lines()), err=True)
        names = ", ".join(branch.branch or MAIN for branch in relocation.branches)
        confirm(f"{names}: the files will be read from {_targets(relocation)}.", yes)
    if not dry_run:
        relocation = relocate(session.location, old, new)
    session.output.show(relocation.as_record(), painted(session.output, relocation.lines()))
    return _exit_code(relocation)


def _targets(relocation: Relocation) -> str:
    return ", ".join(sorted({base.target.uri for base in relocation.repaired if base.target is not None}))


def _exit_code(relocation: Relocation) -> int:
    states = {base.state for base in relocation.problems}
    if not states:
        return 0
    return _NO_ANSWER if "unreachable" in states else _NOT_FOUND
