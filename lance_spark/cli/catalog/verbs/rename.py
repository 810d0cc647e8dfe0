"""``lance-catalog rename``: renames a table, or moves it to another namespace."""

from __future__ import annotations

import click

from lance_spark.cli.catalog.session import CatalogSession
from lance_spark.cli.program import dry_run_option, verb


@verb("rename")
@click.argument("old")
@click.argument("new")
@dry_run_option
@click.pass_obj
def command(session: CatalogSession, old: str, new: str, dry_run: bool) -> None:
    """Rename a table, or move it.

    NEW may be in another namespace. Only the name changes; data, versions and properties stay. One exception, unless
    the mode is v2: a table in the directory OLD.lance of the root. Its files are first copied to a new directory.
    """
    from lance_spark.catalog.removing import plan_rename, rename

    plan = plan_rename(session.catalog, old, new)
    left = None if dry_run else rename(plan).left_behind
    source, target = plan.table.identifier, plan.target
    text = f"Table '{source}' {'would be' if dry_run else 'was'} renamed to '{target}'"
    if plan.moves:
        text += "; its files would be copied to a new directory" if dry_run else "; its files are in a new directory"
    session.show(
        {
            "action": "rename",
            "old": str(source),
            "new": str(target),
            "files_copied": plan.moves,
            "left_behind": left,
            "dry_run": dry_run,
        },
        f"{text}." + (f"\nFiles that could not be copied stayed in {left}." if left else ""),
    )
