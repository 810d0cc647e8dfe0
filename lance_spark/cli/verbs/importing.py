"""``lance-git import``: appends the rows of files, without Spark."""

from __future__ import annotations

from typing import Any

import click

from lance_spark.cli.output import confirm, version_json
from lance_spark.cli.program import dry_run_option, verb, yes_option
from lance_spark.cli.session import Session
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.core.storage_options import PREFIX
from lance_spark.core.texts import counted
from lance_spark.storage.datasets import locate_typed


@verb("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--overwrite", is_flag=True, help="Replace the rows of the branch; older versions stay.")
@click.option("--merge-schema", is_flag=True, help="Add columns that the dataset lacks.")
@click.option("-m", "message", help="A message of the new version, for the log.")
@dry_run_option
@yes_option
@click.pass_obj
def command(
    session: Session, /, files: tuple[str, ...], overwrite: bool, dry_run: bool, yes: bool, **given: Any
) -> None:
    """Append the rows of Parquet, Arrow, CSV or JSON files.

    FILE is a path or a URI. The rows of all files become one version of the current branch, or none. Values are read
    with the types of the dataset's columns. Create the dataset first: lance-git init URI --from FILE.
    """
    from lance_spark.storage.datasets import pin_latest
    from lance_spark.workspace.import_rows import import_files

    branch = session.own_branch
    sources = [locate_typed(file, session.storage) for file in files]
    options = {PREFIX + key: value for key, value in session.storage.items()} | {"path": session.location.uri}
    options |= {"branch": branch or MAIN} | ({"merge_schema": "true"} if given["merge_schema"] else {})
    options |= {"commit_message": given["message"]} if given["message"] else {}
    if overwrite and not dry_run:
        confirm(f"The rows of '{branch or MAIN}' will be replaced; its versions stay.", yes)
    done = import_files(session.location, branch, sources, options, overwrite, dry_run)
    pin = pin_latest(session.location, branch)
    where = PinnedVersion(branch, pin.version)
    if dry_run:
        said = f"{counted(done.rows, 'row')} would be {'written' if overwrite else 'appended'} to {branch or MAIN}."
    elif done.version is None:
        said = "The files have no rows; nothing was changed."
    else:
        said = f"{counted(done.rows, 'row')} {'written' if overwrite else 'appended'} as {where}."
    data = {"files": list(files), "rows": done.rows, "version": None if done.version is None else version_json(where)}
    session.did("import", dry_run, said, **data)
