"""``lance-git relocate``: after the dataset was moved or copied, let branches read from where it is now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from lance_spark.cli.command import dry_run_option, verb, yes_option
from lance_spark.cli.confirm import confirm
from lance_spark.cli.output import Output, counted
from lance_spark.cli.session import Session
from lance_spark.refs.names import MAIN

if TYPE_CHECKING:
    from lance_spark.replay.relocation import Relocated, Relocation

_NOT_FOUND, _NO_ANSWER = 10, 20


@verb("relocate")
@click.option("--from", "old", metavar="URI", help="A place where the files were; without, it is found out.")
@click.option("--to", "new", metavar="URI", help="Where they are now, if not in this dataset.")
@dry_run_option
@yes_option
@click.pass_obj
def command(session: Session, old: str | None, new: str | None, dry_run: bool, yes: bool) -> int:
    """Repair branches after a move or a copy.

    A branch names the files of its parent by their absolute place. After the dataset was moved, the branch breaks;
    after it was copied, the branch reads from the original. This checks the base paths of main and of every branch,
    and makes a version that reads from here where every file is here. A clone whose source was moved needs --from
    OLD --to NEW.
    """
    from lance_spark.actions.relocate import relocate

    found = relocate(session.location, old, new, dry_run=True)
    if found.branches and not dry_run:
        if not yes:
            click.echo(_table(session.output, found), err=True)
        names = ", ".join(branch.branch or MAIN for branch in found.branches)
        confirm(f"{names}: the files will be read from {_targets(found)}.", yes)
    if not dry_run:
        found = relocate(session.location, old, new)
    session.output.show(found.as_record(), "\n".join(_lines(session.output, found)))
    return _exit_code(found)


def _targets(found: Relocation) -> str:
    return ", ".join(sorted({base.target.uri for base in found.repaired if base.target is not None}))


def _lines(output: Output, found: Relocation) -> Iterator[str]:
    if not found.bases:
        yield "No branch has a base path: nothing is read from anywhere else."
        return
    yield _table(output, found)
    for base in found.problems:
        few = ", ".join(base.missing[:3]) + (", ..." if len(base.missing) > 3 else "")
        why = f"{len(base.missing)} of its files are not in {base.target.uri}: {few}" if base.target else base.state
        if base.state == "unclear":
            why = "files of these names are here, but such names are given more than once; say it with --from"
        yield f"  {base.branch or MAIN}: {base.path} is left alone: {why}"
    yield from (_done(branch, found.dry_run) for branch in found.branches)
    if not found.branches:
        yield "Nothing to do."
    yield from (f"  note: {note}" for note in found.notes)


def _table(output: Output, found: Relocation) -> str:
    rows = [
        (
            base.branch or MAIN,
            base.path,
            base.state,
            f"{base.files:,}",
            base.target.uri if base in found.repaired and base.target is not None else "",
        )
        for base in found.bases
    ]
    bright = [row for row, base in enumerate(found.bases) if base in found.repaired]
    return output.table(("branch", "base path", "state", "files", "read from"), rows, right=(3,), bright=bright)


def _done(branch: Relocated, dry_run: bool) -> str:
    name = branch.branch or MAIN
    indexes = f" and {counted(len(branch.indexes), 'index')}" if branch.indexes else ""
    indexes = indexes.replace("indexs", "indexes")
    said = [
        f"{name}: {counted(branch.files, 'file')}{indexes} {'would be' if dry_run else 'are'} read from the new place"
    ]
    said[0] += "" if branch.version is None else f" ({name}@{branch.version})"
    said += [f"indexes to be made anew: {', '.join(branch.dropped)}"] if branch.dropped else []
    said += [f"{counted(branch.older, 'older version')} can only be read with the old place"] if branch.older else []
    said += [f"tags on those: {', '.join(branch.tags)}"] if branch.tags else []
    return "; ".join(said) + "."


def _exit_code(found: Relocation) -> int:
    states = {base.state for base in found.problems}
    if not states:
        return 0
    return _NO_ANSWER if "unreachable" in states else _NOT_FOUND
