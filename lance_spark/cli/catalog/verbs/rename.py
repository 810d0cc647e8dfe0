"""``lance-catalog rename``: another name for a table, maybe in another namespace."""

from __future__ import annotations

import click

from lance_spark.cli.catalog.session import CatalogSession
from lance_spark.cli.command import dry_run_option, verb


@verb("rename")
@click.argument("old")
@click.argument("new")
@dry_run_option
@click.pass_obj
def command(session: CatalogSession, old: str, new: str, dry_run: bool) -> None:
    """Give a table another name, or move it.

    NEW may be in another namespace. Only the name changes; data, versions and properties stay. A table called
    OLD.lance in the root is the exception while directories count: its files are copied to a new directory first.
    """
    from lance_spark.actions.catalog.dry_run import rehearse_rename
    from lance_spark.actions.catalog.renaming import rename_table
    from lance_spark.catalog.names import identify_table

    catalog = session.catalog
    source, target = identify_table(old), identify_table(new)
    left, copies = None, rehearse_rename(catalog, source, target)
    if not dry_run:
        left = rename_table(catalog, source, target).left_behind
    text = f"Table '{source}' {'would be' if dry_run else 'was'} renamed to '{target}'"
    if copies:
        text += "; its files would be copied to a new directory" if dry_run else "; its files are in a new directory"
    session.show(
        {
            "action": "rename",
            "old": str(source),
            "new": str(target),
            "files_copied": copies,
            "left_behind": left,
            "dry_run": dry_run,
        },
        f"{text}." + (f"\nFiles that could not be taken along stayed in {left}." if left else ""),
    )
